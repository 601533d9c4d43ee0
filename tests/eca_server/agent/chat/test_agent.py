"""Whole turns with tools: the contents of each call, and its result for the model."""

import os
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_server.agent.tools.read_file import ReadFile
from eca_server.agent.tools.tool import ToolOutput
from tests.eca_server.agent.chat.agent_session import (
    ALLOW,
    RUN,
    calls,
    of_calls,
    older,
    order,
    results,
    today,
)
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, Editor, call


async def test_reads_of_one_answer_run_at_once_and_their_results_keep_the_order(folder):
    names = [f"{number}.txt" for number in range(8)]
    for name in names:
        (folder / name).write_text(f"I am {name}\n")
    script = calls(*(("eca_read_file", {"path": name}) for name in names))
    async with older(script, folder=folder) as (ours, provider):
        await ours.turn("go")
        assert order(of_calls(ours))[-16:] == ["Running"] * 8 + ["ed"] * 8
        assert results(provider) == [f"I am {name}" for name in names]


async def test_a_native_tool_runs_in_each_spelling_of_its_name(folder):
    (folder / "a.txt").write_text("good")
    names = ("eca_read_file", "read_file", "eca__read_file")  # the last is upstream's
    script = calls(*((name, {"path": "a.txt"}) for name in names))
    async with older(script, folder=folder) as (ours, provider):
        await ours.turn("go")
        assert {each["name"] for each in ours.contents(kind="toolCallRun")} == {names[0]}
        assert results(provider) == ["good"] * len(names)


@pytest.mark.requirement("W-31c", "W-30f")
@pytest.mark.parametrize("steers", [False, True])
async def test_a_rejection_by_today_s_user_ends_the_turn(tmp_path, steers):
    one = calls(("eca_shell_command", {"command": "touch made"}), ("eca_read_file", {"path": "."}))
    async with today(one, folder=tmp_path) as (ours, provider):
        await ours.prompt("go")
        pending_call = await ours.content("toolCallRun", manualApproval=True)
        if steers:
            await ours.tell("chat/promptSteer", {"chatId": "c", "message": "and then?"})
        await ours.reject(pending_call)
        await ours.expect_finished()
        assert {"toolCallRejected", "toolCalled"} <= {each["type"] for each in of_calls(ours)}
        assert len(provider.requests) == 1 + steers
        await ours.turn("rather not")
        assert "rejected" in results(provider)[0]
        assert "rather not" in str(provider.requests[-1].body["messages"][-1])


async def test_a_rejection_of_a_subagent_s_call_ends_both_turns(tmp_path):
    script = [
        calls(("eca_spawn_agent", {"agent": "scout", "task": "touch it"})),
        calls(("eca_shell_command", {"command": "touch made"})),
    ]
    scout = {"mode": "subagent", "description": "Touches.", "systemPrompt": "Touch."}
    async with today(*script, folder=tmp_path, agent={"scout": scout}) as (ours, provider):
        await ours.prompt("go")
        pending = await ours.pending()
        await ours.reject(pending["content"], chatId=pending["chatId"])
        await ours.expect_finished()
        assert len(provider.requests) == 2
        await ours.turn("go on")
        assert "rejected a tool call" in results(provider)[0]


