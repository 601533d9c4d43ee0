"""A shell that runs: its outputs are read until it ends, and nothing of it is left then.

The rule it keeps: it is over when the shell is. What the shell left behind in its session is
ended, and a daemon that holds on to the outputs is not waited for. Stopped, everything gets TERM
and a moment, then KILL. What it writes is read without the escape sequences of terminals.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import trio

from eca_protocol.process import Child, GracePeriods, spawn
from eca_protocol.streams import Transport
from eca_server.jobs.escapes import EscapeFilter
from eca_server.jobs.output import Stream

__all__ = ["RunningShell", "start_shell"]

_GRACE = 0.5  # seconds from TERM to KILL
_DRAIN = 0.1  # seconds for what the shell's children still say after its end


def start_shell(
    shell: str,
    text: str,
    *,
    directory: Path | int,
    environment: Mapping[str, str],
    prefix: Sequence[str] = (),
) -> Child:
    """Start a shell that does what a text says, in a session of its own, with nothing to read.

    Args:
        shell: the program that reads the text.
        text: a whole script.
        directory: where it runs: a path, or a descriptor of an open directory.
        environment: all of it.
        prefix: the command that starts the shell, if it does not start by itself (a sandbox).

    Raises:
        StartFailed: it cannot be started; the text says why.
    """
    command = [*prefix, shell, "-c", text]
    return spawn(command, cwd=directory, env=environment, stdin="null", stderr="pipe", guarded=True)


class RunningShell:
    """A shell that was started; whoever has it reads it `to_its_end`, and then has to `end` it.

    Args:
        child: the shell.
        take: given what it writes.
    """

    def __init__(self, child: Child, take: Callable[[Stream, bytes], Awaitable[None]]) -> None:
        self._child = child
        self._errors = child.take_stderr()
        self._take = take
        self._filters: dict[Stream, EscapeFilter] = {
            "stdout": EscapeFilter(),
            "stderr": EscapeFilter(),
        }

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal, None while it runs."""
        return self._child.returncode

    async def to_its_end(self) -> None:
        """Read all it says until the shell has ended, and a little longer."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            await self._child.wait()
            nursery.cancel_scope.deadline = trio.current_time() + _DRAIN

    async def end(self) -> None:
        """Leave nothing running: at most about a second, whatever it does, and is not cancelled."""
        with trio.CancelScope(shield=True):
            patience = 0.0
            try:
                if self._child.returncode is None:
                    until = trio.current_time() + _GRACE
                    await self._child.signal_group("term")
                    with trio.move_on_at(until):  # all who hold the outputs may still clean up
                        await self._read()
                    patience = max(until - trio.current_time(), 0)
            finally:
                await self._child.end(
                    GracePeriods(after_stdin=patience, after_term=0, after_kill=_GRACE)
                )
                await self._errors.aclose()

    async def _read(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._copy, "stdout", self._child.transport)
            nursery.start_soon(self._copy, "stderr", self._errors)

    async def _copy(self, stream: Stream, source: Transport) -> None:
        while data := await source.receive():
            if text := self._filters[stream].feed(data):
                await self._take(stream, text)
