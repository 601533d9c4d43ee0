"""Servers at a URL that lead elsewhere, want a login, are not there, or are left."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.server_log import ServerLog
from tests.eca_server.agent.mcp.web import (
    Exchange,
    call,
    fails_to_start,
    session_at,
    text_of,
    until_left,
    web_server,
)


async def test_redirects_that_keep_the_body_are_followed_and_remembered():
    async def leads_on(exchange: Exchange) -> None:
        if exchange.request.path == "/mcp":
            await exchange.text(307, "", location="/elsewhere")
        else:
            await server.be_decent(exchange)

    async with web_server() as server:
        server.on["initialize"] = leads_on
        async with session_at(server.url, headers={"X-Key": "k"}) as session:
            assert text_of(await call(session)) == "called"
        assert [e.request.path for e in server.of("initialize")] == ["/mcp", "/elsewhere"]
        assert server.of("tools/call")[0].request.path == "/elsewhere"


async def test_the_users_headers_are_not_sent_to_a_different_origin():
    async with web_server() as server, web_server() as other:
        target = other.url
        server.on["initialize"] = lambda e: e.text(307, "", location=target)
        error = await fails_to_start(server.url, headers={"Authorization": "Bearer abcdefgh1"})
        assert other.seen == []
        assert "must not go" in error.message
        async with session_at(server.url) as session:
            assert text_of(await call(session)) == "called"
    assert "authorization" not in other.seen[0].headers


class Remembering(HTTPClient):
    """Knows which URLs may be shown who the user is."""

    def __init__(self) -> None:
        super().__init__()
        self.shows: dict[str, bool] = {}

    def stream(self, method: str, url: str, **more: Any) -> Any:
        self.shows[url] = more.get("shows_certificate", False)
        return super().stream(method, url, **more)


async def test_the_users_certificate_is_not_sent_to_a_different_origin():
    async with web_server() as server, web_server() as other, Remembering() as http:
        target = other.url
        server.on["initialize"] = lambda e: e.text(307, "", location=target)
        async with session_at(server.url, http=http):
            pass
    assert http.shows == {server.url: True, other.url: False}


async def test_redirects_come_to_an_end():
    async with web_server() as server:
        server.on["initialize"] = lambda e: e.text(307, "", location="/mcp")
        error = await fails_to_start(server.url)
    assert "more than 3 redirects" in error.message


async def test_a_server_that_requires_a_login_is_an_error_with_the_reason():
    async with web_server() as server:
        server.on["initialize"] = lambda e: e.text(401, "who are you?")
        error = await fails_to_start(server.url)
        assert (error.kind, "who are you?" in error.message) == ("login", True)
        error = await fails_to_start(server.url, headers={"Authorization": "Bearer abcdefgh1"})
    assert error.kind == "start"
    assert "configured `Authorization`" in error.message


async def test_a_login_that_ends_in_the_middle_ends_the_session():
    async with web_server() as server, session_at(server.url) as session:
        server.on["tools/call"] = lambda e: e.text(401)
        with pytest.raises(MCPError) as raised:
            await call(session)
        assert raised.value.kind == "login"
        await session.ended.wait()


async def test_a_refusal_shows_no_key_that_it_quotes(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    key = "hunter2hunter2"
    async with web_server() as server:
        server.on["tools/call"] = lambda e: e.text(500, f"bad header {key}")
        server.on["GET"] = lambda e: e.text(500, f"bad header {key}")
        async with session_at(server.url, headers={"X-API-Key": key}) as session:
            result = await call(session)
    assert "bad header ***" in text_of(result)
    assert key not in caplog.text


@pytest.mark.parametrize("before", range(150, 201, 10))
async def test_a_refusal_shows_no_part_of_a_key_at_its_cut(before: int):
    async with web_server() as server:
        server.on["tools/call"] = lambda e: e.text(500, f"{'x' * (before - 1)} hunter2hunter2")
        async with session_at(server.url, headers={"X-API-Key": "hunter2hunter2"}) as session:
            result = await call(session)
    assert "hun" not in text_of(result)


async def test_a_server_that_does_not_listen_yet_is_asked_three_times():
    async with web_server() as server:
        url = server.url
    error = await fails_to_start(url)
    assert error.kind == "start"
    assert "cannot be reached" in error.message


async def test_an_ended_server_ends_the_session():
    async with web_server() as gone:
        url = gone.url
    async with web_server() as server, session_at(server.url) as session:
        server.on["tools/call"] = lambda e: e.text(308, "", location=url)
        with pytest.raises(MCPError) as raised:
            await call(session)
        assert raised.value.kind == "closed"
        await session.ended.wait()


async def test_a_farewell_that_is_not_answered_is_not_waited_for_long():
    async with web_server() as server:
        server.on["DELETE"] = until_left
        began = trio.current_time()
        async with session_at(server.url, ServerLog("web")):
            pass
        assert trio.current_time() - began < 2.5
        assert server.of("DELETE")
