"""Approvals of commands in a session: what the client is shown, remembered, and asked again."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import trio

from eca_protocol.server.roots import uri_of
from eca_protocol.testing.provider import Provider, reply
from eca_server.client.profiles import DRAFT_SECONDS
from tests.eca_server.agent.chat.agent_session import calls, today
from tests.eca_server.agent.chat.current import CURRENT
from tests.eca_server.agent.chat.editor import SCRIPT, Content, Editor, editor, provider_config


def shell(command: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "eca_shell_command", {"command": command, **more}


def keys(run: Content) -> list[tuple[str, str | None, bool | None]]:
    """Each part of a command: the program, its key, whether that is remembered."""
    assert run["details"]["type"] == "shellCommand"
    return [
        (each["command"], each.get("approvalKey"), each.get("remembered"))
        for each in run["details"]["commands"]
    ]


async def runs(ours: Editor, count: int) -> list[Content]:
    """Read until so many calls were announced; return these."""
    return [await ours.content("toolCallRun") for _ in range(count)]


@pytest.mark.requirement("TOOL-15")
async def test_a_program_and_subcommand_is_remembered_and_each_part_of_a_pipeline_asks(tmp_path):
    script = [
        calls(shell("touch a.txt | head -1")),
        calls(shell("head -2 a.txt | touch b.txt")),
        calls(shell("touch c.txt && sleep 0")),
        calls(shell("sudo -n true; sleep 0")),
        calls(shell("sleep 0")),
    ]
    async with today(*script, folder=tmp_path) as (ours, _):
        await ours.prompt("go")
        (first,) = await runs(ours, 1)
        assert first["details"] == {
            "type": "shellCommand",
            "commands": [
                {"command": "touch", "args": ["a.txt"], "approvalKey": "touch",
                 "remembered": False},
                {"command": "head", "args": ["-1"], "approvalKey": "head", "remembered": False},
            ],
        }  # fmt: skip
        assert first["manualApproval"] is True
        await ours.approve(first, save="session")
        covered, half = await runs(ours, 2)
        assert covered["manualApproval"] is False
        assert keys(covered) == [("head", "head", True), ("touch", "touch", True)]
        assert half["manualApproval"] is True
        assert keys(half) == [("touch", "touch", True), ("sleep", "sleep", False)]
        await ours.approve(half)  # once
        (hidden,) = await runs(ours, 1)
        assert hidden["manualApproval"] is True
        assert keys(hidden) == [("sudo", None, None), ("sleep", "sleep", False)]
        await ours.approve(hidden, save="session")
        (alone,) = await runs(ours, 1)
        assert alone["manualApproval"] is False
        await ours.expect_finished()
        assert (tmp_path / "b.txt").exists()


@pytest.mark.requirement("W-44e")
async def test_details_name_no_key_where_nothing_can_be_remembered(tmp_path):
    (tmp_path / "ws").mkdir()
    script = [
        calls(shell(command))
        for command in ("ls ..", "touch .vscode/x", "ls $(id)", "ls &", "bash x.sh")
    ]
    async with today(*script, folder=tmp_path / "ws") as (ours, _):
        await ours.prompt("go")
        for program in ("ls", "touch", "ls", "ls &", "bash"):
            (run,) = await runs(ours, 1)
            assert run["manualApproval"] is True
            assert keys(run) == [(program, None, None)]
            await ours.approve(run, save="session")
        await ours.expect_finished()


async def test_what_is_remembered_holds_in_its_folder(tmp_path):
    (tmp_path / "sub").mkdir()
    script = [
        calls(shell("cd sub && sleep 0")),
        calls(shell("sleep 0", working_directory="sub")),
        calls(shell("sleep 0")),
    ]
    async with today(*script, folder=tmp_path) as (ours, _):
        await ours.prompt("go")
        (first,) = await runs(ours, 1)
        await ours.approve(first, save="session")
        there, here = await runs(ours, 2)
        assert (there["manualApproval"], here["manualApproval"]) == (False, True)
        await ours.reject(here)
        await ours.expect_finished()


async def test_a_covered_command_is_judged_after_the_calls_before_it_have_run(tmp_path):
    own = tmp_path / "bin"
    own.mkdir()
    (tmp_path / "sleeper").write_text("#!/bin/sh\ntouch hijacked\n")
    (tmp_path / "sleeper").chmod(0o755)
    path = f"{own}{os.pathsep}{os.environ['PATH']}"
    folders = [{"name": "w", "uri": uri_of(tmp_path)}]
    move = "eca_move_file", {"source": "sleeper", "destination": "bin/sleep"}
    script = [calls(shell("sleep 0")), calls(move, shell("sleep 0"))]
    async with (
        Provider(script, otherwise=reply("the end")) as provider,
        editor(provider_config(provider.url), started=False, PATH=path) as ours,
    ):
        await ours.start(capabilities=CURRENT, workspaceFolders=folders)
        await ours.prompt("go")
        (first,) = await runs(ours, 1)
        await ours.approve(first, save="session")
        (moving,) = await runs(ours, 1)
        assert moving["name"] == "move_file"
        await ours.approve(moving)
        (replaced,) = await runs(ours, 1)
        assert replaced["manualApproval"] is True
        assert keys(replaced) == [("sleep", None, None)]
        await ours.reject(replaced)
        await ours.expect_finished()
        assert not (tmp_path / "hijacked").exists()


@pytest.mark.requirement("W-44d")
async def test_a_call_has_a_summary_while_the_model_writes_it(tmp_path):
    script = [calls(shell("sleep 0"), ("eca_read_file", {"path": "x"}), ("eca_nothing", {}))]
    async with today(*script, folder=tmp_path) as (ours, _):
        await ours.prompt("go")
        (run,) = await runs(ours, 1)
        await ours.approve(run)
        await ours.expect_finished()
        pieces = [each for each in ours.contents() if each["type"] == "toolCallPrepare"]
        summaries = {each["name"]: each.get("summary") for each in pieces}
        assert summaries == {
            "shell_command": "Running a command",
            "read_file": "Reading file",
            "nothing": None,
        }
        assert run["summary"] == "Running 'sleep 0'"


async def test_an_unapproved_change_is_rejected_after_a_while(tmp_path, autojump_clock):
    write = json.dumps({"path": "new.txt", "content": "x\n"})
    async with editor({"defaultModel": SCRIPT}, started=False) as ours:
        folder = {"name": "w", "uri": tmp_path.as_uri()}
        hello = {
            "workspaceFolders": [folder],
            "initializationOptions": {"protocolRevision": "2025-06"},
        }
        assert await ours.ask("initialize", hello) == {}
        await ours.tell("initialized")
        await ours.prompt(f"say Here:\ncall eca_write_file {write}\nsay Well.")

        def waits(message: Any) -> bool:
            return message["params"]["content"].get("manualApproval") is True

        asked = next(filter(waits, ours.seen[2:]), None) or await ours.until(waits)
        assert asked["params"]["content"]["file"] == str(tmp_path / "new.txt")
        began = trio.current_time()
        closing = await ours.until(lambda message: message["params"]["isComplete"])
        assert DRAFT_SECONDS <= trio.current_time() - began < DRAFT_SECONDS + 5
        assert closing["params"]["metadata"]["tokensUsed"] > 0
        texts = [each["params"]["content"].get("text", "") for each in ours.seen[2:]]
        assert "Rejected: Creating file new.txt." in "".join(texts)
        assert "".join(texts).endswith("Well.")
        assert not (tmp_path / "new.txt").exists()
