"""Child processes: their start, and their end in every state."""

import asyncio
import contextlib
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anyio
import pytest

from eca_protocol import process
from eca_protocol.errors import StartFailed
from eca_protocol.process import Child, GracePeriods, spawn
from eca_protocol.process_table import ProcessTable, process_table
from tests.eca_server.processes import is_alive, open_descriptors

pytestmark = pytest.mark.anyio

QUICK = GracePeriods(after_stdin=0.05, after_term=0.05, after_kill=5)
PATIENT = GracePeriods(after_stdin=10, after_term=10, after_kill=10)


def python(code: str, **options: Any) -> Child:
    return spawn([sys.executable, "-S", "-c", code], **options)


def shell(code: str, **options: Any) -> Child:
    return spawn(["sh", "-c", code], **options)


async def line(child: Child) -> bytes:
    """Return the child's first output, which shows that it runs."""
    data = b""
    while not data.endswith(b"\n"):
        piece = await child.transport.receive()
        assert piece, f"the child ended after {data!r}"
        data += piece
    return data.strip()


async def gone(*pids: int) -> None:
    with anyio.fail_after(5):
        while any(is_alive(pid) for pid in pids):
            await anyio.sleep(0.001)


@pytest.mark.parametrize("missing", [[], ["pidfd_open"]])
async def test_a_child_that_ends_on_its_own_is_waited_for(missing, monkeypatch):
    for name in missing:
        monkeypatch.delattr(os, name)
    child = shell("read line; exit 7")
    await child.transport.send(b"\n")
    assert await child.wait() == 7
    assert await child.wait() == 7
    assert child.returncode == 7
    assert await child.end() == 7
    assert await child.end() == 7


SLEEP = "print('up', flush=True); time.sleep(60)"


@pytest.mark.parametrize(
    ("code", "periods", "result"),
    [
        ("print('up', flush=True); sys.stdin.read(); sys.exit(3)", PATIENT, 3),
        (SLEEP, GracePeriods(after_stdin=0.05), -signal.SIGTERM),
        (f"signal.signal(15, lambda *_: sys.exit(9)); {SLEEP}", GracePeriods(after_stdin=0.05), 9),
        (f"signal.signal(15, signal.SIG_IGN); {SLEEP}", QUICK, -signal.SIGKILL),
    ],
)
async def test_a_child_is_ended_as_softly_as_it_lets_us(code, periods, result):
    child = python(f"import signal, sys, time; {code}")
    await line(child)
    assert await child.end(periods) == result


async def test_a_child_blocked_on_its_output_can_still_leave():
    child = python("import sys; sys.stdout.write('x' * 1_000_000); sys.stdout.flush()")
    await child.transport.receive()
    assert await child.end(PATIENT) == 0


async def test_a_signal_reaches_the_whole_group():
    child = shell("sleep 60 & echo $!; wait")
    grandchild = int(await line(child))
    await child.signal_group("term")
    assert await child.wait() == -signal.SIGTERM
    await gone(grandchild)
    await child.signal_group("kill")
    await child.end()


def leaving(call: str) -> str:
    """Return a shell command that leaves its group or session, says its id, and stays."""
    code = f"import os, signal, time; {call}; print(os.getpid(), flush=True); time.sleep(60)"
    return f'{sys.executable} -S -c "{code}"'


LEAVES_THE_GROUP = leaving("os.setpgid(0, 0)")
LEAVES_THE_SESSION = leaving("os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)")


@pytest.mark.parametrize(
    ("script", "missing", "periods", "code"),
    [
        ("sleep 60 & echo $!", [], PATIENT, 0),
        (f"{LEAVES_THE_GROUP}; true", [], QUICK, -signal.SIGTERM),
        (f"{LEAVES_THE_SESSION}; true", [], QUICK, -signal.SIGTERM),
        (f"{LEAVES_THE_GROUP} & read line", [], PATIENT, 1),
        (f"{LEAVES_THE_GROUP} & read line", ["pidfd_open"], PATIENT, 1),
    ],
)
async def test_no_descendant_is_left_or_delays_the_end(script, missing, periods, code, monkeypatch):
    for name in missing:
        monkeypatch.delattr(os, name)
    child = shell(script)
    descendant = int(await line(child))
    started = time.monotonic()
    assert await child.end(periods) == code
    assert time.monotonic() - started < 5
    await gone(descendant)


