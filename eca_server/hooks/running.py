"""One action of a hook, from its start to its end, its deadline or a stop.

The rule it keeps: whatever the command does, it is over by its deadline, nothing of its process
group is left, and no more than a bounded part of what it wrote is held.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import attrs
import trio

from eca_protocol.errors import StartFailed
from eca_protocol.process import Child, spawn
from eca_server.config.files import Unreadable
from eca_server.config.hook_settings import HookAction
from eca_server.config.workspace_files import WorkspaceFile
from eca_server.jobs import RunningShell, Stream
from eca_server.tools.output import cut_mark
from eca_server.tools.script import shell_in

__all__ = ["FAILED", "LARGEST", "Ran", "run_action"]

LARGEST = 64 * 1024
"""Bytes of stdout, and of stderr, that are held."""

FAILED = 1
"""The status of an action that could not be run, or not to its end."""


@attrs.frozen(kw_only=True)
class Ran:
    """How an action ended.

    Attributes:
        status: its exit code, negative for a signal; `FAILED` where we ended it.
        stdout: what it wrote, up to `LARGEST`, and how much there was beyond (W-38).
        stderr: likewise; or why there is nothing.
        is_cut: it wrote more to stdout.
    """

    status: int
    stdout: str = ""
    stderr: str = ""
    is_cut: bool = False


async def run_action(
    action: HookAction,
    told: bytes,
    *,
    directory: Path,
    environment: Mapping[str, str],
    timeout: float,
) -> Ran:
    """Run it with `told` on its stdin.

    Args:
        action: what is run.
        told: what it reads.
        directory: where.
        environment: all of it.
        timeout: in seconds.
    """
    if (action.shell is None) == (action.file is None):
        return Ran(status=FAILED, stderr="expected either `shell` or `file` in the action")
    try:
        command = await trio.to_thread.run_sync(
            _command, action, environment, abandon_on_cancel=True
        )
        child = spawn(command, cwd=directory, env=environment, stderr="pipe", guarded=True)
    except Unreadable as fault:
        return Ran(status=FAILED, stderr=f"{action.file}: {fault.message}; it was not run")
    except (StartFailed, ValueError) as fault:  # a file's name may be none: `\0` is in it
        return Ran(status=FAILED, stderr=str(fault))
    said: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    left_out: Counter[Stream] = Counter()

    async def take(stream: Stream, data: bytes) -> None:
        room = LARGEST - len(said[stream])
        said[stream] += data[:room]
        left_out[stream] += max(len(data) - room, 0)

    shell = RunningShell(child, take)
    try:
        with trio.move_on_after(timeout) as deadline:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_tell, child, told)
                await shell.to_its_end()
                nursery.cancel_scope.cancel()
    finally:
        await shell.end()
    stdout, stderr = (_shown(said[each], left_out[each]) for each in ("stdout", "stderr"))
    if deadline.cancelled_caught:
        return Ran(
            status=FAILED, stdout=stdout, stderr=f"timed out after {timeout:g} s and was ended"
        )
    status = FAILED if child.returncode is None else child.returncode
    return Ran(status=status, stdout=stdout, stderr=stderr, is_cut=left_out["stdout"] > 0)


def _command(action: HookAction, environment: Mapping[str, str]) -> list[str]:
    """A file that can be run is run, another one is a script for the shell; looks at the disk.

    Raises:
        Unreadable: a file of an opened folder is not the one that was accepted.
    """
    shell = shell_in(environment)
    if action.shell is not None:
        return [shell, "-c", action.shell]
    assert action.file is not None
    if isinstance(action.file, WorkspaceFile):
        action.file.check()
    return [action.file] if os.access(action.file, os.X_OK) else [shell, action.file]


def _shown(said: bytearray, left_out: int) -> str:
    text = said.decode(errors="replace")
    return f"{text}\n{cut_mark(left_out)}" if left_out else text


async def _tell(child: Child, told: bytes) -> None:
    with suppress(OSError):  # it need not read what it is told
        await child.transport.send(told)
    child.close_stdin()
