"""A configuration that changes during a connection: the announcements and the effects."""

import errno
import gc
import importlib
import inspect
import json
import os
import pkgutil
import sys
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import example, given
from hypothesis import strategies as st

import eca_server
from eca_protocol.testing.provider import Provider, finish, reply, tool_call, wait
from eca_server.agent.tools.custom import CustomCommand
from eca_server.config import loading
from eca_server.config.loading import LoadedConfig
from eca_server.connection.features import lifecycle
from eca_server.connection.features.host import Options
from eca_server.connection.features.settings import Settings, Watcher
from eca_server.secret import Secret
from tests.eca_server.agent.chat.current import refused
from tests.eca_server.agent.chat.editor import ECHO, Editor, contents, editor, text
from tests.eca_server.connection.features.session import announced, folder_of, reload, until_shown

NAMES = {"models": {"m": {}, "n": {}}}
FEATURES = "eca_server.connection.features"
UPGRADED = "It was probably upgraded or removed while it ran: restart it"
P = {"api": "openai-chat", "url": "http://127.0.0.1:1", "key": "sk-not-a-real-key-0123456789"}


class Project:
    """A workspace whose configuration changes during a connection."""

    def __init__(self, file: Path, ours: Editor) -> None:
        self.file = file
        self.editor = ours
        self.watcher = Watcher(ours.connection.parts.settings)

    def write(self, content: Mapping[str, Any] | str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(content if isinstance(content, str) else json.dumps(content))

    async def unsolicited(self, looks: int = 2) -> list[dict[str, Any]]:
        """Return the unsolicited messages after so many checks of the files."""
        await self.editor.ask("chat/queryCommands", {"query": "?"})
        begun = len(self.editor.received)
        for _ in range(looks):
            await self.watcher.look()
        await self.editor.ask("chat/queryCommands", {"query": "?"})
        return self.editor.received[begun:-1]

    async def only_error(self) -> str:
        """Return the only message, an error."""
        (shown,) = await self.unsolicited()
        assert (shown["method"], shown["params"]["type"]) == ("$/showMessage", "error")
        return str(shown["params"]["message"])

    async def chat_told(self) -> dict[str, Any]:
        """Return the only `config/updated`."""
        (update,) = [
            each for each in await self.unsolicited() if each["method"] == "config/updated"
        ]
        chat: dict[str, Any] = update["params"]["chat"]
        return chat


@asynccontextmanager
async def configured(folder: Path, **params: Any) -> AsyncIterator[Project]:
    """A workspace during whose connection the user's own configuration changes."""
    environ = {"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": str(folder)}
    async with editor(started=False, **environ) as ours:
        await ours.start(workspaceFolders=[folder_of(folder)], **params)
        yield Project(folder / "eca" / "config.json", ours)


@asynccontextmanager
async def project(
    root: Path, content: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[Project]:
    file = root / ".eca" / "config.json"
    if content is not None:
        file.parent.mkdir()
        file.write_text(json.dumps(content))
    async with editor({"defaultModel": None}, started=False, PATH=os.environ["PATH"]) as ours:
        options = {"workspaceTrusted": True} | options
        await ours.start(workspaceFolders=[folder_of(root)], initializationOptions=options)
        yield Project(file, ours)


@pytest.mark.requirement("CONF-3", "W-11g")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"welcomeMessage": "Hi"}, {"welcomeMessage": "Hi"}),
        ({"defaultBehavior": "plan"}, {"selectBehavior": "plan", "selectAgent": "plan"}),
        ({"defaultModel": "simulator/script"}, {"selectModel": "simulator/script"}),
        (
            {"agent": {"review": {}}},
            {"behaviors": ["agent", "plan", "review"], "agents": ["agent", "plan", "review"]},
        ),
        (
            {"providers": {"p": P | NAMES}},
            {"models": ["p/m", "p/n", "simulator/echo", "simulator/script"], "selectModel": "p/m"},
        ),
    ],
)
async def test_a_change_is_announced_and_nothing_else(tmp_path, content, expected):
    async with project(tmp_path) as ours:
        ours.write(content)
        assert await ours.chat_told() == expected
        ours.file.unlink()
        undone = await ours.chat_told()
        assert undone.keys() == expected.keys()
        assert undone.items() <= ours.editor.notified("config/updated")[0]["chat"].items()