async def test_children_that_end_together_share_their_looks_at_all_processes(monkeypatch):
    children = [shell("trap '' TERM; echo up; sleep 60; sleep 60") for _ in range(10)]
    for child in children:
        await line(child)
    looks: list[object] = []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: looks.append(path) or listdir(path))
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for child in children:
                tasks.start_soon(
                    child.end, GracePeriods(after_stdin=0, after_term=0, after_kill=10)
                )
    assert {child.returncode for child in children} == {-signal.SIGKILL}
    to_terminate, to_kill, as_each_ends = 1, 1, len(children)
    assert 2 < len(looks) <= to_terminate + to_kill + as_each_ends


@pytest.mark.parametrize("missing", [[], ["pidfd_open"], ["pidfd_open", "waitid"]])
async def test_the_output_ends_with_the_child_even_if_others_hold_its_pipe(missing, monkeypatch):
    monkeypatch.setattr(process, "WATCH_SECONDS", 0.01)
    for name in missing:
        monkeypatch.delattr(os, name)
    child = shell(f"echo first; {LEAVES_THE_SESSION} & read line; echo last")
    received = b""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child.end_output)
        with anyio.fail_after(10):
            while piece := await child.transport.receive():
                received += piece
                if received.count(b"\n") == 2:
                    await child.transport.send(b"\n")
    first, descendant, last = received.split()
    os.kill(int(descendant), signal.SIGKILL)
    assert (first, last) == (b"first", b"last")
    await child.end(QUICK)


async def test_a_child_without_input_reads_nothing_and_cannot_be_sent_to():
    child = spawn(["cat"], stdin="null")
    assert await child.wait() == 0
    with pytest.raises(BrokenPipeError):
        await child.transport.send(b"x")
    assert await child.end() == 0


async def test_several_tasks_may_wait_and_read_and_any_may_leave():
    child = python("import sys; sys.stdin.read(); sys.stdout.write('x' * 1_000_000)")
    codes: list[int] = []
    got: list[int] = []

    async def wait(scope: anyio.CancelScope) -> None:
        with scope:
            codes.append(await child.wait())

    async def read() -> None:
        while data := await child.transport.receive():
            got.append(len(data))

    scopes = [anyio.CancelScope() for _ in range(3)]
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            for scope in scopes:
                tasks.start_soon(wait, scope)
                await anyio.wait_all_tasks_blocked()
            scopes[0].cancel()
            await anyio.wait_all_tasks_blocked()
            assert await child.end(PATIENT) == 0
    assert codes == [0, 0]
    assert sum(got) <= 1_000_000


async def test_a_cancelled_caller_still_gets_the_child_ended():
    child = python("print('up', flush=True); import time; time.sleep(60)")
    await line(child)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await child.end(QUICK)
    assert child.returncode == -signal.SIGTERM
    assert not is_alive(child.pid)


IGNORES_TERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "


@pytest.mark.parametrize(
    ("code", "cancellations", "expected"),
    [("import time; ", 1, -signal.SIGTERM), (IGNORES_TERM, 2, -signal.SIGKILL)],
)
def test_a_task_cancelled_by_asyncio_itself_still_ends_the_child(code, cancellations, expected):
    async def main() -> int | None:
        child = python(code + SLEEP)
        await line(child)
        task = asyncio.create_task(child.end(PATIENT))
        for _ in range(cancellations):
            await asyncio.sleep(0.05)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(task), 5)
        return child.returncode

    assert asyncio.run(main()) == expected


@pytest.mark.parametrize(
    ("command", "options", "text"),
    [
        ([], {}, "the command is empty"),
        (["no-such-command-anywhere"], {}, "no-such-command-anywhere"),
        (["cat"], {"cwd": "/no/such/folder"}, "cannot start 'cat'"),
        (["/etc/passwd"], {}, "Permission denied"),
        (["cat\0"], {}, "null byte"),
    ],
)
async def test_what_cannot_start_says_why(command, options, text):
    before = open_descriptors()
    with pytest.raises(StartFailed, match=text):
        spawn(command, **options)
    assert open_descriptors() == before


