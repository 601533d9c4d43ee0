"""The configuration is loaded after the answer to `initialize`, before later messages."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from eca_protocol.testing.provider import Provider, reply
from eca_server.config import command_output
from eca_server.connection.features import lifecycle
from tests.eca_protocol.wire import notification, request
from tests.eca_server.agent.chat.editor import editor, provider_config
from tests.eca_server.connection.features.session import announced, folder_of, until_shown


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A slow disk, on which only the user's own settings are readable until it is released."""
    lets_go = threading.Event()
    load = lifecycle.load

    def slow(**arguments: Any) -> Any:
        if not arguments.get("is_first"):
            lets_go.wait(10)
        return load(**arguments)

    monkeypatch.setattr(lifecycle, "load", slow)
    yield lets_go
    lets_go.set()


def folder(path: Path) -> list[dict[str, str]]:
    (path / ".eca").mkdir()
    config = {"agent": {"review": {}}}
    (path / ".eca" / "config.json").write_text(json.dumps(config))
    return [folder_of(path)]


@pytest.mark.requirement("W-10d")
async def test_what_follows_initialize_meets_the_whole_configuration_in_order(tmp_path, disk):
    async with editor(started=False) as ours:
        trusted = {"initializationOptions": {"workspaceTrusted": True}}
        params = {"workspaceFolders": folder(tmp_path), **trusted}
        assert "chatWelcomeMessage" in await ours.ask("initialize", params)
        prompt = {"message": "hi", "behavior": "review", "model": "simulator/echo"}
        await ours.send(
            notification("initialized", {}),
            request("p", "chat/prompt", prompt),
            request("s", "shutdown"),
        )
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not ours.connection.parts.announcer.is_introduced
        disk.set()
        assert "result" in await ours.until(lambda each: each.get("id") == "p")
        assert "result" in await ours.until(lambda each: each.get("id") == "s")
        assert "review" in ours.notified("config/updated")[0]["chat"]["agents"]


async def test_a_disk_that_does_not_answer_holds_nothing_up_for_long(tmp_path, disk):
    async with editor(started=False, load_seconds=0.05) as ours:
        await ours.start(
            workspaceFolders=folder(tmp_path), initializationOptions={"workspaceTrusted": True}
        )
        await until_shown(ours, "the disk does not answer")
        assert "review" not in ours.connection.config.behaviors
        disk.set()
        assert "review" in (await announced(ours))["agents"]


async def test_a_command_that_still_runs_is_no_error_of_the_configuration(tmp_path):
    go = tmp_path / "go"
    output = f"${{cmd:until [ -e {go} ]; do sleep 0.01; done; echo hello}}"
    config = {"welcomeMessage": output, "mcpServers": {"m": {"command": "/x", "args": [output]}}}
    async with editor(config, started=False, load_seconds=0.05, PATH=os.environ["PATH"]) as ours:
        await ours.start(workspaceFolders=[])
        await until_shown(ours, "still runs")
        go.touch()
        assert (await announced(ours))["welcomeMessage"] == "hello"
        assert [each["type"] for each in ours.notified("$/showMessage")] == ["warning"]


async def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind(tmp_path, disk):
    async with editor(started=False, load_seconds=0.3) as ours:
        await ours.ask("initialize", {"workspaceFolders": folder(tmp_path)})
    assert not disk.is_set()


@pytest.mark.parametrize("size", [400, 10_001])
async def test_a_folder_with_more_than_anyone_configures_holds_nothing_up(tmp_path, size):
    roots = folder(tmp_path)
    servers = {f"s{number}": {"command": "c" * 40} for number in range(size)}
    (tmp_path / ".eca" / "config.json").write_text(json.dumps({"mcpServers": servers}))
    async with editor(started=False) as ours:
        answer = await ours.ask("initialize", {"workspaceFolders": roots})
        assert "chatWelcomeMessage" in answer
        assert not ours.connection.gate.is_open  # the answer came before the load
        await ours.send({"jsonrpc": "2.0", "method": "initialized", "params": {}})
        reply = await ours.ask("chat/prompt", {"message": "hi", "model": "simulator/echo"})
        assert "chatId" in reply
        assert len(ours.connection.loaded.withheld) == (size if size < 500 else 0)


async def test_the_answer_waits_for_no_command_and_prompts_meet_its_output(tmp_path, monkeypatch):
    go = tmp_path / "go"
    command = f"until [ -s {go} ]; do sleep 0.01; done; cat {go}"
    async with Provider(otherwise=reply("Hi")) as provider:
        config = provider_config(provider.url, chat={"title": False})
        config["providers"]["p"]["key"] = f"${{cmd:{command}}}"
        async with editor(config, started=False, PATH=os.environ["PATH"]) as ours:
            assert "chatWelcomeMessage" in await ours.ask("initialize", {"workspaceFolders": []})
            go.write_text("planted-0123456789")
            await ours.tell("initialized", {})
            await ours.turn("go")
            go.write_text("renewed-0123456789")
            await ours.turn("go")
            monkeypatch.setattr(command_output, "_cache", {})
            ours.connection.put_in_force(attrs.evolve(ours.connection.loaded, expires=0))
            await ours.turn("go")
        keys = [each.headers["authorization"].split()[1] for each in provider.requests]
        assert keys == ["planted-0123456789"] * 2 + ["renewed-0123456789"]
