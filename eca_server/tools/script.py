"""Runs one shell script to its end, its deadline or a stop, for the tools that are commands.

The rule it keeps: nothing of it is left when `run_script` returns or is cancelled. The script has
a session of its own without a terminal, and nothing to read. It is over when its shell is: what
the shell left behind in its session is ended, and a daemon that holds on to the output is not
waited for. Stopped, everything gets TERM and half a second, then KILL.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import attrs
import trio

from eca_protocol.errors import StartFailed
from eca_protocol.process import Child, Ladder, spawn
from eca_protocol.streams import FdTransport, Transport
from eca_server.llm.history import TextPart
from eca_server.tools.output import Cap, OutputBuffer
from eca_server.tools.tool import ToolFault, ToolOutput

__all__ = ["Script", "run_script", "shell_in"]

_GRACE = 0.5  # seconds from TERM to KILL
_DRAIN = 0.1  # seconds for what the shell's children still say after its end
_HINT = "ask for less, or write it to a file and read that in parts"


@attrs.frozen(kw_only=True)
class Script:
    """What to run, and within which bounds.

    Attributes:
        shell: the program that reads the text, as `shell_in` finds it.
        text: the script.
        directory: where it runs.
        environment: all of it.
        timeout: in seconds.
        cap: how much of its output is kept.
    """

    shell: str
    text: str
    directory: Path
    environment: Mapping[str, str] = attrs.field(repr=False)
    timeout: float
    cap: Cap


def shell_in(environment: Mapping[str, str]) -> str:
    """The bash on the environment's PATH, or the sh where there is none; looks at the disk."""
    path = environment.get("PATH")
    return shutil.which("bash", path=path) or shutil.which("sh", path=path) or "/bin/sh"


async def run_script(script: Script) -> ToolOutput:
    """What the script said, stdout and stderr apart, and how it ended if it did not end well.

    Raises:
        ToolFault: it cannot be started.
    """
    try:
        child = spawn(
            [script.shell, "-c", script.text],
            cwd=script.directory,
            env=script.environment,
            stdin="null",
            stderr="pipe",
        )
    except StartFailed as fault:
        raise ToolFault(str(fault)) from fault
    run = _Run(child, script.cap)
    try:
        with trio.move_on_after(script.timeout) as deadline:
            await run.to_its_end()
    finally:
        await run.end()
    if deadline.cancelled_caught:
        return run.output(f"Timed out after {script.timeout:g} s and was stopped.")
    return run.output(_failure(child.returncode))


class _Run:
    """A shell that was started, and what it has said so far."""

    def __init__(self, child: Child, cap: Cap) -> None:
        assert child.stderr is not None
        self._child = child
        self._errors = FdTransport(os.dup(child.stderr.fileno()), None)
        self._cap = cap
        self._stdout = OutputBuffer(cap)
        self._stderr = OutputBuffer(cap)

    async def to_its_end(self) -> None:
        """Read all it says until the shell has ended, and a little longer."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            await self._child.wait()
            nursery.cancel_scope.deadline = trio.current_time() + _DRAIN

    async def _read(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_copy, self._child.transport, self._stdout)
            nursery.start_soon(_copy, self._errors, self._stderr)

    async def end(self) -> None:
        """Leave nothing running: at most about a second, whatever it does."""
        with trio.CancelScope(shield=True):
            patience = 0.0
            if self._child.returncode is None:
                until = trio.current_time() + _GRACE
                self._child.signal_group("term")
                with trio.move_on_at(until):  # all who hold the outputs may still clean up
                    await self._read()
                patience = max(until - trio.current_time(), 0)
            await self._child.end(Ladder(after_stdin=0, after_term=patience, after_kill=_GRACE))
            await self._errors.aclose()

    def output(self, failure: str | None) -> ToolOutput:
        """What it said, with `failure` in front if it went wrong."""
        to_stdout, to_stderr = _shares(self._cap, self._stdout, self._stderr)
        said = self._stdout.text(to_stdout, hint=_HINT)
        complained = self._stderr.text(to_stderr, hint=_HINT)
        if failure is None:
            texts = [said, complained and f"Stderr:\n{complained}"]
        else:
            texts = [failure, complained and f"Stderr:\n{complained}", said and f"Stdout:\n{said}"]
        parts = tuple(TextPart(text) for text in texts if text)
        return ToolOutput(
            parts=parts or (TextPart("Done; it wrote nothing."),), is_error=failure is not None
        )


async def _copy(source: Transport, buffer: OutputBuffer) -> None:
    while data := await source.receive():
        buffer.write(data)


def _failure(returncode: int | None) -> str | None:
    if returncode == 0:
        return None
    if returncode is None:
        return "It could not be ended."
    if returncode > 0:
        return f"Exit code {returncode}"
    try:
        return f"Ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"Ended by signal {-returncode}"


def _shares(cap: Cap, stdout: OutputBuffer, stderr: OutputBuffer) -> tuple[Cap, Cap]:
    """Both outputs' parts of the cap: stderr may have half of it, and what stdout leaves."""
    size = min(stderr.size, max(cap.size // 2, cap.size - stdout.size))
    lines = min(stderr.lines + 1, max(cap.lines // 2, cap.lines - stdout.lines - 1))
    return (
        Cap(lines=cap.lines - lines * bool(stderr.size), size=cap.size - size),
        Cap(lines=lines, size=size),
    )