@pytest.mark.parametrize("descriptors_have_paths", [True, False])
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
async def test_a_child_starts_in_the_directory_of_a_descriptor_wherever_its_path_leads(
    tmp_path, monkeypatch, descriptors_have_paths
):
    if not descriptors_have_paths:
        monkeypatch.setattr(process, "_DESCRIPTORS", "/no/such/folder")
    (tmp_path / "a").mkdir()
    descriptor = os.open(tmp_path / "a", os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "a").symlink_to("/")
    try:
        child = shell("pwd -P", cwd=descriptor)
    finally:
        os.close(descriptor)
    assert await line(child) == f"{tmp_path}/b".encode()
    assert await child.end(PATIENT) == 0


@pytest.mark.parametrize("missing", [["pidfd_open"], ["pidfd_open", "waitid"]])
async def test_without_such_descriptors_nothing_of_a_child_is_left_either(missing, monkeypatch):
    for name in missing:
        monkeypatch.delattr(os, name)
    child = shell("trap '' TERM; sleep 60 & echo $!; read line")
    remaining = int(await line(child))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child.wait)
        tasks.start_soon(child.wait)
        child.close_stdin()
    await gone(remaining)


async def test_a_child_reaped_elsewhere_has_ended(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    child = shell("exit 7")
    os.waitpid(child.pid, 0)
    with anyio.fail_after(5):
        assert await child.end() == 0


async def test_a_child_that_cannot_be_looked_after_is_not_left(monkeypatch):
    before = open_descriptors(), ProcessTable().descendants(os.getpid())
    failing = Mock(side_effect=MemoryError)
    monkeypatch.setattr("eca_protocol.process.watch_descriptor", failing)
    with pytest.raises(MemoryError):
        spawn(["sleep", "60"], stderr="pipe")
    assert (open_descriptors(), ProcessTable().descendants(os.getpid())) == before


@contextlib.contextmanager
def so_many_descriptors(free: int) -> Iterator[None]:
    """Use up the file descriptors of this process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 20, limits[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.dup(0))
        for _ in range(free):
            os.close(held.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for each in held:
            os.close(each)


async def test_where_descriptors_run_out_nothing_is_left_of_a_start_nor_of_an_end():
    before = open_descriptors(), ProcessTable().descendants(os.getpid())
    for free in range(8):
        with (
            so_many_descriptors(free),
            pytest.raises(StartFailed, match="cannot start 'sleep': Too many open files"),
        ):
            spawn(["sleep", "60"], stderr="pipe")
    for free in (0, 8):
        with so_many_descriptors(8):
            child = spawn(["sleep", "60"], stdin="null", stderr="pipe")
        with so_many_descriptors(free):
            assert await child.end(GracePeriods(after_stdin=0)) == -signal.SIGTERM
    assert (open_descriptors(), ProcessTable().descendants(os.getpid())) == before


async def test_an_event_loop_shares_its_look_at_what_runs_with_no_other_one(monkeypatch):
    looks: list[ProcessTable] = []

    async def ask() -> None:
        looks.append(await process_table())

    async def ask_elsewhere_meanwhile() -> None:
        monkeypatch.undo()
        thread = threading.Thread(target=anyio.run, args=(ask,))
        thread.start()
        thread.join()

    monkeypatch.setattr(anyio.lowlevel, "cancel_shielded_checkpoint", ask_elsewhere_meanwhile)
    await ask()
    assert looks[0] is not looks[1]
    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        group.start_soon(ask)
    assert looks[2] is looks[3]


async def test_environment_folder_and_error_output_are_given(tmp_path):
    child = shell(
        "pwd; echo $WORD; echo oops >&2; cat >&2",
        cwd=tmp_path,
        env={"WORD": "given", "PATH": os.environ["PATH"]},
        stderr="pipe",
    )
    output = b""
    while output.count(b"\n") < 2:
        output += await child.transport.receive()
    assert output.split() == [str(tmp_path).encode(), b"given"]
    errors = child.take_stderr()
    assert await errors.receive() == b"oops\n"
    await errors.aclose()
    assert await child.end(PATIENT) == 0
