"""`/login` without a key, as turns: in the browser, by a code; stopped, failed, overtaken."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_server.agent.commands.login import MASKED
from tests.eca_server.agent.chat.editor import ECHO, Editor, finishes, text
from tests.eca_server.agent.chat.test_login import KEY, chatting, stored
from tests.eca_server.models.credentials.login_server import LoginServer, login_server

BEGUN = {
    "device_code": "device-code-planted",
    "user_code": "ABCD-1234",
    "verification_uri": "https://login.example/device",
    "interval": 0.01,
}
PENDING = {"error": "authorization_pending"}


@pytest.fixture
async def server() -> AsyncIterator[LoginServer]:
    async with login_server() as running:
        yield running


def config(server: LoginServer, **auth: str) -> dict[str, Any]:
    auth = {"clientId": "ours", "tokenUrl": f"{server.url}/token", **auth}
    provider = {"url": "http://127.0.0.1:9/v1", "models": {"m": {}}, "auth": auth}
    return {"providers": {"p": provider}}


def by_device(server: LoginServer) -> dict[str, Any]:
    server.says["/device"] = [(200, BEGUN)]
    return config(server, deviceUrl=f"{server.url}/device")


async def said(ours: Editor, words: str) -> str:
    while words not in (so_far := text(ours.contents())):
        await ours.until(lambda _: True)
    return so_far


async def test_a_device_login_is_one_turn(server, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    planned = by_device(server)
    server.says["/token"] = [(200, PENDING)] * 3
    async with chatting(tmp_path, planned) as ours:
        received = await ours.turn("/login p")
        assert "https://login.example/device" in text(received)
        assert "`ABCD-1234`" in text(received)
        assert "Stored the login of p" in text(received)
        assert {"type": "progress", "state": "running", "text": "Waiting for the login"} in received
        assert finishes(received) == 1
        assert stored(tmp_path)["p"]["access"] == "access-1"
        assert ours.connection.models.find("p/m")
        assert text((await ours.turn("a word", model=ECHO))[2:]) == "a word"
        seen = json.dumps(ours.seen) + caplog.text
        for secret in ("access-1", "refresh-1", "device-code-planted"):
            assert secret not in seen
        assert "Removed the stored key of p" in text(await ours.turn("/logout p"))
    assert stored(tmp_path) == {}


@pytest.mark.requirement("CHAT-9")
async def test_a_browser_login_is_one_turn(server, tmp_path):
    planned = config(server, authorizeUrl="https://login.example/authorize")
    async with chatting(tmp_path, planned) as ours, HTTPClient() as browser:
        asked = await ours.prompt("/login p")
        assert asked["status"] == "login"
        shown = await said(ours, "To cancel the login, stop this prompt")
        [link] = [word for word in shown.split() if word.startswith("https://login.example")]
        fields = {name: value[0] for name, value in parse_qs(urlsplit(link).query).items()}
        back = f"{fields['redirect_uri']}?code=code-planted&state={fields['state']}"
        async with browser.stream("GET", back) as response:
            assert response.status == 200
        await ours.expect_finished()
        assert "code-planted" not in json.dumps(ours.seen)
    assert stored(tmp_path)["p"]["refresh"] == "refresh-1"


@pytest.mark.requirement("W-23")
@pytest.mark.parametrize("way", ["deviceUrl", "authorizeUrl"])
async def test_a_stop_ends_a_login_that_waits(server, tmp_path, way):
    server.says["/device"] = [(200, BEGUN)]
    server.says["/token"] = [(200, PENDING)] * 100_000
    planned = config(server, **{way: f"{server.url}/device"})
    async with chatting(tmp_path, planned) as ours:
        await ours.prompt("/login p")
        await said(ours, "To cancel the login, stop this prompt")
        began = trio.current_time()
        await ours.expect_stopped()
        assert trio.current_time() - began < 0.5
        assert finishes(ours.contents()) == 1
        assert text((await ours.turn("word", model=ECHO))[2:]) == "word"
    assert stored(tmp_path) == {}


async def test_a_key_that_is_pasted_while_a_login_waits_is_no_prompt(server, tmp_path):
    planned = by_device(server)
    asked, go_on = trio.Event(), trio.Event()

    async def hold() -> None:
        asked.set()
        await go_on.wait()

    async with chatting(tmp_path, planned) as ours:
        server.before_answer = hold
        await ours.prompt("/login p")
        await asked.wait()
        answer = await ours.prompt(KEY, model=ECHO)
        assert answer["status"] == "prompting"
        go_on.set()
        await ours.expect_finished(times=2)
        assert MASKED in text(ours.contents())
    assert stored(tmp_path) == {"p": {"key": KEY}}


@pytest.mark.parametrize("code", ["access_denied", "expired_token"])
async def test_a_login_that_fails_is_reported(server, tmp_path, code):
    planned = by_device(server)
    server.says["/token"] = [(200, {"error": code, "error_description": "You said no"})]
    unreachable = config(server, deviceUrl="http://127.0.0.1:1/device")
    async with chatting(tmp_path, unreachable) as ours:
        assert "Could not log in to p: cannot connect" in text(await ours.turn("/login p"))
    async with chatting(tmp_path, planned) as ours:
        received = await ours.turn("/login p")
        assert "Could not log in to p: You said no. Nothing was stored." in text(received)
        assert text((await ours.turn("word", model=ECHO))[2:]) == "word"
    assert stored(tmp_path) == {}


async def test_a_key_may_be_pasted_where_there_is_a_login_too(server, tmp_path):
    async with chatting(tmp_path, by_device(server)) as ours:
        assert (await ours.prompt("/login p key"))["status"] == "login"
        await ours.expect_finished()
        assert "Paste the key of p" in text(ours.contents())
        await ours.turn(KEY)
        said = text(await ours.turn("/login openrouter"))
        assert "Paste the key" in said
        assert "`/login openrouter browser`" in said
        await ours.turn("cancel")
        said = text(await ours.turn("/login github-copilot"))
        assert "providers.github-copilot.auth.clientId" in said
        assert server.requests == []
    assert stored(tmp_path) == {"p": {"key": KEY}}