async def test_a_file_that_is_being_written_or_says_the_same_does_not_count(tmp_path):
    same = {"welcomeMessage": "one", "defaultBehavior": "plan"}
    async with project(tmp_path, same) as ours:
        models = ours.editor.connection.models
        ours.write(f"// only a comment\n{json.dumps(same)}")
        assert await ours.unsolicited() == []
        assert ours.editor.connection.models is models
        for half in ("", "{}", '{"welcomeMessage": "t', '{"welcomeMessage": "two"'):
            ours.write(half)
            assert await ours.unsolicited(looks=1) == []
        ours.write({"welcomeMessage": "three", "defaultBehavior": "plan"})
        assert await ours.chat_told() == {"welcomeMessage": "three"}


async def test_the_thread_that_watches_ends_with_its_task():
    settings = Settings(Options(environ={}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(settings.watch, 0.01)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    held = weakref.ref(settings)
    del settings
    with trio.fail_after(10):
        while held() is not None:  # the thread holds it until it ends
            gc.collect()
            await trio.sleep(0.01)


async def test_a_broken_file_is_reported_once_and_changes_nothing_until_it_is_fixed(tmp_path):
    async with project(tmp_path, {"welcomeMessage": "one", "disabledTools": ["grep"]}) as ours:
        before = ours.editor.connection.config
        ours.write('{\n "welcomeMessage": "two",\n "disabledTools": [}')
        assert f"{ours.file}:3:" in await ours.only_error()
        assert ours.editor.connection.config == before
        ours.write('{\n\n "welcomeMessage": "two",\n "disabledTools": [}')
        assert await ours.unsolicited() == []
        ours.write({"welcomeMessage": "two", "disabledTools": ["grep"]})
        assert await ours.chat_told() == {"welcomeMessage": "two"}
        ours.write("{")
        await ours.only_error()
        ours.file.unlink()
        os.mkfifo(ours.file)  # which holds nothing up
        assert "expected a regular file, got a pipe" in await ours.only_error()
        ours.file.unlink()
        ours.write('{\n "welcomeMessage": 3,\n "lspTimeOut": 4\n}')
        *_, error, warning = [
            e["params"] for e in await ours.unsolicited() if "message" in e["params"]
        ]
        assert (error["type"], warning["type"]) == ("error", "warning")
        assert f"{ours.file}:2:2: welcomeMessage: " in error["message"]
        assert f"{ours.file}:3:2: lspTimeOut: " in warning["message"]
        assert "lspTimeoutSeconds" in warning["message"]


async def test_the_next_turn_repeats_the_problems_that_are_not_fixed_by_then(tmp_path):
    async with configured(tmp_path, clientInfo={"name": "VsCode"}) as ours:
        for content in ('{"chat": 1}', '{\n"chat": 1}', '{"chat": 2', "{}"):
            ours.write(content)
            await ours.unsolicited()
        assert str(ours.file) not in (await ours.editor.turn("hi", model=ECHO)).text
        ours.write("{")
        await ours.unsolicited()
        assert str(ours.file) in (await ours.editor.turn("hi", model=ECHO)).text


async def test_a_disk_that_fails_is_reported_once_and_changes_nothing(tmp_path, monkeypatch):
    async with project(tmp_path, {"welcomeMessage": "one"}) as ours:
        settings = ours.editor.connection.parts.settings
        before, load = settings.config, settings.load

        def fail(**_: Any) -> LoadedConfig:
            raise OSError(errno.ESTALE, "Stale file handle", str(ours.file))

        monkeypatch.setattr(settings, "load", fail)
        ours.write({"welcomeMessage": "two"})
        assert f"{ours.file}: could not be read: Stale" in await ours.only_error()
        assert (settings.config, ours.watcher.is_pending) == (before, False)
        monkeypatch.setattr(settings, "load", load)
        assert await ours.chat_told() == {"welcomeMessage": "two"}
        assert settings.loaded.problems == ()


async def test_a_disk_that_fails_after_the_first_answer_is_reported(tmp_path, monkeypatch):
    def fail(*, is_first: bool = False, **options: Any) -> LoadedConfig:
        if is_first:
            return loading.load(is_first=True, **options)
        raise OSError(errno.EIO, "Input/output error", "/disk/.eca")

    monkeypatch.setattr(lifecycle, "load", fail)
    async with project(tmp_path, {}) as ours:
        await ours.editor.ask("chat/queryCommands", {"query": "?"})
        (text,) = ours.editor.notices
        assert text.startswith("/disk/.eca: could not be read: Input/output error")


@pytest.mark.requirement("W-33b")
async def test_tools_are_announced_again_when_the_configuration_disables_others(tmp_path):
    async with project(tmp_path) as ours:
        ours.write({"disabledTools": ["eca_grep"], "customTools": {"hi": {"command": "true"}}})
        (update,) = await ours.unsolicited()
        assert update["method"] == "tool/serverUpdated"
        tools = {each["name"]: each["disabled"] for each in update["params"]["tools"]}
        assert tools["eca_grep"] is True
        assert tools["eca_hi"] is False
        ours.write({"disabledTools": ["grep"], "customTools": {"hi": {"command": "true"}}})
        assert await ours.unsolicited() == []


@pytest.mark.requirement("W-10e")
async def test_before_the_handshake_a_client_is_sent_nothing_unasked():
    async with editor(started=False) as ours:
        await ours.ask("initialize", {"capabilities": {}})
        await ours.tell("chat/selectedBehaviorChanged", {"behavior": "plan"})
        await ours.turn("hi", model="simulator/echo", behavior="agent")
        ours.connection.put_in_force(ours.connection.load())
        await ours.ask("chat/queryCommands", {"query": "?"})
        methods = {each.get("method") for each in ours.received} - {None}
        assert methods == {"chat/contentReceived"}
        await ours.tell("initialized", {})
        chat = await announced(ours)
        assert (chat["selectBehavior"], len(chat)) == ("plan", 7)


async def test_what_the_client_selected_is_not_sent_back_and_replaced_when_it_is_gone(tmp_path):
    behaviors = {"plan": {"defaultModel": "simulator/script"}, "review": {}}
    async with project(tmp_path, {"behavior": behaviors, "providers": {"p": P | NAMES}}) as ours:
        await ours.editor.tell("chat/selectedBehaviorChanged", {"behavior": "plan"})
        content = {"behavior": behaviors, "welcomeMessage": "x", "defaultBehavior": "agent"}
        ours.write({**content, "providers": {"p": P | NAMES}})
        assert await ours.chat_told() == {"welcomeMessage": "x"}
        await ours.editor.tell("chat/selectedBehaviorChanged", {"behavior": "review"})
        await ours.editor.turn("/costs", model="p/n")
        providers = {"p": {**P, "models": {"m": {}}}}
        ours.write({"welcomeMessage": "x", "defaultBehavior": "plan", "providers": providers})
        agents = {key: ["agent", "plan"] for key in ("behaviors", "agents")}
        selected = {"selectBehavior": "plan", "selectAgent": "plan", "selectModel": "p/m"}
        models = {"models": ["p/m", "simulator/echo", "simulator/script"]}
        assert await ours.chat_told() == agents | selected | models


@pytest.mark.parametrize(
    ("meanwhile", "selected"),
    [
        (None, "p/n"),
        (ECHO, "p/n"),  # the announced one, which editors name in each prompt
        ("simulator/script", None),
    ],
)
@pytest.mark.parametrize("times", [1, 2])
async def test_a_lost_model_is_selected_again_unless_the_user_chose_another(
    tmp_path, meanwhile, selected, times
):
    with_model = {"defaultModel": ECHO, "providers": {"p": P | NAMES}}
    async with project(tmp_path, with_model) as ours:
        for _ in range(times):
            await ours.editor.turn("/costs", model="p/n")
            ours.write({"defaultModel": ECHO})
            assert (await ours.chat_told())["selectModel"] == ECHO
            if meanwhile is not None:
                await ours.editor.turn("/costs", model=meanwhile)
            ours.write(with_model)
            assert (await ours.chat_told()).get("selectModel") == selected


@pytest.mark.parametrize("scope", [{}, {"chatId": "c"}])
async def test_the_users_choice_of_the_replacement_of_a_lost_model_stays(tmp_path, scope):
    with_model = {"defaultModel": ECHO, "providers": {"p": P | NAMES}}
    async with project(tmp_path, with_model) as ours:
        await ours.editor.turn("/costs", model="p/n")
        ours.write({"defaultModel": ECHO})
        assert (await ours.chat_told())["selectModel"] == ECHO
        await ours.editor.tell("chat/selectedModelChanged", {"model": ECHO, **scope})
        ours.write(with_model)
        assert "selectModel" not in await ours.chat_told()


async def test_a_running_turn_keeps_its_configuration_and_the_next_has_the_new_one(tmp_path):
    (tmp_path / "a.txt").write_text("what stands there\n")
    look = tool_call("eca_read_file", '{"path": "a.txt"}', call_id="1")
    provider = Provider([reply(wait("now"), look, finish("tool_calls"))], otherwise=reply("end"))
    async with provider:
        config = {"providers": {"p": {**P, "url": provider.url, "models": {"m": {}}}}}
        async with project(tmp_path, config) as ours:
            await ours.editor.prompt("go")
            await provider.until(lambda: "now" in provider.reached)
            config["disabledTools"] = ["eca_read_file"]  # type: ignore[assignment]
            config["chat"] = {"title": False}
            ours.write(config)
            unsolicited = await ours.unsolicited()
            assert [each["method"] for each in unsolicited] == ["tool/serverUpdated"]
            provider.open("now")
            await ours.editor.expect_finished()
            await ours.editor.turn("again")

    def offers(number: int) -> bool:
        tools = provider.requests[number].body["tools"]
        return "eca_read_file" in {each["function"]["name"] for each in tools}

    assert "what stands there" in str(provider.requests[1].body["messages"][-1])
    assert [offers(0), offers(1), offers(-1)] == [True, True, False]


async def test_keys_are_taken_anew_when_they_change_and_children_do_not_see_them(tmp_path):
    key = tmp_path / "key"
    key.write_text("sk-the-first-key-0123456789")
    async with Provider(otherwise=reply("a")) as provider, configured(tmp_path) as ours:
        settings = {**P, "url": provider.url, "key": "${file:../key}", "models": {"m": {}}}
        ours.write({"providers": {"p": settings}, "chat": {"title": False}})
        await ours.unsolicited()
        models, hidden = ours.editor.connection.parts.models, []
        models.hide = hidden.extend
        await ours.editor.turn("hi")
        key.write_text("sk-the-second-key-0123456789")
        assert await ours.unsolicited() == []
        await ours.editor.turn("hi")
        assert Secret("sk-the-second-key-0123456789") in hidden
        keys = [request.headers["authorization"] for request in provider.requests]
        assert keys == [f"Bearer sk-the-{which}-key-0123456789" for which in ("first", "second")]
        assert models.child_variables.keys() >= {"PATH", "XDG_CONFIG_HOME"}
        index = ours.editor.connection.index
        assert index.gitignore
        own = {"p": {**P, "key": None, "keyEnv": "PATH"}}
        ours.write({"providers": own, "index": {"ignoreFiles": []}})
        await ours.unsolicited()
        assert "PATH" not in models.child_variables
        assert "XDG_CONFIG_HOME" in models.child_variables
        assert (ours.editor.connection.index is index, index.gitignore) == (True, False)


BEHAVIORS = st.dictionaries(
    st.sampled_from(["plan", "review", "scout"]),
    st.fixed_dictionaries(
        {},
        optional={
            "mode": st.just("subagent"),
            "defaultModel": st.sampled_from(["p/m", "p/n", "simulator/script", "unknown"]),
            "disabledTools": st.lists(st.sampled_from(["grep", "read_file"])),
        },
    ),
)
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "welcomeMessage": st.sampled_from(["", "Hi"]),
        "defaultBehavior": st.sampled_from(["agent", "plan", "review", "novel"]),
        "defaultModel": st.sampled_from(["p/m", "p/n", "simulator/script", "unknown/m"]),
        "providers": st.sampled_from([{}, {"p": P | NAMES}, {"p": P | {"models": {"n": {}}}}]),
        "behavior": BEHAVIORS,
        "disabledTools": st.lists(st.sampled_from(["grep", "eca", 3])),
    },
)
SELECTIONS = st.sampled_from(["agent", "plan", "review", "novel"])


