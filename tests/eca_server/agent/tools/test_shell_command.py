"""Shell commands and custom tools: outputs, their limits, and no process left running."""

import os
import resource
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_server.agent.jobs import shell as jobs_shell
from eca_server.agent.tools.custom import CustomCommand, custom_commands
from eca_server.agent.tools.native import NATIVE_NAMES
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.shell_command import ShellCommand
from eca_server.agent.tools.tool import Tool, ToolError
from eca_server.config.tool_settings import CustomTool
from tests.eca_server.agent.tools.file_tools import (
    output_text,
    refusal,
    run,
    texts,
    until,
    workspace_of,
)
from tests.eca_server.processes import assert_gone

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
    options = {"environment": ENVIRONMENT, **options}
    return ShellCommand(workspace=workspace_of(*folders), **options)


def numbers(file: Path) -> set[int]:
    """Return the process ids that a command has written, one per line."""
    return {int(word) for word in file.read_text().split()} if file.exists() else set()


async def stopped(tool: Tool, command: str, notes: Path, *, pids: int = 1) -> float:
    """Stop a command after it wrote process ids, which must end; return the seconds it took."""
    call = await tool.prepare({"command": command})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run)
        await until(lambda: len(numbers(notes)) == pids)
        begun = time.monotonic()
        nursery.cancel_scope.cancel()
    seconds = time.monotonic() - begun
    assert_gone(numbers(notes))
    return seconds


COLOURS = r"printf '\033[31mred\033[0m\n'; printf '\033]0;x\007\033[1mbold\033[m\n' >&2"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo $WORD; echo 'two  words'", ["given\ntwo  words\n"]),
        ("words=(a b)\nfor word in ${words[@]}; do\n  echo $word\ndone", ["a\nb\n"]),
        ("echo warning >&2; echo fine", ["fine\n", "Stderr:\nwarning\n"]),
        ("true", ["The command succeeded without output."]),
        ("echo half; echo why >&2; exit 3", ["Exit code 3", "Stderr:\nwhy\n", "Stdout:\nhalf\n"]),
        ("exit 1", ["Exit code 1"]),
        ("kill -SEGV $$", ["Ended by SIGSEGV"]),
        ("cat; tty; (exec < /dev/tty) 2> /dev/null || echo none", ["not a tty\nnone\n"]),
        (COLOURS, ["red\n", "Stderr:\nbold\n"]),
        (r"printf 'caf\351\n'", ["caf\ufffd\n"]),
    ],
)
async def test_what_a_command_writes_comes_back_as_text(tool, command, expected):
    output = await run(tool, command=command)
    assert texts(output) == expected
    assert output.is_error is expected[0].startswith(("Exit code", "Ended by"))


async def test_without_bash_there_is_sh(root, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").symlink_to("/bin/sh")
    tool = tool_in(root, environment={"PATH": str(tmp_path / "bin")})
    assert await output_text(tool, command="echo $0") == f"{tmp_path}/bin/sh\n"


async def test_a_directory_may_be_named(tool, root, tmp_path, monkeypatch):
    (root / "below").mkdir()
    for where, path in [("below", root / "below"), (str(tmp_path), tmp_path), ("..", tmp_path)]:
        call = await tool.prepare({"command": "pwd -P", "working_directory": where})
        assert call.paths == (where,)
        assert texts(await call.run()) == [f"{path.resolve()}\n"]
    monkeypatch.setenv("HOME", str(tmp_path))  # used where no folder is open
    assert await output_text(tool_in(), command="pwd -P") == f"{tmp_path.resolve()}\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        *(({"working_directory": where}, "working_directory: ") for where in ("none", "file", "")),
        ({"working_directory": "a\0b"}, "working_directory: "),
        ({"command": " \n"}, "blank"),
        ({"command": "echo a\0b"}, "null byte"),
        ({"command": "x" * 200_000}, "too long"),
        ({"timeout": 0}, "timeout: expected 1 or more"),
        ({"timeout": 600_001}, "timeout: expected 600000 or less"),
        ({"timeout": "5"}, "timeout: expected integer"),
    ],
    ids=range(10),
)
async def test_what_cannot_start_says_why(tool, root, arguments, reason):
    (root / "file").touch()
    assert reason in await refusal(tool, **{"command": "pwd", **arguments})


async def test_a_removed_workspace_is_named_by_its_whole_path(tool, root):
    root.rename(root.with_name("renamed"))
    assert str(root) in await refusal(tool, command="pwd")


async def test_a_folder_that_may_not_be_entered_is_named(tool, root, monkeypatch):
    real = os.stat

    def stat(name: Any, **options: Any) -> os.stat_result:
        if name == os.curdir:  # as for any user but root
            raise PermissionError(13, "Permission denied")
        return real(name, **options)

    monkeypatch.setattr(os, "stat", stat)
    assert f"Permission denied: '{root}'" in await refusal(tool, command="pwd")


