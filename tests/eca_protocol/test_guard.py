"""The watcher that ends the children of a killed process."""

from __future__ import annotations

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


class Witness:
    """A pipe that ends with the last process that holds its other end."""

    def __init__(self) -> None:
        self.fd, self.held = os.pipe()

    def let_go(self) -> None:
        os.close(self.held)

    def has_ended(self, seconds: float = SECONDS) -> bool:
        return bool(select.select([self.fd], [], [], seconds)[0])

    def close(self) -> None:
        os.close(self.fd)


@pytest.fixture
def witness() -> Iterator[Witness]:
    made = Witness()
    yield made
    made.close()


KILLED = """
import os, signal, subprocess, sys
from eca_protocol.errors import StartFailed
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

FAMILIES = {
    "a grandchild": "sleep 600 & echo ready; wait",
    "a group of its own": "timeout 600 sleep 601 & sleep 0.1; echo ready; wait",
    "a session of its own": "setsid sleep 600 & sleep 0.1; echo ready; wait",
    "deaf to TERM": "trap '' TERM; sleep 600 & sleep 601 & echo ready; wait; sleep 602",
}


@pytest.mark.long(but=1)
@pytest.mark.parametrize("script", FAMILIES.values(), ids=FAMILIES)
def test_a_guarded_child_and_its_family_end_when_we_are_killed(witness, script):
    ours = subprocess.run(
        [sys.executable, "-c", KILLED, str(witness.held), script],
        pass_fds=(witness.held,),
        check=False,
        timeout=SECONDS,
    )
    assert ours.returncode == -signal.SIGKILL
    witness.let_go()
    assert witness.has_ended()


NOT_TOLD = """
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


@pytest.mark.skipif(sys.platform != "linux", reason="the watcher finds it in /proc")
def test_a_child_that_the_watcher_does_not_know_ends_too(witness):
    ours = subprocess.run(
        [sys.executable, "-c", NOT_TOLD, str(witness.held), "sleep 600 & wait"],
        pass_fds=(witness.held,),
        check=False,
        timeout=SECONDS,
    )
    assert ours.returncode == -signal.SIGKILL
    witness.let_go()
    assert witness.has_ended()


@pytest.mark.anyio
async def test_one_watcher_guards_all_children_and_leaves_with_the_last():
    assert watchers(os.getpid()) == []
    first = spawn(["sleep", "600"], guarded=True)
    second = spawn(["sleep", "600"], guarded=True)
    (watcher,) = watchers(os.getpid())
    at_once = GracePeriods(after_stdin=0, after_term=0)
    await first.end(at_once)
    assert watchers(os.getpid()) == [watcher]
    await second.end(at_once)
    assert watchers(os.getpid()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(watcher, 0)


@pytest.mark.anyio
async def test_the_watcher_holds_nothing_of_ours():
    child = spawn(["sleep", "600"], guarded=True)
    (watcher,) = watchers(os.getpid())
    held = {each.name: each.readlink() for each in Path(f"/proc/{watcher}/fd").iterdir()}
    assert set(held) >= {"0", "1", "2"}
    assert str(held.pop("0")).startswith("pipe:")
    assert set(held.values()) == {Path(os.devnull)}
    assert os.getsid(watcher) == watcher
    assert Path(f"/proc/{watcher}/cwd").readlink() == Path("/")
    await child.end(GracePeriods(after_stdin=0))


@pytest.mark.anyio
async def test_a_child_that_ends_on_its_own_is_guarded_no_more():
    child = spawn(["true"], guarded=True)
    with anyio.fail_after(SECONDS):
        await child.wait()
    assert watchers(os.getpid()) == []


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
    assert guard._watcher is not None
    assert guard._watcher.stdin is not None
    guard._watcher.stdin.close()
    assert guard._watcher.wait(SECONDS) == 0


def test_a_group_that_was_removed_is_not_touched(guard, sleepers):
    first, second, third = sleepers
    for each in (first, second, third):
        guard.add(each.pid)
    guard.remove(third.pid)
    guard.remove(first.pid)
    lose(guard)
    assert second.wait(SECONDS) == -signal.SIGTERM
    assert (first.poll(), third.poll()) == (None, None)


def test_a_watcher_that_was_killed_is_replaced(guard, sleepers):
    first, second, third = sleepers
    guard.add(first.pid)
    (watcher,) = watchers(os.getpid())
    os.kill(watcher, signal.SIGKILL)
    assert guard._watcher is not None
    os.waitid(os.P_PID, watcher, os.WEXITED | os.WNOWAIT)
    guard.add(second.pid)
    (other,) = watchers(os.getpid())
    assert other != watcher
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