@pytest.mark.requirement("W-26a", "W-30d", "TOOL-9", "W-38b")
@pytest.mark.parametrize(
    ("name", "arguments", "config", "behavior", "ends", "reason"),
    [
        ("eca_shell_command", RUN, {"toolCall": {"approval": {"deny": {"eca_shell_command":
            {"argsMatchers": {"command": ["echo.*"]}}}}}}, "agent", "user-config", "Denied by"),
        ("eca_shell_command", {"command": "rm -r ."}, ALLOW, "plan", "user-config", "only reads"),
        ("eca_write_file", {"path": "a", "content": "b"}, ALLOW, "plan", "user-config", "reads"),
        ("eca_read_file", {"path": "a"}, {"disabledTools": ["read_file"]}, "agent", "user-config",
            "disabledTools"),
        ("no_such_tool", {}, {}, "agent", None, "eca_read_file"),
        ("eca_read_file", '{"path": ', {}, "agent", None, "unreadable"),
        ("eca_read_file", '"a text"', {}, "agent", None, "unreadable"),
        ("eca_read_file", {"path": 5}, {}, "agent", None, "expected string"),
        ("eca_read_file", {"path": "a", "start_line": 3}, {}, "agent", None,
            'unknown: "start_line" (supported: path, line_offset, limit)'),
        ("eca_edit_file", {"path": "gone", "original_content": "a", "new_content": "b"}, ALLOW,
            "agent", None, "does not exist"),
    ],
)  # fmt: skip
async def test_a_call_that_cannot_run_is_not_asked(
    tmp_path, name, arguments, config, behavior, ends, reason
):
    async with older(calls((name, arguments)), folder=tmp_path, **config) as (ours, provider):
        await ours.turn("go", behavior=behavior)
        received = of_calls(ours)
        assert order(received) == ["Prepare", "Run", "Rejected" if ends else "ed"]
        run, end = received[-2:]
        assert run["manualApproval"] is False
        assert run["arguments"] == (arguments if isinstance(arguments, dict) else {})
        assert end.get("reason") == ends
        assert end.get("error") is (None if ends else True)
        assert reason in results(provider)[0]
        assert len(provider.requests) == 2
        assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("W-30b", "W-31b", "TOOL-18", "TOOL-19")
async def test_calls_are_asked_together_and_run_in_their_order_but_a_rejected_one(tmp_path):
    commands = ("sleep 0.2; echo made > a.txt; echo 1", "touch never", "cat a.txt; echo 4")
    first, second, last = [("eca_shell_command", {"command": each}) for each in commands]
    one = calls(first, second, ("eca_read_file", {"path": "a.txt"}), last)
    async with older(one, folder=tmp_path) as (ours, provider):
        await ours.prompt("go")
        pending_calls = [await ours.content("toolCallRun", manualApproval=True) for _ in range(3)]
        await ours.approve(pending_calls[2], {"id": "unknown"})
        await ours.reject(pending_calls[1])
        await ours.approve(pending_calls[0])
        await ours.expect_finished()
        [rejected] = ours.contents(kind="toolCallRejected")
        assert rejected["reason"] == "user-choice"
        assert not (tmp_path / "never").exists()
        one, two, three, four = results(provider)
        assert (one.strip(), three, four.split()) == ("1", "made", ["made", "4"])
        assert "rejected" in two
        assert (len(provider.requests), ours.contents()[-3]["text"]) == (2, "the end")


async def needs_approval(ours: Editor, tool: str, **arguments: Any) -> bool:
    """Return whether the user is asked before the call runs; its turn is stopped."""
    await ours.prompt(call(tool, **arguments), model=SCRIPT)
    run = await ours.content("toolCallRun")
    await ours.expect_stopped()
    return bool(run["manualApproval"])


@pytest.mark.parametrize("opened", [".", ".ssh"])
async def test_keys_below_an_opened_home_need_approval_unless_opened_themselves(tmp_path, opened):
    (tmp_path / ".ssh").mkdir()
    key = tmp_path / ".ssh" / "id_rsa"
    key.write_text("secret")
    async with current(folder=tmp_path / opened, environ={"HOME": str(tmp_path)}) as ours:
        assert await needs_approval(ours, "read_file", path=str(key)) is (opened == ".")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="Linux only")
async def test_processes_below_an_opened_root_need_approval():
    async with current(folder=Path("/")) as ours:
        assert await needs_approval(ours, "read_file", path="/proc/self/environ")


@pytest.mark.parametrize("linked", ["eca/config.json", "eca/agents", "eca"])
async def test_a_change_of_the_user_s_configuration_needs_approval(tmp_path, linked):
    project, user = tmp_path / "dotfiles", tmp_path / ".config"
    (project / "eca" / "agents").mkdir(parents=True)
    (project / "eca" / "config.json").write_text("{}")
    (user / linked).parent.mkdir(parents=True)
    (user / linked).symlink_to(project / linked)
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(user)}
    async with current(ALLOW, folder=project, environ=environ) as ours:
        for name in ("eca/config.json", "eca/agents/a.md", "eca/notes.md"):
            asks = await needs_approval(ours, "write_file", path=str(project / name), content="{}")
            assert asks is Path(name).is_relative_to(linked), name