@given(steps=st.lists(CONFIGS | SELECTIONS, max_size=6))
@example(steps=[{"behavior": {"review": {}}, "defaultBehavior": "review"}, "agent", {}])
def test_what_was_announced_adds_up_to_the_state(steps):
    """The merged updates are equal to the announcement to a new client."""

    async def scenario() -> None:
        async with editor() as ours:
            known: dict[str, Any] = {}
            fold(known, ours.received)
            for step in steps:
                begun = len(ours.received)
                if isinstance(step, dict):
                    environ = {"XDG_CONFIG_HOME": "/nowhere", "ECA_CONFIG": json.dumps(step)}
                    ours.connection.put_in_force(ours.connection.load(environ=environ))
                elif step in known["behaviors"]:
                    await ours.tell("chat/selectedBehaviorChanged", {"behavior": step})
                    known |= {"selectBehavior": step, "selectAgent": step}
                await ours.ask("chat/queryCommands", {"query": "?"})
                fold(known, ours.received[begun:])
                assert known["selectModel"] in known["models"]
            whole = await introduced_again(ours)
            assert known | {"selectModel": None} == whole | {"selectModel": None}

    trio.run(scenario)


def fold(known: dict[str, Any], messages: list[Any]) -> None:
    for message in messages:
        if message.get("method") == "config/updated":
            chat = message["params"]["chat"]
            assert None not in chat.values()
            assert [name for name in chat if chat[name] == known.get(name)] in ([], ["selectModel"])
            known |= chat