async def test_a_summary_is_one_short_line_that_names_the_directory(root, tmp_path):
    (root / "a" / "b\x1b[2J\u202e").mkdir(parents=True)
    other = tmp_path / "other"
    (other / "c").mkdir(parents=True)
    tool = tool_in(root, other)
    assert tool.summary({}) == tool.summary({"command": 7}) == "Running a command"
    assert tool.summary({"command": "git status\n"}) == "Running 'git status'"
    assert tool.summary({"command": "echo a\n\n  echo b"}) == "Running 'echo a echo b'"
    assert tool.summary({"command": "x" * 26}) == f"Running '{'x' * 25}...'"
    assert tool.summary({"command": "ls", "working_directory": "a"}) == "Running 'ls' in a"
    for where, shown in [
        (".", ""),
        (str(root), ""),
        (f"{root}/a/../a", " in a"),
        ("a/b\x1b[2J\u202e", " in a/b?[2J?"),
        (f"{other}/c", " in other/c"),
        (str(tmp_path), f" in {tmp_path}"),
    ]:
        call = await tool.prepare({"command": "ls", "working_directory": where})
        assert call.summary == f"Running 'ls'{shown}"


async def test_a_directory_that_vanished_since_the_approval_is_reported(tool, root):
    (root / "below").mkdir()
    command = f"echo {'x' * 100}\nrm -rf /"
    call = await tool.prepare({"command": command, "working_directory": "below"})
    assert (call.command, call.paths) == (command, ("below",))
    (root / "below").rmdir()
    with pytest.raises(ToolError, match="No such file"):
        await call.run()


STUBBORN = "trap '' TERM; echo $$ >> pid; while :; do sleep 60; done"


async def test_a_timeout_is_reported_with_the_output_so_far(tool, root):
    output = await run(tool, command=f"echo begun; {STUBBORN}", timeout=200)
    assert texts(output) == ["Timed out after 0.2 s and was stopped.", "Stdout:\nbegun\n"]
    assert output.is_error
    assert_gone(numbers(root / "pid"))


async def test_a_flood_takes_no_memory(tool):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = await output_text(tool, command="head -c 50000000 /dev/zero | tr '\\0' x")
    assert "... cut, 49948800 bytes left out ..." in text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


async def test_errors_leave_space_for_the_output_and_the_output_for_errors(root):
    tool = tool_in(root, cap=Cap(lines=10, size=1000))
    text = await output_text(tool, command="seq 100000")
    assert text.startswith("1\n2\n3\n4\n5\n... cut, 588854 bytes left out ... (")
    assert text.endswith(")\n99996\n99997\n99998\n99999\n100000\n")
    stdout, stderr = texts(await run(tool, command="seq 1000; seq 1000 >&2"))
    assert len(stdout.splitlines()) == 5 + 1
    assert len(stderr.splitlines()) == 5 + 1 + 1
    stdout, stderr = texts(await run(tool, command="seq 1000; echo oops >&2"))
    assert len(stdout.splitlines()) == 8 + 1
    assert stderr == "Stderr:\noops\n"
    stderr = texts(await run(tool, command="seq 1000 >&2"))[0]
    assert len(stderr.splitlines()) == 9 + 1 + 1


async def test_a_daemon_that_holds_the_output_delays_nothing(tool, root):
    daemon = "import os, time; os.fork() and os._exit(0); os.setsid(); "
    daemon += "open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    begun = time.monotonic()
    command = f'echo up; {PYTHON} "{daemon}"; while [ ! -s pid ]; do :; done'
    assert await output_text(tool, command=command) == "up\n"
    assert time.monotonic() - begun < 10
    (pid,) = numbers(root / "pid")
    os.kill(pid, 9)


async def test_what_was_left_in_the_background_ends_with_the_command(tool, root):
    command = "sleep 60 & echo $! > pid; set -m; sleep 60 > /dev/null & echo $! >> pid; echo up"
    assert await output_text(tool, command=command) == "up\n"
    assert len(numbers(root / "pid")) == 2
    assert_gone(numbers(root / "pid"))


async def test_a_stop_ends_the_whole_tree_at_once(tool, root, monkeypatch):
    monkeypatch.setattr(jobs_shell, "_TERM_SECONDS", 30)  # so that KILL would be seen
    sleep = "sh -c 'echo $$ >> pid; exec sleep 60'"  # `timeout` has started it once it writes
    command = (
        f"echo $$ > pid; ({sleep}; true) & echo $! >> pid; timeout 60 {sleep} & echo $! >> pid"
    )
    assert await stopped(tool, f"{command}; wait", root / "pid", pids=5) < 10