async def test_a_change_of_a_script_of_the_user_s_hooks_needs_approval(tmp_path):
    script = tmp_path / "tools" / "hook.sh"
    script.parent.mkdir()
    script.write_text("")
    hook = {"type": "postRequest", "actions": [{"type": "shell", "file": str(script)}]}
    async with current({**ALLOW, "hooks": {"h": hook}}, folder=tmp_path) as ours:
        assert await needs_approval(ours, "write_file", path="tools/hook.sh", content="")
        assert await needs_approval(ours, "move_file", source="tools", destination="other")


@pytest.mark.requirement("W-30e")
async def test_the_same_call_failing_again_and_again_ends_the_turn_readably(tmp_path):
    one = calls(("eca_read_file", {"path": "gone"}))
    known = calls(("eca_write_file", {"path": "a", "content": "b"}))
    script = [one, known, one, known, one, one, one, one]
    async with older(*script, folder=tmp_path, **ALLOW) as (ours, provider):
        received = await ours.turn("go")
        assert len(provider.requests) == 8
        assert any("failed 5 times" in str(each.get("text")) for each in received)
        assert received.finishes == 1
    at_once = calls(*[("eca_read_file", {"path": "gone"})] * 6)
    async with older(at_once, folder=tmp_path) as (ours, provider):
        await ours.turn("go")
        assert len(results(provider)) == 6


async def test_tests_may_fail_as_often_as_the_code_changes(tmp_path):
    check = calls(("eca_shell_command", {"command": "grep -q right code"}))
    tries = [calls(("eca_write_file", {"path": "code", "content": str(n)})) for n in range(6)]
    script = [answer for write in tries for answer in (write, check)]
    async with older(*script, folder=tmp_path, **ALLOW) as (ours, provider):
        await ours.turn("go")
        assert len(provider.requests) == len(script) + 1


@pytest.mark.parametrize(("configured", "steps"), [({}, 2), ({"maxSteps": 3}, 3)])
async def test_a_turn_without_an_end_is_ended_readably(tmp_path, monkeypatch, configured, steps):
    monkeypatch.setattr("eca_server.agent.chat.agent.MOST_STEPS", 2)
    (tmp_path / "a").write_text("a")
    one = calls(("eca_read_file", {"path": "a"}))
    async with older(one, one, one, folder=tmp_path, agent={"agent": configured}) as (
        ours,
        provider,
    ):
        received = await ours.turn("go")
        assert len(provider.requests) == steps
        assert any(f"{steps} steps" in str(each.get("text")) for each in received)


@pytest.mark.requirement("TOOL-7")
@pytest.mark.parametrize("where", ["prepare", "read"])
async def test_a_tool_that_crashes_fails_its_call_only(tmp_path, monkeypatch, where):
    def crash(*_: object) -> ToolOutput:
        raise RuntimeError("a bug")

    monkeypatch.setattr(ReadFile, where, crash)
    async with older(calls(("eca_read_file", {"path": "a"})), folder=tmp_path) as (ours, provider):
        await ours.turn("go")
        assert of_calls(ours)[-1]["error"] is True
        assert "a bug" in results(provider)[0]
        assert len(provider.requests) == 2


async def test_the_user_is_notified_once_that_ignore_rules_cannot_be_read(tmp_path, monkeypatch):
    rules = tmp_path / ".gitignore"
    rules.write_text("secret\n")
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != rules)
    async with older(folder=tmp_path) as (ours, _):
        index = ours.connection.index
        for _ in range(2):
            await trio.to_thread.run_sync(index._listing, True)
        await ours.ask("chat/queryContext", {"query": ""})
    [notice] = ours.notices
    assert notice == (
        f"Could not read `{rules}`: the files that it ignores are listed and searched. "
        "Make the file readable."
    )