async def introduced_again(ours: Editor) -> dict[str, Any]:
    ours.connection.parts.announcer.introduce()
    return await announced(ours)


def tool_names() -> Iterator[str]:
    """Return the name of every class of native tools."""
    for module in pkgutil.walk_packages(eca_server.__path__, "eca_server."):
        if module.name.endswith("__main__"):
            continue
        for each in vars(importlib.import_module(module.name)).values():
            is_ours = inspect.isclass(each) and each.__module__ == module.name
            if is_ours and hasattr(each, "effect") and isinstance(vars(each).get("name"), str):
                yield each.name


async def test_no_custom_tool_takes_the_name_of_a_native_one_of_any_package(tmp_path):
    names = {*tool_names()}
    assert {"read_file", "ask_user", "bg_job", "skill", "spawn_agent", "task"} <= names
    content = {"customTools": {name: {"command": "true"} for name in (*names, "mine")}}
    async with project(tmp_path, content) as ours:
        made = ours.editor.connection.parts.tools.make()
    assert {problem.split("'")[1] for problem in made.problems} == names
    assert [each.name for each in made.tools if isinstance(each, CustomCommand)] == ["mine"]


@pytest.mark.parametrize(
    ("module", "content", "answer"),
    [
        (f"{FEATURES}.mcp", {"mcpServers": {"s": {"command": "true"}}}, UPGRADED),
        ("eca_server.config.schema", {"welcomeMessage": "x"}, "hi"),
    ],
)
async def test_a_server_upgraded_while_it_runs_survives_a_change_and_asks_for_a_restart(
    tmp_path, monkeypatch, module, content, answer
):
    async with configured(tmp_path) as ours:
        for missing in (module, f"{FEATURES}.providers"):
            monkeypatch.setitem(sys.modules, missing, None)
        ours.write(content)
        await reload(ours.editor)
        assert UPGRADED in await until_shown(ours.editor)
        assert UPGRADED in (await refused(ours.editor, "providers/list", None))["message"]
        assert answer in (await ours.editor.turn("say hi", model="simulator/script")).answer


