"""The watcher that ends the children of a killed process."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from eca_protocol.errors import StartFailed
from eca_protocol.guard import GUARD, NAME, Guard
from eca_protocol.process import GracePeriods, spawn

pytestmark = pytest.mark.anyio

SECONDS = 20.0
NEVER_ALIVE = 2**22 + 1
"""A process id that does not exist: Linux uses none above 2**22."""


def watchers(parent: int) -> list[int]:
    """Return the running watchers of a process."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if NAME in _arguments(folder, parent):
                pids.append(int(folder.name))
    return pids


def _arguments(folder: Path, parent: int) -> list[str]:
    """Return the arguments of a child; those of a new child appear after a moment."""
    while True:
        state, of = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        arguments = (folder / "cmdline").read_text("utf-8", "replace").split("\0")
        if int(of) != parent or state == "Z":
            return []
        if arguments != [""]:
            return arguments


KILLED = """
import os, signal, subprocess, sys
from eca_protocol.guard import GUARD

child = subprocess.Popen(
    ["sh", "-c", sys.argv[2]],
    pass_fds=[int(sys.argv[1])],
    stdout=subprocess.PIPE,
    start_new_session=True,
)
GUARD.add(child.pid)
assert child.stdout.readline() == b"ready\\n"
os.kill(os.getpid(), signal.SIGKILL)
"""
UNKNOWN = """
import os, signal, subprocess, sys
from eca_protocol.guard import GUARD

with GUARD.starting():
    subprocess.Popen(
        ["sh", "-c", sys.argv[2]],
        env=GUARD.mark_environment({"PATH": os.defpath}),
        pass_fds=[int(sys.argv[1])],
        start_new_session=True,
    )
    os.kill(os.getpid(), signal.SIGKILL)
"""
FAMILIES = {
    "a grandchild": (KILLED, "sleep 600 & echo ready; wait"),
    "unknown to the watcher": (UNKNOWN, "sleep 600 & wait"),
    "a group of its own": (KILLED, "timeout 600 sleep 601 & sleep 0.1; echo ready; wait"),
    "a session of its own": (KILLED, "setsid sleep 600 & sleep 0.1; echo ready; wait"),
    "deaf": (KILLED, "trap '' TERM; sleep 600 & sleep 601 & echo ready; wait; sleep 602"),
}


@pytest.mark.long(but=2)
@pytest.mark.skipif(sys.platform != "linux", reason="the watcher looks into /proc")
@pytest.mark.parametrize(("program", "script"), FAMILIES.values(), ids=FAMILIES)
def test_a_guarded_child_and_its_family_end_when_we_are_killed(program, script):
    fd, held = os.pipe()  # ends with the last process that holds its other end
    command = [sys.executable, "-c", program, str(held), script]
    ours = subprocess.run(command, pass_fds=(held,), check=False, timeout=SECONDS)
    assert ours.returncode == -signal.SIGKILL
    os.close(held)
    assert select.select([fd], [], [], SECONDS)[0]
    os.close(fd)


async def test_one_watcher_guards_all_children_holds_nothing_and_leaves_with_the_last():
    assert watchers(os.getpid()) == []
    first = spawn(["sleep", "600"], guarded=True)
    second = spawn(["cat"], guarded=True)
    (watcher,) = watchers(os.getpid())
    held = {each.name: each.readlink() for each in Path(f"/proc/{watcher}/fd").iterdir()}
    assert set(held) >= {"0", "1", "2"}
    assert str(held.pop("0")).startswith("pipe:")
    assert set(held.values()) == {Path(os.devnull)}
    assert os.getsid(watcher) == watcher
    assert Path(f"/proc/{watcher}/cwd").readlink() == Path("/")
    await first.end(GracePeriods(after_stdin=0, after_term=0))
    assert watchers(os.getpid()) == [watcher]
    second.close_stdin()
    with anyio.fail_after(SECONDS):
        await second.wait()  # it ends on its own
    assert watchers(os.getpid()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(watcher, 0)


@pytest.fixture
def guard() -> Iterator[Guard]:
    made = Guard()
    yield made
    made._stop()
    assert watchers(os.getpid()) == []


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start three processes, each with its own session."""
    started = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(3)]
    yield started
    for each in started:
        each.kill()
        each.wait()


def lose(guard: Guard) -> None:
    """Close the watcher's pipe, as the death of this process would."""
    guard._watcher.stdin.close()
    assert guard._watcher.wait(SECONDS) == 0


def test_a_killed_watcher_is_replaced_and_a_removed_group_is_not_touched(guard, sleepers):
    first, second, third = sleepers
    guard.add(first.pid)
    guard.add(third.pid)
    guard.remove(third.pid)
    (watcher,) = watchers(os.getpid())
    os.kill(watcher, signal.SIGKILL)
    assert guard._watcher is not None
    os.waitid(os.P_PID, watcher, os.WEXITED | os.WNOWAIT)
    guard.add(second.pid)
    (other,) = watchers(os.getpid())
    assert other != watcher
    guard.add(third.pid)
    guard.remove(third.pid)
    lose(guard)
    assert {each.wait(SECONDS) for each in (first, second)} == {-signal.SIGTERM}
    assert third.poll() is None


@pytest.mark.long
def test_a_watcher_that_does_not_read_is_replaced_and_holds_up_nothing(guard, sleepers):
    guard.add(sleepers[0].pid)
    (watcher,) = watchers(os.getpid())
    os.kill(watcher, signal.SIGSTOP)
    for _ in range(8_000):  # more than a pipe holds
        guard.add(NEVER_ALIVE)
    (other,) = watchers(os.getpid())
    assert other != watcher
    guard.remove(NEVER_ALIVE)
    lose(guard)
    assert sleepers[0].wait(SECONDS) == -signal.SIGTERM


def test_a_watcher_that_cannot_be_started_is_no_error(guard, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no descriptors are left")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    guard.add(NEVER_ALIVE)
    guard.remove(NEVER_ALIVE)


def test_a_child_that_cannot_be_started_leaves_no_watcher():
    with pytest.raises(StartFailed):
        spawn(["/nowhere/program"], guarded=True)
    assert watchers(os.getpid()) == []


def test_nothing_is_started_before_the_first_child():
    assert GUARD._watcher is None
