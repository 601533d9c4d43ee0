"""`/login` and `/logout` as turns: the key goes to its file and its provider, and nowhere else."""

import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.testing.provider import Provider, reply, wait
from eca_server.agent.commands.login import MASKED
from eca_server.models.credentials.server_secrets import store_secrets
from tests.eca_server.agent.chat.agent_session import today
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, editor
from tests.eca_server.agent.chat.test_steering import steer
from tests.eca_server.agent.chat.test_subagents import SCOUT, spawn
from tests.eca_server.models.credentials.fake_keyring import FakeKeyring
from tests.eca_server.models.credentials.login_server import come_back, stored_logins
from tests.eca_server.models.credentials.login_server import server as server  # noqa: PLC0414
from tests.promises import within

KEY = "planted-0123456789-key"
CONFIG = {"providers": {"p": {"url": "http://127.0.0.1:9/v1", "models": {"m": {}}}}}


@asynccontextmanager
async def chatting(data: Path, config: Any = None, **environ: str) -> AsyncIterator[Editor]:
    """A session that stores its logins in `data`, and must never show the key."""
    async with editor(config or CONFIG, XDG_DATA_HOME=str(data), **environ) as ours:
        yield ours
        assert KEY not in json.dumps(ours.received)


async def test_a_key_pasted_after_the_command_is_stored_and_shown_nowhere(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    async with chatting(tmp_path) as ours:
        assert "Paste the key of p" in (await ours.turn("/login p")).text
        assert (await ours.turn("word", chat="two", model=ECHO)).answer == "word"
        assert "expected one word" in (await ours.turn(f"my key: {KEY}", model=ECHO)).text
        received = await ours.turn(KEY)
        assert received.types == ["progress", "text", "finished"]
        assert received[1]["text"] == MASKED
        assert "Stored the key of p" in received.text
        assert not ours.connection.chats.open("c").history
        assert ours.connection.models.find("p/m")
        assert (await ours.turn(KEY[:5], model=ECHO)).answer == KEY[:5]
    assert stored_logins(tmp_path) == {"p": {"key": KEY}}
    assert KEY not in caplog.text


async def test_a_key_in_the_command_is_masked_in_the_echo_and_the_next_request_has_it(tmp_path):
    async with Provider([reply("hi")]) as endpoint:
        config = {"providers": {"p": {"url": endpoint.url, "models": {"m": {}}}}}
        async with chatting(tmp_path, config) as ours:
            received = await ours.turn(f"/login p {KEY}")
            assert received[1]["text"] == f"/login p {MASKED}"
            assert (await ours.turn("hello", model="p/m")).answer.startswith("hi")
        assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert stored_logins(tmp_path) == {"p": {"key": KEY}}
    (tmp_path / "data").write_text("no folder")
    async with chatting(tmp_path / "data") as ours:
        assert "Could not store the key of" in (await ours.turn(f"/login p {KEY}")).text
        assert ours.connection.chats.open("c").last_turn_failed


@pytest.mark.parametrize(
    ("providers", "provider", "reason"),
    [
        ({}, "azure", "providers.azure.url is not set"),
        ({"x": {"url": "http://127.0.0.1:9/v1"}}, "x", "`x` has listed no models"),
    ],
)
async def test_a_key_of_a_provider_without_usable_models_is_followed_by_advice(
    providers, provider, reason, tmp_path
):
    async with current({"providers": providers}, data=tmp_path) as ours:
        answer = (await ours.turn(f"/login {provider} {KEY}")).text
        assert ("It cannot be used yet: " in answer) == (reason in answer) == (provider == "azure")
        hint = (await ours.turn("hello", agent="code")).text
        assert f"No model can be used yet: {reason}. " in hint
        assert "`/doctor online`" in hint


@pytest.mark.parametrize("words", ["/btw ", "  /BTW\n/btw  "])
async def test_a_key_in_the_command_of_a_side_question_is_masked_too(words, tmp_path):
    async with current(CONFIG, data=tmp_path) as ours:
        received = await ours.turn(f"{words}/login p {KEY}", model=ECHO)
        assert received[1]["text"] == f"{words}/login p {MASKED}"
        await ours.until(lambda each: "Stored the key of p" in str(each))
        assert KEY not in json.dumps(ours.received)
    assert stored_logins(tmp_path) == {"p": {"key": KEY}}


async def test_a_key_that_is_sent_to_a_running_turn_reaches_no_model(tmp_path):
    async with today(reply("a", wait("go"), "b"), data=tmp_path) as (ours, provider):
        await ours.prompt("task")
        await provider.until(lambda: "go" in provider.reached)
        await steer(ours, "word")
        assert (await ours.prompt("/login openai"))["status"] == "login"
        await steer(ours, KEY, f"/login openai {KEY}", "a sentence is sent")
        provider.open("go")
        await ours.expect_finished(times=2)
        shown = ours.contents().text
        assert shown.count("may be the key that `/login` asks for") == 1
        assert KEY not in json.dumps(ours.received)
        sent = str([each.body for each in provider.requests])
        assert [each in sent for each in (KEY, "word", "a sentence")] == [False, True, True]
        await ours.turn(KEY)
    assert stored_logins(tmp_path) == {"openai": {"key": KEY}}


async def test_a_key_that_is_sent_to_a_subagent_is_masked(tmp_path):
    async with current({**CONFIG, "agent": SCOUT}, data=tmp_path) as ours:
        await ours.prompt(spawn("say half\nwait forever"), model=SCRIPT)
        shown = await ours.until(lambda each: "'text': 'half'" in str(each))
        worker = shown["params"]["chatId"]
        await ours.prompt(f"/login p {KEY}", worker)
        steered = {"chatId": worker, "message": f"/login p {KEY}"}
        await ours.tell("chat/promptSteer", steered)
        await ours.stop(worker)
        await ours.expect_finished()
        assert ours.contents(worker).text.count(f"/login p {MASKED}") == 2  # dropped and repeated
        assert KEY not in json.dumps(ours.received)
    assert stored_logins(tmp_path) == {}


async def test_a_login_is_given_up(tmp_path):
    async with chatting(tmp_path) as ours:
        for end in ("cancel", "", "/costs", "what is this?", "stop", "clear", "delete"):
            chat = f"chat {end}"
            await ours.turn("/login p", chat)
            if end == "stop":
                await ours.stop(chat)
            elif end in ("clear", "delete"):
                await ours.ask(f"chat/{end}", {"chatId": chat, "messages": True})
            else:
                assert (await ours.turn(end, chat, model=ECHO))[1]["text"] == end
            assert (await ours.turn("word", chat, model=ECHO)).answer == "word"
    assert stored_logins(tmp_path) == {}


async def test_login_lists_providers_and_where_their_keys_are(tmp_path):
    async with chatting(tmp_path, GROQ_API_KEY=KEY) as ours:
        await ours.turn(f"/login openai {KEY}")
        lines = (await ours.turn("/login")).text.splitlines()
        assert "- p" in lines
        assert "- groq: key found in GROQ_API_KEY" in lines
        assert "- openai: key found in a stored login" in lines
        lines = (await ours.turn("/login nobody")).text.splitlines()
        assert lines[0].startswith(f"/login {MASKED}There is no provider with this name.")
        assert "- p" in lines
        store_secrets(ours.connection.parts.logins.get(), "s", {"1": KEY})
        answer = (await ours.turn("/logout mcp-server:s")).text
        assert answer.endswith("with one of the stored logins: openai.")
    assert set(stored_logins(tmp_path)) == {"openai", "mcp-server:s"}


async def test_a_configured_key_that_counts_before_the_login_is_named(tmp_path):
    config = {"providers": {"p": {"url": "http://127.0.0.1:9", "key": "configured-0123"}}}
    async with chatting(tmp_path, config) as ours:
        answer = (await ours.turn(f"/login p {KEY}")).text
        assert "The key in providers.p.key takes precedence over it." in answer
        assert "configured-0123" not in json.dumps(ours.received)
        answer = (await ours.turn("/logout p")).text
        assert "Removed the stored key of p. The key in providers.p.key is used now" in answer


async def test_a_damaged_file_of_logins_is_reported_at_the_start_and_set_aside(tmp_path):
    file = tmp_path / "eca-python" / "logins.json"
    file.parent.mkdir()
    file.write_text("{")
    async with chatting(tmp_path) as ours:
        assert (await ours.turn("/doctor")).text.count(f"{file}: expected JSON") == 1
        assert str(file) in str(ours.notified("$/showMessage"))
        assert file.read_text() == "{"
        answer = (await ours.turn(f"/login openai {KEY}")).text
        [aside] = file.parent.glob("logins.json.damaged-*")
        assert f"it was renamed to {aside}" in answer
    assert stored_logins(tmp_path) == {"openai": {"key": KEY}}


async def test_a_login_in_the_systems_keyring_counts_after_a_restart(tmp_path, monkeypatch):
    keyring = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    config = {"keyring": True, "providers": {"openai": {"models": {"gpt": {}}}}}
    async with chatting(tmp_path, config) as ours:
        answer = (await ours.turn(f"/login openai {KEY}")).text
        assert "in the system's keyring." in answer
    assert stored_logins(tmp_path) == {"openai": {"in": "keyring"}}
    async with chatting(tmp_path, config) as ours:
        while "openai/gpt" not in ours.connection.models.names:
            await ours.until(lambda _: True)
        await ours.turn("/logout openai")
    assert keyring.stored == {}


PENDING = {"error": "authorization_pending"}


async def wait_for_text(ours: Editor, words: str) -> str:
    while words not in (so_far := ours.contents().text):
        await ours.until(lambda _: True)
    return so_far


async def test_a_device_login_is_one_turn(server, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    planned = server.by_device()
    server.says["/token"] = [(200, PENDING)] * 3
    async with chatting(tmp_path, planned) as ours:
        received = await ours.turn("/login p")
        assert "https://login.example/device" in received.text
        assert "`ABCD-1234`" in received.text
        assert "Stored the login of p" in received.text
        assert {"type": "progress", "state": "running", "text": "Waiting for the login"} in received
        assert received.finishes == 1
        assert stored_logins(tmp_path)["p"]["access"] == "access-1"
        assert ours.connection.models.find("p/m")
        assert (await ours.turn("a word", model=ECHO)).answer == "a word"
        output = json.dumps(ours.received) + caplog.text
        for secret in ("access-1", "refresh-1", "device-code-planted"):
            assert secret not in output
        assert "Removed the stored login of p." in (await ours.turn("/logout p")).text
    assert stored_logins(tmp_path) == {}


@pytest.mark.requirement("CHAT-9")
async def test_a_browser_login_is_one_turn(server, tmp_path):
    planned = server.config(authorizeUrl="https://login.example/authorize")
    async with chatting(tmp_path, planned) as ours:
        answer = await ours.prompt("/login p")
        assert answer["status"] == "login"
        shown = await wait_for_text(ours, "To cancel the login, stop this prompt")
        [link] = [word for word in shown.split() if word.startswith("https://login.example")]
        assert await come_back(link, "code=code-planted") == 200
        await ours.expect_finished()
        assert "code-planted" not in json.dumps(ours.received)
    assert stored_logins(tmp_path)["p"]["refresh"] == "refresh-1"


@pytest.mark.requirement("W-23")
@pytest.mark.parametrize("way", ["deviceUrl", "authorizeUrl"])
async def test_a_stop_ends_a_login_that_waits(server, tmp_path, way):
    server.says["/token"] = [(200, PENDING)] * 100_000
    planned = server.config(**{way: f"{server.url}/device"})
    async with chatting(tmp_path, planned) as ours:
        await ours.prompt("/login p")
        await wait_for_text(ours, "To cancel the login, stop this prompt")
        with within(0.5):
            await ours.expect_stopped()
        assert ours.contents().finishes == 1
        assert (await ours.turn("word", model=ECHO)).answer == "word"
    assert stored_logins(tmp_path) == {}


async def test_a_key_that_is_pasted_while_a_login_waits_is_no_prompt(server, tmp_path):
    planned = server.by_device()
    arrival, go_on = trio.Event(), trio.Event()

    async def hold() -> None:
        arrival.set()
        await go_on.wait()

    async with chatting(tmp_path, planned) as ours:
        server.before_answer = hold
        await ours.prompt("/login p")
        await arrival.wait()
        answer = await ours.prompt(KEY, model=ECHO)
        assert answer["status"] == "prompting"
        go_on.set()
        await ours.expect_finished(times=2)
        assert MASKED in ours.contents().text
    assert stored_logins(tmp_path) == {"p": {"key": KEY}}


@pytest.mark.parametrize("code", ["access_denied", "expired_token"])
async def test_a_login_that_fails_is_reported(server, tmp_path, code):
    planned = server.by_device()
    server.says["/token"] = [(200, {"error": code, "error_description": "You said no"})]
    unreachable = server.config(deviceUrl="http://127.0.0.1:1/device")
    async with chatting(tmp_path, unreachable) as ours:
        assert "Could not log in to p: cannot connect" in (await ours.turn("/login p")).text
    async with chatting(tmp_path, planned) as ours:
        received = await ours.turn("/login p")
        assert "Could not log in to p: You said no. Nothing was stored." in received.text
        assert (await ours.turn("word", model=ECHO)).answer == "word"
    assert stored_logins(tmp_path) == {}


async def test_a_key_may_be_pasted_where_there_is_a_login_too(server, tmp_path):
    async with chatting(tmp_path, server.by_device()) as ours:
        assert (await ours.prompt("/login p key"))["status"] == "login"
        await ours.expect_finished()
        assert "Paste the key of p" in ours.contents().text
        await ours.turn(KEY)
        answer = (await ours.turn("/login openrouter")).text
        assert "Paste the key" in answer
        assert "`/login openrouter browser`" in answer
        await ours.turn("cancel")
        for name, advice in (
            ("ollama", "`/model` lists its models while it runs."),
            ("vllm", 'add `"vllm": {}` to `providers` in the configuration.'),
        ):
            answer = (await ours.turn(f"/login {name}")).text
            assert "only if it was started with one" in answer
            assert answer.endswith(advice)
        await ours.turn("cancel")
        answer = (await ours.turn("/login github-copilot")).text
        assert "providers.github-copilot.auth.clientId" in answer
        assert server.requests == []
    assert stored_logins(tmp_path) == {"p": {"key": KEY}}
