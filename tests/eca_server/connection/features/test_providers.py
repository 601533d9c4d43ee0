"""Providers and logins to them, as on a client's settings page."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from eca_protocol.errors import HTTPError
from eca_protocol.http_server import serve
from eca_server.models.credentials import flows
from tests.eca_server.agent.chat.current import refused
from tests.eca_server.agent.chat.editor import Editor, editor
from tests.eca_server.connection.features.session import reload, until_shown
from tests.eca_server.models.credentials.login_server import LoginServer, come_back, stored_logins
from tests.eca_server.models.credentials.login_server import server as server  # noqa: PLC0414

KEY = "planted-0123456789-key"


@asynccontextmanager
async def page(
    folder: Path, config: dict[str, Any] | None = None, **environ: str
) -> AsyncIterator[Editor]:
    environ = {"XDG_DATA_HOME": str(folder), **environ}
    async with editor(config, started=False, **environ) as ours:
        await ours.start(initializationOptions={"protocolRevision": "current"})
        yield ours
    assert KEY not in json.dumps(ours.received)


async def providers(ours: Editor) -> dict[str, Any]:
    listed = (await ours.ask("providers/list", {}))["providers"]
    return {each["id"]: each for each in listed}


async def updated(ours: Editor, provider: str) -> dict[str, Any]:
    """Read until the provider is announced again."""
    return await ours.notice("providers/updated", id=provider)


async def test_each_provider_is_listed_with_its_key_s_place_and_its_models(tmp_path):
    model = {"cost": {"input": 1, "output": 2.5}, "imageInput": False}
    corp = {"url": "https://corp.example", "key": KEY, "models": {"m": model}}
    here = {"url": "http://127.0.0.1:9", "models": {"n": {}}}
    nokey = {"url": "https://x.example", "models": {"o": {}}}
    config = {"providers": {"corp": corp, "here": here, "nokey": nokey}}
    async with page(tmp_path, config, ANTHROPIC_API_KEY=KEY) as ours:
        listing = await providers(ours)
    auth = {name: each["auth"] for name, each in listing.items()}
    assert auth["corp"] == {"status": "authenticated", "type": "api-key", "source": "config"}
    assert auth["anthropic"] == {
        "status": "authenticated", "type": "api-key", "source": "env", "envVar": "ANTHROPIC_API_KEY"
    }  # fmt: skip
    assert auth["openai"] == auth["nokey"] == {"status": "unauthenticated"}
    assert auth["here"] == auth["simulator"] == {"status": "local"}
    assert auth["ollama"] == auth["vllm"] == {"status": "not-running"}
    assert [name for name, each in listing.items() if each["configured"]] == [
        "corp", "here", "nokey", "anthropic", "simulator",
    ]  # fmt: skip
    (listed_model,) = listing["corp"]["models"]
    assert (listed_model["id"], listed_model["cost"]) == ("m", {"input": 1, "output": 2.5})
    assert listed_model["capabilities"] == {
        "reason": False, "vision": False, "tools": True, "webSearch": False
    }  # fmt: skip
    keys = {name: [each["key"] for each in listing[name]["login"]["methods"]] for name in auth
            if "login" in listing[name]}  # fmt: skip
    assert keys["openai"] == ["api-key"]
    assert keys["openrouter"] == ["browser", "api-key"]
    assert "simulator" not in keys


async def test_a_key_is_typed_in_counts_at_once_and_is_forgotten_again(tmp_path):
    async with page(tmp_path) as ours:
        assert (await providers(ours))["openai"]["auth"]["status"] == "unauthenticated"
        form = await ours.ask("providers/login", {"provider": "openai"})
        assert form["action"] == "input"
        ((key, kind),) = [(field["key"], field["type"]) for field in form["fields"]]
        assert kind == "secret"
        login_input = {"provider": "openai", "data": {key: f" {KEY}\n"}}
        assert await ours.ask("providers/loginInput", login_input) == {"action": "done"}
        news = ours.notified("providers/updated")
        assert [(each["id"], each["auth"]) for each in news] == [
            ("openai", {"status": "authenticated", "type": "api-key", "source": "login"})
        ]
        assert news[0]["models"]
        assert stored_logins(tmp_path) == {"openai": {"key": KEY}}
        assert await ours.ask("providers/logout", {"provider": "openai"}) == {}
        assert (await providers(ours))["openai"]["auth"] == {"status": "unauthenticated"}
        assert await ours.ask("providers/logout", {"provider": "openai"}) == {}
    assert stored_logins(tmp_path) == {}


async def test_a_login_and_a_logout_in_a_second_editor_count_too(tmp_path):
    async with page(tmp_path) as ours, page(tmp_path) as second:
        await providers(ours)
        for method, params, status in (
            ("providers/loginInput", {"data": {"api-key": KEY}}, "authenticated"),
            ("providers/logout", {}, "unauthenticated"),
        ):
            await second.ask(method, {"provider": "openai", **params})
            await reload(ours)
            assert (await updated(ours, "openai"))["auth"]["status"] == status


async def test_a_login_with_a_code_continues_behind_the_answer(tmp_path, server):
    server.says["/token"] = [(200, {"error": "authorization_pending"})] * 3
    async with page(tmp_path, server.by_device()) as ours:
        await providers(ours)
        ways = await ours.ask("providers/login", {"provider": "p"})
        assert ways["action"] == "choose-method"
        assert [each["key"] for each in ways["methods"]] == ["device-code", "api-key"]
        begun = await ours.ask("providers/login", {"provider": "p", "method": "device-code"})
        assert (begun["action"], begun["url"], begun["code"]) == (
            "device-code", "https://login.example/device", "ABCD-1234",
        )  # fmt: skip
        auth = (await updated(ours, "p"))["auth"]
        assert (auth["status"], auth["type"], auth["source"]) == (
            "authenticated", "oauth", "login",
        )  # fmt: skip
        assert auth["expiresAt"] > 1e9
        with_key = {"provider": "p", "method": "api-key"}
        assert (await ours.ask("providers/login", with_key))["action"] == "input"
        for secret in ("access-1", "refresh-1", "device-code-planted"):
            assert secret not in json.dumps(ours.received)


async def test_a_login_that_was_revoked_is_shown_as_expired(tmp_path, server):
    revoked = {"access_token": "access-0", "refresh_token": "revoked", "expires_in": 0}
    server.says["/token"] = [(200, revoked)]
    async with page(tmp_path, server.by_device()) as ours:
        await providers(ours)
        await ours.ask("providers/login", {"provider": "p", "method": "device-code"})
        assert (await updated(ours, "p"))["auth"]["status"] == "authenticated"
        await ours.turn("say hi", model="p/m")
        assert (await providers(ours))["p"]["auth"]["status"] == "expired"


async def test_a_login_in_the_browser_that_is_begun_again_counts_once(tmp_path, server):
    async with serve(LoginServer().handle) as other:
        port = other.port
    authorize = "https://login.example/authorize"
    config = server.config(authorizeUrl=authorize, redirectPort=port)
    async with page(tmp_path, config) as ours:
        await providers(ours)
        begin = {"provider": "p", "method": "browser"}
        first, *_, last = [await ours.ask("providers/login", begin) for _ in range(9)]
        assert first["action"] == last["action"] == "authorize"
        assert first["url"] != last["url"]
        assert await come_back(first["url"]) == 404
        assert await come_back(last["url"]) == 200
        assert (await updated(ours, "p"))["auth"]["status"] == "authenticated"


async def test_logins_of_several_providers_with_one_port_all_succeed(tmp_path, server):
    async with serve(LoginServer().handle) as other:
        port = other.port
    names = ("p", "q", "r")
    config = server.config(*names, authorizeUrl="https://login.example/page", redirectPort=port)
    async with page(tmp_path, config) as ours:
        await providers(ours)
        begin = [
            ours.request("providers/login", {"provider": name, "method": "browser"})
            for name in names
        ]
        await ours.send(*begin)
        begun = [await ours.answer(request) for request in begin]
        for name, each in reversed([*zip(names, begun, strict=True)]):
            assert await come_back(each["url"]) == 200
            assert (await updated(ours, name))["auth"]["status"] == "authenticated"
    assert stored_logins(tmp_path).keys() == set(names)


@pytest.mark.parametrize(
    ("method", "params", "stored"),
    [
        ("providers/logout", {}, {}),
        ("providers/loginInput", {"data": {"api-key": KEY}}, {"p": {"key": KEY}}),
        ("providers/loginInput", {"data": {"apiKey": KEY}}, {"p": {"key": KEY}}),
        ("shutdown", None, {}),
    ],
)
async def test_a_login_that_is_no_longer_wanted_is_abandoned(
    tmp_path, server, method, params, stored
):
    config = server.config(authorizeUrl="https://login.example/authorize")
    async with page(tmp_path, config) as ours:
        begun = await ours.ask("providers/login", {"provider": "p", "method": "browser"})
        await ours.ask(method, params if params is None else {"provider": "p", **params})
        tasks = ours.connection.parts.host.nursery
        while any("_log_in" in task.name for task in tasks.child_tasks):
            await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(HTTPError):
            await come_back(begun["url"])
    assert stored_logins(tmp_path) == stored


async def test_a_request_that_waits_is_answered_before_the_shutdown_is(tmp_path, server):
    arrival, answers = trio.Event(), trio.Event()

    async def hang() -> None:
        arrival.set()
        await answers.wait()

    server.before_answer = hang
    async with page(tmp_path, server.by_device()) as ours:
        begin = {"provider": "p", "method": "device-code"}
        waiting = ours.request("providers/login", begin)
        await ours.send(waiting)
        await arrival.wait()
        await ours.ask("shutdown", None)
        refusal, _ = [each for each in ours.received if "id" in each][-2:]
        assert (refusal["id"], type(refusal["error"]["code"])) == (waiting["id"], int)
    answers.set()


async def test_a_login_that_fails_is_reported_and_a_bug_of_ours_ends_it_alone(
    tmp_path, server, monkeypatch
):
    def break_down(*_: Any) -> None:
        raise RuntimeError("planted")

    login = {"provider": "p", "method": "device-code"}
    async with page(tmp_path, server.by_device()) as ours:
        server.says["/device"] = [(400, {"error": "unauthorized_client"})]
        refusal = await refused(ours, "providers/login", login)
        assert "unauthorized_client" in refusal["message"]
        server.says["/token"] = [(400, {"error": "access_denied"})]
        await ours.ask("providers/login", login)
        await until_shown(ours, "access_denied")
        monkeypatch.setattr(flows.DeviceLogin, "_answer", break_down)
        await ours.ask("providers/login", login)
        assert "p" in await providers(ours)
        assert "The login with p failed; see the log." in str(ours.received)
    assert not [*tmp_path.rglob("logins.json")]


async def test_a_login_of_the_chat_is_announced_to_clients_that_show_the_providers(tmp_path):
    async with page(tmp_path) as ours:
        await ours.turn(f"/login groq {KEY}")
        assert "providers/updated" not in [each.get("method") for each in ours.received]
        assert (await providers(ours))["groq"]["auth"]["status"] == "authenticated"
        await ours.prompt("/logout groq")
        assert (await updated(ours, "groq"))["auth"] == {"status": "unauthenticated"}


@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        ("login", {"provider": "nobody"}, "provider: expected one of"),
        ("login", {}, "provider"),
        ("login", {"provider": "openai", "method": "magic"}, "method: expected one of api-key"),
        ("loginInput", {"provider": "nobody", "data": {"api-key": KEY}}, "provider: expected"),
        ("loginInput", {"provider": "openai"}, "data.api-key: expected a key"),
        ("loginInput", {"provider": "openai", "data": {"api-key": " "}}, "expected a key"),
        ("loginInput", {"provider": "openai", "data": {"api-key": [KEY]}}, "expected a key"),
        ("loginInput", {"provider": "openai", "data": {"api-key": f"{KEY} x"}}, "got several"),
        ("logout", {"provider": "nobody"}, "provider: expected one of"),
        ("logout", {"provider": "anthropic"}, "its key is in ANTHROPIC_API_KEY"),
    ],
)
async def test_what_cannot_be_is_an_error_that_says_why(tmp_path, method, params, says):
    async with page(tmp_path, ANTHROPIC_API_KEY=KEY) as ours:
        assert says in (await refused(ours, f"providers/{method}", params))["message"]
