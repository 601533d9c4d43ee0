"""Shell commands: their output, the limits of large outputs, and no process left running."""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.messages import WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.jobs import shell as jobs_shell
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.schema_check import check_arguments
from eca_server.agent.tools.shell_command import ShellCommand
from eca_server.agent.tools.tool import Tool, ToolError, ToolOutput
from eca_server.models.history import TextPart
from eca_server.workspace.boundary import Workspace

PYTHON = f"{shlex.quote(sys.executable)} -S -c"
ENVIRONMENT = {"PATH": os.environ["PATH"], "WORD": "given"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def tool(root: Path) -> ShellCommand:
    return tool_in(root)


def tool_in(*folders: Path, **options: Any) -> ShellCommand:
    roots, problems = parse_roots(WorkspaceFolder(uri=uri_of(path)) for path in folders)
    assert not problems
    return ShellCommand(workspace=Workspace(roots), environment=ENVIRONMENT, **options)


async def run(tool: Tool, command: str, **arguments: Any) -> ToolOutput:
    call = await tool.prepare(check_arguments({"command": command, **arguments}, tool.parameters))
    with trio.fail_after(20):
        return await call.run()


def texts(output: ToolOutput) -> list[str]:
    return [part.text for part in output.parts if isinstance(part, TextPart)]


def alive(pid: int) -> bool:
    """Return True if a process runs and is not a zombie."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def until(holds: Callable[[], object]) -> None:
    with trio.fail_after(10):
        while not holds():
            await trio.sleep(0.002)


async def gone(*pids: int) -> None:
    await until(lambda: not any(alive(pid) for pid in pids))


def numbers(file: Path) -> list[int]:
    """Return the process ids that a command has written, one per line."""
    return [int(word) for word in file.read_text().split()] if file.exists() else []


async def stopped(tool: Tool, command: str, notes: Path, *, pids: int) -> tuple[float, list[int]]:
    """Stop a command after it wrote process ids; return the seconds until it ended, and the ids."""
    call = await tool.prepare({"command": command})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run)
        await until(lambda: len(numbers(notes)) == pids)
        begun = time.monotonic()
        nursery.cancel_scope.cancel()
    return time.monotonic() - begun, numbers(notes)


async def test_what_a_command_writes_comes_back(tool, root):
    output = await run(tool, "pwd; echo $WORD; echo 'two  words'")
    assert texts(output) == [f"{root}\ngiven\ntwo  words\n"]
    assert not output.is_error


async def test_a_command_is_a_whole_script_for_bash(tool):
    output = await run(tool, "words=(a b)\nfor word in ${words[@]}; do\n  echo $word\ndone")
    assert texts(output) == ["a\nb\n"]


async def test_without_bash_there_is_sh(root, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").symlink_to("/bin/sh")
    roots, _ = parse_roots([WorkspaceFolder(uri=uri_of(root))])
    tool = ShellCommand(workspace=Workspace(roots), environment={"PATH": str(tmp_path / "bin")})
    assert texts(await run(tool, "echo $0")) == [f"{tmp_path}/bin/sh\n"]


async def test_errors_of_a_command_that_succeeds_are_shown_after_its_output(tool):
    output = await run(tool, "echo warning >&2; echo fine")
    assert texts(output) == ["fine\n", "Stderr:\nwarning\n"]
    assert not output.is_error


async def test_a_command_without_output_says_so(tool):
    assert texts(await run(tool, "true")) == ["The command succeeded without output."]


async def test_a_failure_reports_code_errors_and_output(tool):
    output = await run(tool, "echo half; echo why >&2; exit 3")
    assert texts(output) == ["Exit code 3", "Stderr:\nwhy\n", "Stdout:\nhalf\n"]
    assert output.is_error
    assert texts(await run(tool, "exit 1")) == ["Exit code 1"]


async def test_a_signal_that_ended_a_command_is_named(tool):
    output = await run(tool, "kill -SEGV $$")
    assert texts(output) == ["Ended by SIGSEGV"]
    assert output.is_error


async def test_a_command_reads_nothing_and_has_no_terminal(tool):
    output = await run(tool, "cat; tty; (exec < /dev/tty) 2> /dev/null || echo none")
    assert texts(output) == ["not a tty\nnone\n"]


async def test_colours_of_a_command_are_taken_out(tool):
    script = r"printf '\033[31mred\033[0m\n'; printf '\033]0;x\007\033[1mbold\033[m\n' >&2"
    assert texts(await run(tool, script)) == ["red\n", "Stderr:\nbold\n"]


async def test_bytes_that_are_no_text_are_replaced(tool):
    assert texts(await run(tool, r"printf 'caf\351\n'")) == ["caf\ufffd\n"]


async def test_a_directory_may_be_named(tool, root, tmp_path):
    (root / "below").mkdir()
    for where, path in [("below", root / "below"), (str(tmp_path), tmp_path), ("..", tmp_path)]:
        call = await tool.prepare({"command": "pwd -P", "working_directory": where})
        assert call.paths == (where,)
        assert texts(await call.run()) == [f"{path.resolve()}\n"]


@pytest.mark.parametrize("where", ["missing", "file", "", "a\0b"])
async def test_what_is_no_directory_is_refused(tool, root, where):
    (root / "file").touch()
    with pytest.raises(ToolError, match="working_directory: "):
        await run(tool, "pwd", working_directory=where)


async def test_without_a_folder_commands_run_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert texts(await run(tool_in(), "pwd -P")) == [f"{tmp_path.resolve()}\n"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [(" \n", "blank"), ("echo a\0b", "null byte"), ("x" * 200_000, "too long")],
)
async def test_what_cannot_start_says_why(tool, command, reason):
    with pytest.raises(ToolError, match=reason):
        await run(tool, command)


async def test_a_directory_that_vanished_since_the_approval_is_reported(tool, root):
    (root / "below").mkdir()
    call = await tool.prepare({"command": "pwd", "working_directory": "below"})
    (root / "below").rmdir()
    with pytest.raises(ToolError, match="No such file"):
        await call.run()


async def test_a_summary_is_one_short_line(tool):
    assert tool.summary({}) == "Running a command"
    assert tool.summary({"command": 7}) == "Running a command"
    assert tool.summary({"command": "git status\n"}) == "Running 'git status'"
    assert tool.summary({"command": "echo a\n\n  echo b"}) == "Running 'echo a echo b'"
    assert tool.summary({"command": "x" * 26}) == f"Running '{'x' * 25}...'"
    assert tool.summary({"command": "ls", "working_directory": "a"}) == "Running 'ls' in a"


async def test_a_summary_names_the_directory_unless_it_is_the_root(root, tmp_path):
    (root / "a" / "b\x1b[2J\u202e").mkdir(parents=True)
    other = tmp_path / "other"
    (other / "c").mkdir(parents=True)
    tool = tool_in(root, other)

    async def summary(where: str) -> str:
        call = await tool.prepare({"command": "ls", "working_directory": where})
        return call.summary

    assert await summary(".") == await summary(str(root)) == "Running 'ls'"
    assert await summary(f"{root}/a/../a") == "Running 'ls' in a"
    assert await summary("a/b\x1b[2J\u202e") == "Running 'ls' in a/b?[2J?"
    assert await summary(f"{other}/c") == "Running 'ls' in other/c"
    assert await summary(str(tmp_path)) == f"Running 'ls' in {tmp_path}"


async def test_the_whole_command_is_there_to_be_judged(tool):
    command = f"echo {'x' * 100}\nrm -rf /"
    call = await tool.prepare({"command": command})
    assert call.command == command
    assert call.paths == ()


async def test_a_timeout_is_reported_with_the_output_so_far(tool, root):
    output = await run(tool, "echo begun; echo $$ > pid; sleep 60", timeout=200)
    assert texts(output) == ["Timed out after 0.2 s and was stopped.", "Stdout:\nbegun\n"]
    assert output.is_error
    await gone(*numbers(root / "pid"))


@pytest.mark.parametrize(
    ("timeout", "reason"), [(0, "1 or more"), (600_001, "600000 or less"), ("5", "integer")]
)
async def test_a_timeout_has_its_bounds(tool, timeout, reason):
    with pytest.raises(ToolError, match=f"timeout: expected {reason}"):
        await run(tool, "true", timeout=timeout)


async def test_a_flood_takes_no_memory(tool):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    [text] = texts(await run(tool, "head -c 100000000 /dev/zero | tr '\\0' x"))
    assert "... cut, 99948800 bytes left out ..." in text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


async def test_of_a_flood_beginning_and_end_are_retained(root):
    tool = tool_in(root, cap=Cap(lines=10, size=1000))
    [text] = texts(await run(tool, "seq 100000"))
    assert text.startswith("1\n2\n3\n4\n5\n... cut, 588854 bytes left out ... (")
    assert text.endswith(")\n99996\n99997\n99998\n99999\n100000\n")


async def test_errors_leave_space_for_the_output_and_the_output_for_errors(root):
    tool = tool_in(root, cap=Cap(lines=10, size=1000))
    stdout, stderr = texts(await run(tool, "seq 1000; seq 1000 >&2"))
    assert len(stdout.splitlines()) == 5 + 1
    assert len(stderr.splitlines()) == 5 + 1 + 1
    stdout, stderr = texts(await run(tool, "seq 1000; echo oops >&2"))
    assert len(stdout.splitlines()) == 8 + 1
    assert stderr == "Stderr:\noops\n"
    stderr = texts(await run(tool, "seq 1000 >&2"))[0]
    assert len(stderr.splitlines()) == 9 + 1 + 1


async def test_a_daemon_that_holds_the_output_delays_nothing(tool, root):
    daemon = "import os, time; os.fork() and os._exit(0); os.setsid(); "
    daemon += "open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    begun = time.monotonic()
    output = await run(tool, f'echo up; {PYTHON} "{daemon}"; while [ ! -s pid ]; do :; done')
    assert time.monotonic() - begun < 10
    assert texts(output) == ["up\n"]
    [pid] = numbers(root / "pid")
    os.kill(pid, 9)


async def test_what_was_left_in_the_background_ends_with_the_command(tool, root):
    output = await run(
        tool, "sleep 60 & echo $! > pid; set -m; sleep 60 > /dev/null & echo $! >> pid; echo up"
    )
    assert texts(output) == ["up\n"]
    assert len(numbers(root / "pid")) == 2
    await gone(*numbers(root / "pid"))


async def test_a_stop_ends_the_whole_tree_at_once(tool, root, monkeypatch):
    monkeypatch.setattr(jobs_shell, "_TERM_SECONDS", 30)  # so that KILL would be seen
    sleep = "sh -c 'echo $$ >> pid; exec sleep 60'"  # `timeout` has started it once it writes
    seconds, pids = await stopped(
        tool,
        f"echo $$ > pid; ({sleep}; true) & echo $! >> pid; timeout 60 {sleep} & echo $! >> pid;"
        "wait",
        root / "pid",
        pids=5,
    )
    assert seconds < 10
    await gone(*pids)


async def test_a_stop_lets_a_tool_clean_up(tool, root):
    tidy = (
        "import os, signal, sys, time\n"
        "def leave(*_):\n    time.sleep(0.05); open('tidy', 'w').close(); sys.exit()\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "open('pid', 'w').write(str(os.getpid()) + '\\n'); time.sleep(60)"
    )
    command = f"{PYTHON} {shlex.quote(tidy)}; true"
    _, pids = await stopped(tool, command, root / "pid", pids=1)
    assert (root / "tidy").exists()
    await gone(*pids)


STUBBORN = "trap '' TERM; echo $$ >> pid; while :; do sleep 60; done"


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    "command",
    [
        STUBBORN,
        f"bash -c {shlex.quote(STUBBORN)}; true",
        f"timeout 60 bash -c {shlex.quote(STUBBORN)}; true",
        f"setsid bash -c {shlex.quote(STUBBORN)} > /dev/null 2>&1; true",
    ],
    ids=["itself", "a child", "a child in its own group", "a child in its own session"],
)
async def test_a_tool_that_ignores_a_stop_is_killed_within_a_second(tool, root, command):
    seconds, pids = await stopped(tool, command, root / "pid", pids=1)
    assert seconds < 5
    await gone(*pids)


async def test_a_timeout_ends_a_tool_that_ignores_it(tool, root):
    output = await run(tool, STUBBORN, timeout=200)
    assert texts(output)[0] == "Timed out after 0.2 s and was stopped."
    await gone(*numbers(root / "pid"))


async def test_a_stop_leaves_no_descriptors(tool, root):
    await run(tool, "true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        (root / "pid").unlink(missing_ok=True)
        await stopped(tool, "echo $$ > pid; sleep 60", root / "pid", pids=1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_a_flood_can_be_stopped(tool, root):
    seconds, pids = await stopped(tool, "echo $$ > pid; yes", root / "pid", pids=1)
    assert seconds < 5
    await gone(*pids)
