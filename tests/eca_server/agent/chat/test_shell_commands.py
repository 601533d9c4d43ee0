"""Commands: approved, remembered, run in the background, ended with their session."""

import os
from typing import Any

import pytest
import trio

from eca_protocol.testing.provider import reply
from eca_server.agent.tools import background
from eca_server.client.profiles import DRAFT_SECONDS
from tests.eca_server.agent.chat.agent_session import ALLOW, calls, results, today
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, Content, Editor, call, editor
from tests.eca_server.agent.chat.test_subagents import SCOUT, spawn
from tests.eca_server.processes import assert_gone


def in_background(command: str, name: str = "it") -> tuple[str, dict[str, Any]]:
    return "eca_shell_command", {"command": command, "background": name}


def bg_job(action: str, job: str) -> tuple[str, dict[str, Any]]:
    return "eca_bg_job", {"action": action, "job_id": job}


async def until_jobs(ours: Editor, *standing: str) -> None:
    """Read until the jobs that the client knows stand like that."""
    while [job.status for job in ours.shown.jobs] != list(standing):
        await ours.notice("jobs/updated")


@pytest.mark.requirement("W-44c", "W-13b")
async def test_a_job_is_approved_and_ends_with_a_kill_or_the_session(monkeypatch, tmp_path):
    monkeypatch.setattr(background, "_FIRST_OUTPUT", 60)  # it is stopped while it waits for them
    async with current(folder=tmp_path) as ours:
        assert await ours.ask("jobs/list") == {"jobs": []}
        command = "echo up >&2; sleep 60 & echo $! > pid; wait"
        parts = [{"command": command, "args": []}]
        details = {"type": "shellCommand", "commands": parts, "background": True}
        call_ids = []
        for number in (1, 2):
            run = call("shell_command", command=command, background="it")
            await ours.prompt(run, model=SCRIPT)
            pending_call = await ours.content("toolCallRun", manualApproval=True)
            assert pending_call["details"] == details
            call_ids.append(pending_call["id"])
            await ours.approve(pending_call)
            await until_jobs(ours, *["running"] * number)
            await ours.expect_stopped()
        first, second = (await ours.ask("jobs/list"))["jobs"]
        assert first == {
            "id": "job-1", "type": "shell", "status": "running", "label": command, "summary": "it",
            "startedAt": first["startedAt"], "elapsed": first["elapsed"], "exitCode": None,
            "chatId": "c", "chatLabel": "c", "toolCallId": call_ids[0],
        }  # fmt: skip
        assert (second["id"], second["status"]) == ("job-2", "running")
        await ours.ask("chat/delete", {"chatId": "c"})
        assert await ours.ask("jobs/kill", {"jobId": "job-1"}) == {"killed": True}
        assert [job.status for job in ours.shown.jobs] == ["killed", "running"]
        assert await ours.ask("jobs/kill", {"jobId": "job-1"}) == {"killed": False}
        assert await ours.ask("jobs/kill", {"jobId": "none"}) == {"killed": False}
        for job, lines, status in (
            ("job-1", [{"text": "up", "stream": "stderr"}], "killed"),
            ("none", [], None),
        ):
            output = await ours.ask("jobs/readOutput", {"jobId": job})
            assert output == {"lines": lines, "status": status, "exitCode": None}
        assert await ours.ask("shutdown") is None
        assert [job.status for job in ours.shown.jobs] == ["killed", "killed"]
        assert_gone({int((tmp_path / "pid").read_text())})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("shell_command", {"command": "ls \u202e\x1b[2J"}),
        ("shell_command", {"command": "cat /etc/\u202e\x1b[2J"}),
        ("shell_command", {"command": "sleep 9", "working_directory": "/none\u202e\x1b[2J"}),
    ],
)
async def test_nothing_in_the_summary_of_a_call_is_invisible(name, arguments, tmp_path):
    async with current(folder=tmp_path) as ours:
        await ours.prompt(call(name, **arguments), model=SCRIPT)
        run = await ours.content("toolCallRun")
        assert run["summary"].isprintable()
        assert "\\u202e" in run["summary"] or "?" in run["summary"]
        assert run["arguments"] == arguments
        await ours.expect_stopped()


