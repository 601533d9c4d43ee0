"""Servers at a URL that lead elsewhere, want a login, are not there, or are left."""

import logging
from typing import Any

import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_server.agent.mcp.errors import MCPError
from tests.eca_server.agent.mcp import web

BEARER = {"Authorization": "Bearer abcdefgh1"}
KEY = {"X-API-Key": "hunter2hunter2"}


async def test_redirects_that_keep_the_body_are_followed_and_remembered():
    async def leads_on(exchange: web.Exchange) -> None:
        if exchange.request.path == "/mcp":
            await exchange.text(307, "", location="/elsewhere")
        else:
            await exchange.server.be_decent(exchange)

    async with web.serving({"initialize": leads_on}) as (server, session):
        assert web.text_of(await web.call(session)) == "called"
    assert [e.request.path for e in server.of("initialize")] == ["/mcp", "/elsewhere"]
    assert server.of("tools/call")[0].request.path == "/elsewhere"


class Remembering(HTTPClient):
    """Knows which URLs may be shown who the user is."""

    def __init__(self) -> None:
        super().__init__()
        self.shows: dict[str, bool] = {}

    def stream(self, method: str, url: str, **more: Any) -> Any:
        self.shows[url] = more.get("shows_certificate", False)
        return super().stream(method, url, **more)


async def test_the_users_headers_and_certificate_are_not_sent_to_a_different_origin():
    async with web.web_server() as server, web.web_server() as other, Remembering() as http:
        target = other.url
        server.on["initialize"] = lambda e: e.text(307, "", location=target)
        error = await web.fails_to_start(server.url, headers=BEARER)
        assert other.seen == []
        assert "must not go" in error.message
        async with web.session_at(server.url, http=http) as session:
            assert web.text_of(await web.call(session)) == "called"
        assert "authorization" not in other.seen[0].headers
        assert http.shows == {server.url: True, other.url: False}
        server.on["initialize"] = lambda e: e.text(307, "", location="/mcp")
        assert "more than 3 redirects" in (await web.fails_to_start(server.url)).message


async def test_a_server_that_requires_a_login_is_an_error_with_the_reason():
    async with web.web_server() as server:
        server.on["initialize"] = lambda e: e.text(401, "who are you?")
        error = await web.fails_to_start(server.url)
        assert (error.kind, "who are you?" in error.message) == ("login", True)
        error = await web.fails_to_start(server.url, headers=BEARER)
    assert error.kind == "start"
    assert "configured `Authorization`" in error.message


async def test_a_login_that_ends_in_the_middle_or_is_wanted_of_a_notification_ends_the_session():
    async with web.serving({"tools/call": lambda e: e.text(401)}) as (_, session):
        with pytest.raises(MCPError) as raised:
            await web.call(session)
        assert raised.value.kind == "login"
        await session.ended.wait()
    async with web.serving({"notifications/initialized": lambda e: e.text(401)}) as (_, session):
        with trio.fail_after(5):
            await session.ended.wait()
        assert session.error is not None
        assert session.error.kind == "login"


async def test_a_refusal_shows_no_key_that_it_quotes_nor_a_part_at_its_cut(caplog):
    caplog.set_level(logging.DEBUG)
    on = {"GET": lambda e: e.text(500, "bad header hunter2hunter2")}
    async with web.serving(on, headers=KEY) as (server, session):
        server.on["tools/call"] = server.on["GET"]
        assert "bad header ***" in web.text_of(await web.call(session))
        for before in range(150, 201, 10):
            text = f"{'x' * (before - 1)} hunter2hunter2"
            server.on["tools/call"] = lambda e, text=text: e.text(500, text)
            assert "hun" not in web.text_of(await web.call(session))
    assert "hunter2" not in caplog.text


async def test_a_server_that_is_not_there_is_asked_three_times_and_an_ended_one_ends_the_session():
    async with web.web_server() as gone:
        url = gone.url
    error = await web.fails_to_start(url)
    assert error.kind == "start"
    assert "cannot be reached" in error.message
    async with web.serving({"tools/call": lambda e: e.text(308, "", location=url)}) as (_, session):
        with pytest.raises(MCPError) as raised:
            await web.call(session)
        assert raised.value.kind == "closed"
        await session.ended.wait()


async def test_a_farewell_that_is_not_answered_is_not_waited_for_long():
    began = trio.current_time()
    async with web.serving({"DELETE": web.until_left}) as (server, _):
        pass
    assert trio.current_time() - began < 2.5
    assert server.of("DELETE")