async def test_a_prompt_to_a_model_whose_modules_are_gone_is_a_turn_that_says_so(
    tmp_path, monkeypatch
):
    async with configured(tmp_path) as ours:
        known = {"url": "http://127.0.0.1:9", "key": "k", "models": {"m": {}}}
        ours.write({"providers": {"a": {"api": "anthropic", **known}}})
        await reload(ours.editor)
        monkeypatch.setitem(sys.modules, "eca_server.models.anthropic.backend", None)
        prompt = ours.editor.prompt_request("hi", model="a/m")
        await ours.editor.send(prompt)
        await ours.editor.expect_finished("c")
        assert UPGRADED in text([each for _, each in contents(ours.editor.received)])
        assert (await ours.editor.answer(prompt))["model"] == "a/m"


async def test_a_chat_whose_model_is_removed_says_once_that_the_simulator_answers(tmp_path):
    async with Provider([reply("hi")]) as endpoint:
        content = {"providers": {"p": {**P, "url": endpoint.url, "models": {"m": {}}}}}
        async with project(tmp_path, content) as ours:
            turn = ours.editor.turn
            assert (await turn("hello", model="p/m", agent="code")).answer == "hi"
            ours.write({})
            assert (await ours.chat_told())["selectModel"] == ECHO
            hints = [(await turn("hello", model=ECHO, agent="code")).text for _ in range(2)]
    assert ["the built-in `simulator/echo`" in each for each in hints] == [True, False]