async def test_nothing_in_the_list_of_jobs_is_invisible(tmp_path):
    async with current(folder=tmp_path) as ours:
        run = call("shell_command", command="sleep 60 # \u202e\x1b", background="a\u202e\x1bb")
        await ours.prompt(run, model=SCRIPT)
        await ours.approve(await ours.content("toolCallRun", manualApproval=True))
        await until_jobs(ours, "running")
        [job] = (await ours.ask("jobs/list"))["jobs"]
        assert (job["label"], job["summary"]) == ("sleep 60 # \\u202e\\x1b", "a\\u202e\\x1bb")
        await ours.expect_stopped()


PROMPT = r"printf '1%%\rProceed? '"


async def test_a_model_reads_what_is_new_and_is_notified_once_of_the_end(monkeypatch, tmp_path):
    monkeypatch.setattr(background, "_FIRST_OUTPUT", 0.3)
    os.mkfifo(tmp_path / "gate")
    lines = {"toolCall": {**ALLOW["toolCall"], "outputTruncation": {"lines": 3}}}
    script = [
        calls(
            bg_job("kill", "job-1"),
            in_background(f"seq 5; {PROMPT}; cat gate; exit 4"),
            in_background("exit 3", "breaks"),
        ),
        reply("started"),
        calls(*[bg_job("read_output", "job-1")] * 2, bg_job("kill", "job-2"),
              ("eca_bg_job", {"action": "list"}), bg_job("kill", "job-9")),
    ]  # fmt: skip
    async with today(*script, folder=tmp_path, **lines) as (ours, provider):
        await ours.turn("go")
        absent, started, broken = results(provider)
        assert "There are no background jobs: " in absent
        assert "(job-1) was started: running, " in started
        assert ".\n1\n2\n3\n... more output is available" in started
        assert "(job-2) was started: failed with exit code 3, " in broken
        assert broken.endswith("(no new output)")
        await ours.turn("read")
        one, two, killed, listed, unknown = results(provider)[3:]
        assert one.endswith("\n4\n5\n[incomplete line] Proceed? ")
        assert two.endswith(".\n\n[incomplete line] Proceed? ")
        assert "has already ended: failed with exit code 3" in killed
        assert f' | seq 5; {PROMPT}; cat gate; exit 4\n- job-2 "breaks": failed' in listed
        assert "expected one of: job-1, job-2; got 'job-9'" in unknown
        (tmp_path / "gate").write_text("late")
        await until_jobs(ours, "failed", "failed")
        assert "<eca_ended_jobs>" in (await ours.turn("/prompt-show")).text
        for _ in range(2):
            await ours.turn("and now?")
            messages = str(provider.requests[-1].body["messages"])
            assert messages.count("<eca_job ") == 1
            assert '<eca_job id="job-1" name="it" status="failed with exit code 4, ' in messages
            assert "\n4\n5\n1%\\rProceed? late\n</eca_job>" in messages.replace("\\n", "\n")


@pytest.mark.parametrize("is_subagent", [False, True])
@pytest.mark.parametrize(("action", "standing"), [("read_output", "failed"), ("kill", "killed")])
async def test_a_chat_is_notified_of_its_job_s_end(
    is_subagent, action, standing, monkeypatch, tmp_path
):
    monkeypatch.setattr(background, "_FIRST_OUTPUT", 0.01)
    os.mkfifo(tmp_path / "gate")
    async with current({"agent": SCOUT, **ALLOW}, folder=tmp_path) as ours:
        begin = call("shell_command", command="echo up; cat gate; exit 3", background="it")
        await ours.turn(spawn(begin) if is_subagent else begin, model=SCRIPT)
        if action == "read_output":
            (tmp_path / "gate").write_text("late")
            await until_jobs(ours, standing)
        look = call("bg_job", action=action, job_id="job-1")
        if is_subagent:
            await ours.turn(spawn(look), model=SCRIPT)
        else:
            await ours.turn(look, "d", model=SCRIPT)
        await ours.turn("say so", model=SCRIPT)
        history = ours.connection.chats.open("c").history
        (message,) = (str(each) for each in history if "ended_jobs" in str(each))
        assert f'name="it" status="{standing}' in message
        again = await ours.turn(call("bg_job", action="read_output", job_id="job-1"), model=SCRIPT)
        (called,) = (each for each in again if each["type"] == "toolCalled")
        if is_subagent and action == "read_output":
            assert called["outputs"][0]["text"].endswith("\n\nup\nlate")


