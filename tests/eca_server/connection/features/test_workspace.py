"""Workspace folders that change during a connection."""

import json
from pathlib import Path

import pytest

from eca_protocol.server.roots import uri_of
from eca_protocol.testing.provider import Provider, reply
from eca_server.connection.features.settings import Watcher
from tests.eca_server.agent.chat.agent_session import calls, older
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import ECHO, editor, provider_config
from tests.eca_server.agent.chat.mcp_session import GIT, status
from tests.eca_server.agent.mcp.fake import Place
from tests.eca_server.connection.features.session import (
    change_folders,
    connect_to_fakes,
    folder_of,
)


async def test_new_folders_are_searched_configured_and_announced_from_the_next_turn_on(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for root in (one, two):
        (root / ".eca").mkdir(parents=True)
        (root / f"{root.name}.py").write_text("")
        (root / "AGENTS.md").write_text(f"Instructions of {root.name}.")
        config = {"welcomeMessage": f"Welcome to {root.name}"}
        (root / ".eca" / "config.json").write_text(json.dumps(config))
    provider = Provider(otherwise=reply("a"))
    async with provider, editor(provider_config(provider.url), started=False) as ours:
        await ours.start(
            workspaceFolders=[folder_of(one)], initializationOptions={"workspaceTrusted": True}
        )
        result = await ours.ask("chat/queryContext", {"query": ".py"})
        assert [Path(each["path"]).name for each in result["contexts"]] == ["one.py"]
        await ours.turn("hi")
        watcher = Watcher(ours.connection.parts.settings)
        (one / ".eca" / "config.json").write_text("{}")
        await watcher.look()  # the file is read, and would apply after the next check
        await change_folders(ours, [two, two], [one])
        result = await ours.ask("chat/queryContext", {"query": ".py"})
        assert [Path(each["path"]).name for each in result["contexts"]] == ["two.py"]
        while ours.connection.config.welcome_message != "Welcome to two":
            await ours.notice("config/updated")
        await ours.turn("hi")
        assert [root.path for root in ours.connection.workspace.roots] == [two]
        indexing = [task.name for task in ours.connection.parts.host.nursery.child_tasks]
        assert sum("_keep_fresh" in name for name in indexing) == 1
        for _ in range(3):
            await watcher.look()
            assert ours.connection.config.welcome_message == "Welcome to two"
    first, second = (request.body["messages"][0]["content"] for request in provider.requests)
    assert "Instructions of one." in first
    assert str(one) not in second
    assert "Instructions of two." in second


async def test_what_changes_nothing_or_is_no_folder_is_no_change(tmp_path):
    async with editor(started=False) as ours:
        await ours.start(workspaceFolders=[folder_of(tmp_path)])
        workspace = ours.connection.workspace
        for event in ({}, {"added": None}, {"added": [folder_of(tmp_path)]}):
            await ours.tell("workspace/didChangeWorkspaceFolders", {"event": event})
        await change_folders(ours, [tmp_path / "nowhere"], [tmp_path / "never"])
        assert "nowhere" in (await ours.notice())["message"]
        assert ours.connection.workspace is workspace


async def test_servers_that_run_are_notified_of_other_folders(tmp_path, monkeypatch):
    place = Place()
    connect_to_fakes(monkeypatch, place=place)
    async with editor({"mcpServers": GIT}, started=False) as ours:
        await ours.start(workspaceFolders=[folder_of(tmp_path)])
        await status(ours, "git", "running")
        assert place.session.roots_changes == 0
        await change_folders(ours, [], [tmp_path])
        await ours.ask("chat/queryCommands", {"query": "?"})
        assert place.session.roots_changes == 1


async def test_a_folder_that_is_gone_can_be_taken_away(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    async with editor(started=False) as ours:
        await ours.start(workspaceFolders=[folder_of(tmp_path), folder_of(gone)])
        gone.rmdir()
        event = {"removed": [{"uri": f"{uri_of(gone)}/", "name": "gone"}]}
        await ours.tell("workspace/didChangeWorkspaceFolders", {"event": event})
        await ours.ask("chat/queryCommands", {"query": "?"})
        assert [root.path for root in ours.connection.session.roots] == [tmp_path]


@pytest.mark.parametrize("first", [["one"], []])
async def test_chats_are_listed_under_the_first_folders_of_a_connection(tmp_path, first):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    async with current(data=tmp_path / "data", workspaceFolders=[folder_of(one)]) as ours:
        await ours.turn("hi", "before", model=ECHO)
    folders = [folder_of(tmp_path / name) for name in first]
    async with current(data=tmp_path / "data", workspaceFolders=folders) as ours:
        if not folders:
            await change_folders(ours, [one], [])
        await change_folders(ours, [two], [])
        await ours.turn("hi", "after", model=ECHO)
        listed = await ours.ask("chat/list")
        assert {each["id"] for each in listed["chats"]} == {"before", "after"}
    async with current(data=tmp_path / "data", workspaceFolders=[folder_of(one)]) as ours:
        listed = await ours.ask("chat/list")
        assert {each["id"] for each in listed["chats"]} == {"before", "after"}


async def test_logins_in_the_opened_folder_that_a_link_leads_to_are_no_part_of_it(tmp_path):
    opened, data = tmp_path / "dotfiles", tmp_path / "data"
    opened.mkdir()
    (data / "eca-python").mkdir(parents=True)
    (opened / "keys.json").write_text('{"version": 1, "providers": {}}')
    (data / "eca-python" / "logins.json").symlink_to(opened / "keys.json")
    read = calls(("eca_read_file", {"path": str(opened / "keys.json")}))
    async with older(read, folder=opened, data=data) as (ours, _):
        await ours.prompt("go")
        assert (await ours.content("toolCallRun"))["manualApproval"] is True
        await ours.stop()
        await ours.expect_finished()