async def test_a_stop_lets_a_tool_clean_up(tool, root):
    tidy = (
        "import os, signal, sys, time\n"
        "def leave(*_):\n    time.sleep(0.05); open('tidy', 'w').close(); sys.exit()\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "open('pid', 'w').write(str(os.getpid()) + '\\n'); time.sleep(60)"
    )
    await stopped(tool, f"{PYTHON} {shlex.quote(tidy)}; true", root / "pid")
    assert (root / "tidy").exists()


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
    assert await stopped(tool, command, root / "pid") < 5


async def test_a_flood_can_be_stopped_and_leaves_no_descriptors(tool, root):
    await run(tool, command="true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        (root / "pid").unlink(missing_ok=True)
        assert await stopped(tool, "echo $$ > pid; yes", root / "pid") < 5
    assert len(list(Path("/proc/self/fd").iterdir())) == before


PROPERTIES = {"name": {"type": "string"}, "count": {"type": "integer"}}
SCHEMA = {"properties": PROPERTIES, "required": ["name"]}
HELLO = "printf 'Hello {{name}}%.0s\\n' $(seq {{count}})"
GREET = CustomTool(description="Greet somebody.", command=HELLO, parameters=SCHEMA)
SHOW = CustomTool(command="echo {{name}} '{{name}}'", parameters=SCHEMA)
WHERE = CustomTool(command="pwd; cat; seq 100; exit 2")


def offered(
    configured: Mapping[str, CustomTool], root: Path
) -> tuple[tuple[CustomCommand, ...], tuple[str, ...]]:
    return custom_commands(
        configured,
        workspace=workspace_of(root),
        environment=ENVIRONMENT,
        cap=Cap(lines=4),
        taken=NATIVE_NAMES,
    )


async def test_a_configured_command_runs_in_the_workspace_with_its_arguments(root):
    (greet, where), problems = offered({"greet": GREET, "where": WHERE}, root)
    assert not problems
    assert (greet.name, greet.description, greet.effect) == ("greet", "Greet somebody.", "run")
    assert greet.parameters == {"type": "object", **SCHEMA}
    assert greet.summary({}) == "Running greet"
    assert await output_text(greet, name="Ann", count=2) == "Hello Ann\nHello Ann\n"
    assert where.description == "Run: pwd; cat; seq 100; exit 2"
    assert where.parameters == {"type": "object", "properties": {}}
    output = await run(where)
    code, stdout = texts(output)
    assert code == "Exit code 2"
    assert stdout.startswith(f"Stdout:\n{root}\n1\n... cut, 283 bytes left out ...")
    assert output.is_error


async def test_a_hostile_argument_is_a_word_and_the_rules_see_it(root):
    (tool,), _ = offered({"show": SHOW}, root)
    hostile = "'; touch owned; echo $(touch owned) '"
    call = await tool.prepare({"name": hostile})
    assert texts(await call.run()) == [f"{hostile} {hostile}\n"]
    assert list(root.iterdir()) == []
    assert call.command == (
        "echo ''\"'\"'; touch owned; echo $(touch owned) '\"'\"'' "
        "''''\"'\"'; touch owned; echo $(touch owned) '\"'\"''''"
    )
    assert "null byte" in await refusal(tool, name="a\0b")
    assert "too long" in await refusal(tool, name="x" * 200_000)


NATIVE = ["eca_read_file", "eca__greet", "task", "Read_File", "ECA__greet", "compact_chat"]
NATIVE += sorted(NATIVE_NAMES)
NAMES = CustomTool(command="true", parameters={"properties": ["name"]})
ARITHMETIC = CustomTool(command="echo $(( {{name}} ))", parameters=SCHEMA)


@pytest.mark.requirement("W-35b")
@pytest.mark.parametrize(
    ("name", "tool", "reason"),
    [
        ("two words", GREET, "expected a name of up to 60 letters"),
        ("x" * 61, GREET, "expected a name of up to 60 letters"),
        *((name, GREET, "a native tool has this name") for name in NATIVE),
        ("greet", CustomTool(), "it has no `command`"),
        ("greet", NAMES, "expected an object as its schema's properties, got a list"),
        ("greet", ARITHMETIC, "{{name}} is in ((...))"),
    ],
)
async def test_what_cannot_be_offered_is_left_out_with_a_sentence(root, name, tool, reason):
    tools, [problem] = offered({name: tool, "other": CustomTool(command="true")}, root)
    assert [each.name for each in tools] == ["other"]
    assert problem.startswith(f"The custom tool {name!r} was left out: ")
    assert reason in problem
