"""Models discovered during a connection, and their announcements."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol import platforms
from eca_protocol.testing.provider import Provider, Reply, reply, wait
from eca_server.models.backend import BackendError
from eca_server.models.discovery import Discovery
from tests.eca_server.agent.chat.editor import Editor, editor
from tests.eca_server.connection.features.session import announced
from tests.promises import within

KEY = "sk-not-a-real-key-0123456789"
OURS = ["simulator/echo", "simulator/script"]


def provider(url: str, **more: Any) -> dict[str, Any]:
    return {"api": "openai-chat", "url": url, "key": KEY, **more}


@asynccontextmanager
async def discovering(cache: Path, **providers: Any) -> AsyncIterator[Editor]:
    """An editor whose server discovers models of these providers alone."""
    providers["ollama"] = {"fetchModels": False}
    config = {"providers": providers}
    async with editor(config, started=False, discovers=True, XDG_CACHE_HOME=str(cache)) as ours:
        await ours.start()
        yield ours


def first_told(ours: Editor) -> dict[str, Any]:
    """Return the chat part of the introduction."""
    return dict(ours.notified("config/updated")[0]["chat"])


async def test_what_an_endpoint_lists_is_announced_and_nothing_but_the_models(tmp_path):
    listed = ("m", "n", "text-embedding-3-small")
    async with Provider(models=listed, otherwise=reply("Hi")) as there:
        p = provider(there.url, models={"m": {}})
        async with discovering(tmp_path, p=p) as ours:
            assert first_told(ours)["models"] == ["p/m", *OURS]
            assert await announced(ours) == {"models": ["p/m", "p/n", *OURS]}
            await ours.turn("hi", model="p/n")
    assert [request.body["model"] for request in there.requests] == ["n"]
    (request,) = there.other_requests
    assert (request.target, request.headers["authorization"]) == ("/v1/models", f"Bearer {KEY}")


async def test_who_lists_the_first_models_there_are_is_selected_unless_the_user_chose(tmp_path):
    async with Provider(models=["m"]) as there:
        async with discovering(tmp_path, p=provider(there.url)) as ours:
            assert await announced(ours) == {"models": ["p/m", *OURS], "selectModel": "p/m"}

        late = Reply(before_headers=[wait("list")], body={"data": [{"id": "m"}]})
        async with (
            Provider(others={"/models": late}) as slow,
            discovering(tmp_path, p=provider(slow.url)) as ours,
        ):
            await ours.turn("hi", model="simulator/script")
            slow.open("list")
            assert await announced(ours) == {"models": ["p/m", *OURS]}
            assert ours.connection.parts.selection.client_model == "simulator/script"


@pytest.mark.parametrize(
    "named",
    [
        pytest.param({}, id="no model"),
        pytest.param({"model": "simulator/echo", "agent": "code"}, id="what an editor shows"),
    ],
)
async def test_a_first_prompt_waits_for_the_first_list_of_models(tmp_path, monkeypatch, named):
    may_ask = trio.Event()
    monkeypatch.setattr("eca_server.models.discovery._check_port", lambda _: may_ask.wait())
    async with (
        Provider(models=["m"], otherwise=reply("Hi")) as there,
        discovering(tmp_path, p=provider(there.url)) as ours,
    ):
        await ours.turn("hi", "other", model="simulator/echo")
        await ours.prompt("stopped", **named)
        await ours.tell("chat/promptStop", {"chatId": "c"})
        await ours.expect_finished("c")
        for _ in range(2):
            await ours.prompt("hi", **named)
        may_ask.set()
        for _ in range(2):
            await ours.content("text", text="Hi")
            await ours.expect_finished("c")
    assert [request.body["model"] for request in there.requests] == ["m", "m"]


async def test_who_was_asked_just_now_is_not_asked_at_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setattr("eca_server.models.discovery.is_local", lambda _: False)
    async with Provider(models=["m"]) as there, Provider(models=["n"]) as other:
        async with discovering(tmp_path, p=provider(there.url)) as ours:
            assert (await announced(ours))["models"] == ["p/m", *OURS]
        both = {"p": provider(there.url), "q": provider(other.url)}
        async with discovering(tmp_path, **both) as ours:
            assert first_told(ours)["models"] == ["p/m", *OURS]
            assert (await announced(ours))["models"] == ["p/m", "q/n", *OURS]
    assert len(there.other_requests) == 1


async def test_nothing_waits_for_an_endpoint_that_does_not_answer_or_gives_no_list(tmp_path):
    async with (
        Provider(others={"/models": Reply(before_headers=[wait("never")])}) as silent,
        Provider(others={"/models": Reply(body=["not", {"a": "list"}])}) as odd,
        Provider(models=["m"]) as there,
        Provider(models=["n"]) as unasked,
    ):
        listed = {"p": silent.url, "odd": odd.url, "q": there.url}
        providers = {name: provider(url) for name, url in listed.items()}
        unfetched = provider(unasked.url, fetchModels=False)
        async with discovering(tmp_path, **providers, unfetched=unfetched) as ours:
            await silent.until(lambda: "never" in silent.reached)
            await odd.until(lambda: bool(odd.other_requests))
            assert (await announced(ours))["models"] == ["q/m", *OURS]
            await ours.turn("hi", model="simulator/echo")
            assert ours.connection.models.names == ("q/m", *OURS)
            with within(2):
                await ours.ask("shutdown")
        assert unasked.other_requests == []


async def test_a_changed_configuration_is_looked_at_again(tmp_path):
    async with (
        Provider(models=["m"]) as there,
        Provider(models=["n"]) as other,
        discovering(tmp_path, p=provider(there.url)) as ours,
    ):
        await announced(ours)
        connection = ours.connection
        environ = dict(connection.parts.host.options.environ)
        environ["ECA_CONFIG"] = environ["ECA_CONFIG"].replace(there.url, other.url)
        connection.put_in_force(connection.load(environ=environ))
        assert (await announced(ours))["models"] == OURS
        assert (await announced(ours))["models"] == ["p/n", *OURS]


async def test_models_of_an_endpoint_that_can_be_reached_later_are_found(tmp_path, monkeypatch):
    loading = BackendError("overloaded", "Loading model", status=503)
    refusals = [ConnectionRefusedError(), BackendError("network", "no route"), loading, None]

    async def check_port(_: str) -> None:
        refusal = refusals.pop(0)
        if refusal is not None:
            raise refusal

    monkeypatch.setattr("eca_server.models.discovery._check_port", check_port)
    monkeypatch.setattr("eca_server.connection.features.current_models.LOOK_SECONDS", 0.01)
    async with (
        Provider(models=["m"]) as there,
        discovering(tmp_path, p=provider(there.url)) as ours,
    ):
        assert (await announced(ours))["models"] == ["p/m", *OURS]
    assert refusals == []


async def test_models_that_appear_later_are_found_when_the_user_sends_a_prompt(
    tmp_path, monkeypatch
):
    now = platforms.uptime()
    monkeypatch.setattr(platforms, "uptime", lambda: now)
    lists = {"/models": Reply(body={"data": [{"id": "m"}]})}
    async with (
        Provider(others=lists) as there,
        discovering(tmp_path, p=provider(there.url)) as ours,
    ):
        assert (await announced(ours))["models"] == ["p/m", *OURS]
        lists["/models"] = Reply(body={"data": [{"id": "m"}, {"id": "n"}]})
        for seconds in (60, 1, 1):
            await ours.turn("hi", model="simulator/echo")
            now += seconds
        assert (await announced(ours))["models"] == ["p/m", "p/n", *OURS]
        await ours.turn("hi", model="simulator/echo")
    assert len(there.other_requests) == 2


@pytest.mark.parametrize("variable", ["OLLAMA_API_URL", "OLLAMA_HOST"])
async def test_ollama_is_looked_for_without_being_configured(tmp_path, variable):
    model = {"model": "qwen3:8b", "name": "qwen3:8b"}
    async with Provider(others={"/api/tags": Reply(body={"models": [model]})}) as ollama:
        environ = {variable: ollama.url.removesuffix("/v1"), "XDG_CACHE_HOME": str(tmp_path)}
        async with editor(started=False, discovers=True, **environ) as ours:
            await ours.start()
            assert first_told(ours)["models"] == OURS
            assert (await announced(ours))["models"] == ["ollama/qwen3:8b", *OURS]


@pytest.mark.requirement("LIFE-16")
async def test_what_models_can_do_and_cost_is_looked_up_and_nothing_waits_for_it(tmp_path):
    cost = {"cost": {"input": 1_000_000, "output": 0}, "limit": {"context": 70_000, "output": 5}}
    catalog = {"openai": {"models": {"gpt-5": cost}}}
    others = {"/api.json": Reply(before_headers=[wait("catalog")], body=catalog)}

    def told_of(contents: list[Any]) -> tuple[Any, Any]:
        usage = next(each for each in contents if each["type"] == "usage")
        return usage["limit"], usage.get("messageCost")

    async with Provider(otherwise=reply("Hi"), others=others) as there:  # ten tokens in, one out
        model = {"gpt-5": {}}
        p = {"url": there.url, "models": model, "fetchModels": False}
        far = provider("https://models.invalid/v1", models=model, fetchModels=False)
        config = {
            "providers": {
                "openai": p | {"api": "openai-chat"},
                "far": far,
                "ollama": {"fetchModels": False},
            },
            "catalog": {"url": f"{there.url}/api.json"},
        }
        async with editor(config, discovers=True, XDG_CACHE_HOME=str(tmp_path)) as ours:
            await there.until(lambda: "catalog" in there.reached)
            limit, cost = told_of(await ours.turn("hi", model="openai/gpt-5"))
            assert limit == {"context": 400_000, "output": 128_000}
            assert cost == "0.000022"
            before = ours.connection.models
            there.open("catalog")
            while ours.connection.models is before:
                await trio.lowlevel.checkpoint()
            announced = told_of(await ours.turn("hi", model="openai/gpt-5"))
    assert announced == ({"context": 70000, "output": 5}, "10.00")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files", "backend.py"),
        ModuleNotFoundError("No module named 'eca_server.models.anthropic'"),
    ],
    ids=["too many open files", "removed while the server runs"],
)
async def test_a_backend_that_cannot_be_imported_ends_only_the_discovery(
    tmp_path, monkeypatch, error
):
    arrival = trio.Event()

    async def ask(*_: Any) -> bool:
        arrival.set()
        raise error

    monkeypatch.setattr(Discovery, "ask", ask)
    async with discovering(tmp_path, p=provider("http://127.0.0.1:9")) as ours:
        await arrival.wait()
        await ours.turn("hi", model="simulator/echo")