@pytest.mark.requirement("W-24f")
async def test_a_chat_with_a_deleted_chat_s_id_is_not_notified_of_its_jobs(monkeypatch, tmp_path):
    monkeypatch.setattr(background, "_FIRST_OUTPUT", 0.01)
    os.mkfifo(tmp_path / "gate")
    script = [
        calls(in_background("echo up; cat gate")),
        reply("started"),
        calls(bg_job("read_output", "job-1")),
    ]
    async with today(*script, folder=tmp_path, **ALLOW) as (ours, provider):
        await ours.turn("go")
        await ours.ask("chat/delete", {"chatId": "c"})
        (tmp_path / "gate").write_text("late")
        await until_jobs(ours, "completed")
        await ours.turn("and now?")
        assert "<eca_job" not in str(provider.requests[-1].body["messages"])
        assert results(provider)[-1].endswith("\n\nup\nlate")


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
    commands = [
        "touch a.txt | head -1", "head -2 a.txt | touch b.txt", "touch c.txt && sleep 0",
        "sudo -n true; sleep 0", "sleep 0",
    ]  # fmt: skip
    async with today(*(calls(shell(each)) for each in commands), folder=tmp_path) as (ours, _):
        await ours.prompt("go")
        (first,) = await runs(ours, 1)
        touch = {"command": "touch", "args": ["a.txt"], "approvalKey": "touch"}
        head = {"command": "head", "args": ["-1"], "approvalKey": "head"}
        parts = [{**each, "remembered": False} for each in (touch, head)]
        assert first["details"] == {"type": "shellCommand", "commands": parts}
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
    move = "eca_move_file", {"source": "sleeper", "destination": "bin/sleep"}
    script = [calls(shell("sleep 0")), calls(move, shell("sleep 0"))]
    async with today(*script, folder=tmp_path, environ={"PATH": path}) as (ours, _):
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


async def test_a_command_that_a_rule_allows_is_judged_after_the_calls_before_it(tmp_path):
    (tmp_path / "secret").touch()
    (tmp_path / "ws").mkdir()
    cat = {"argsMatchers": {"command": ["cat .*"]}}
    allow = {"approval": {"allow": {"shell_command": cat}}}
    script = [calls(shell("ln -s .. up"), shell("cat up/secret"))]
    async with today(*script, folder=tmp_path / "ws", toolCall=allow) as (ours, _):
        await ours.prompt("go")
        (link,) = await runs(ours, 1)
        await ours.approve(link)
        (cat_outside,) = await runs(ours, 1)
        assert cat_outside["manualApproval"] is True
        await ours.reject(cat_outside)
        await ours.expect_finished()


async def test_an_unapproved_change_is_rejected_after_a_while(tmp_path, autojump_clock):
    write = call("write_file", path="new.txt", content="x\n")
    async with editor({"defaultModel": SCRIPT}, started=False) as ours:
        folders = [{"name": "w", "uri": tmp_path.as_uri()}]
        options = {"protocolRevision": "2025-06"}
        hello = {"workspaceFolders": folders, "initializationOptions": options}
        assert await ours.ask("initialize", hello) == {}
        await ours.tell("initialized")
        await ours.prompt(f"say Here:\n{write}\nsay Well.")

        def waits(message: Any) -> bool:
            return message["params"]["content"].get("manualApproval") is True

        pending = next(filter(waits, ours.received[2:]), None) or await ours.until(waits)
        assert pending["params"]["content"]["file"] == str(tmp_path / "new.txt")
        began = trio.current_time()
        closing = await ours.until(lambda message: message["params"]["isComplete"])
        assert DRAFT_SECONDS <= trio.current_time() - began < DRAFT_SECONDS + 5
        assert closing["params"]["metadata"]["tokensUsed"] > 0
        texts = [each["params"]["content"].get("text", "") for each in ours.received[2:]]
        assert "Rejected: Creating file new.txt." in "".join(texts)
        assert "".join(texts).endswith("Well.")
        assert "the user did not answer in time" in ours.model_context(pending["params"]["chatId"])
        assert not (tmp_path / "new.txt").exists()


async def test_git_does_not_wait_for_an_editor(tmp_path):
    git = "git -c user.name=a -c user.email=a@b -c core.editor='sleep 60' commit --allow-empty"
    commands = calls(("eca_shell_command", {"command": f"git init -q; {git}"}))
    async with today(commands, folder=tmp_path, **ALLOW) as (ours, provider):
        await ours.turn("go")
        assert "empty commit message" in results(provider)[0]
