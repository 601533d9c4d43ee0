"""A running shell: its outputs are read until it ends, then its session is killed.

Rules: the command ends when the shell ends. Processes that the shell leaves in its session are
killed, and a daemon that keeps the outputs open is not waited for. A stop sends SIGTERM to the
whole group, and SIGKILL after half a second. Terminal escape sequences are removed from outputs.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from eca_protocol.process import Child, GracePeriods, spawn
from eca_protocol.streams import Transport
from eca_server.agent.jobs.output import Stream

_ESCAPE: Final = b"\x1b"
_SEQUENCE: Final = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]?"  # colours, cursor
    rb"|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links; up to BEL or ESC \
    rb"|[ -/]+[0-~]?|[0-~])?"
)
_INCOMPLETE: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]*\x1b?|[ -/]*)\Z")
_MAX_PENDING: Final = 4096
"""Maximum number of bytes of an incomplete sequence that wait for their end."""

_TERM_SECONDS = 0.5  # seconds from TERM to KILL
_DRAIN_SECONDS = 0.1  # seconds for the output of the shell's children after its end

_survivors: Final[set[Child]] = set()  # those that SIGKILL had not ended in time


class EscapeFilter:
    """Removes terminal escape sequences from one stream of bytes.

    Commands colour their output and move a cursor even without a terminal. Editors show such bytes
    as they are, and to a model they are noise. The filtered text does not depend on the chunks of
    the output; an incomplete sequence removes no more than its own line.
    """

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> bytes:
        """Return the text of the next bytes; an incomplete sequence waits for more."""
        data = self._pending + data
        self._pending = b""
        if _ESCAPE not in data:
            return data
        pending = _INCOMPLETE.search(data, max(0, len(data) - _MAX_PENDING))
        if pending is not None:
            data, self._pending = data[: pending.start()], pending[0]
        return _SEQUENCE.sub(b"", data)


def start_shell(
    shell: str,
    text: str,
    *,
    directory: Path | int,
    environment: Mapping[str, str],
    prefix: Sequence[str] = (),
) -> Child:
    """Start a shell that runs a script, in a session of its own, with an empty stdin.

    Raises:
        StartFailed: the shell cannot be started; the text is the reason.
    """
    command = [*prefix, shell, "-c", text]
    return spawn(command, cwd=directory, env=environment, stdin="null", stderr="pipe", guarded=True)


async def end_survivors() -> Sequence[str]:
    """Kill again what survived; return a sentence for each process that is left."""
    grace = GracePeriods(after_stdin=0, after_term=0, after_kill=_TERM_SECONDS)
    async with trio.open_nursery() as nursery:
        for child in _survivors:
            nursery.start_soon(child.end, grace)
    _survivors.difference_update([each for each in _survivors if each.returncode is not None])
    return [f"the process {child.pid} could not be ended" for child in _survivors]


class RunningShell:
    """A started shell; its owner calls `read_to_end`, and then must call `end`."""

    def __init__(self, child: Child, on_output: Callable[[Stream, bytes], Awaitable[None]]) -> None:
        self._child = child
        self._errors = child.take_stderr()
        self._on_output = on_output
        self._filters: dict[Stream, EscapeFilter] = {
            "stdout": EscapeFilter(),
            "stderr": EscapeFilter(),
        }

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal, None while it runs."""
        return self._child.returncode

    async def read_to_end(self) -> None:
        """Read the outputs until the shell has ended, and a little longer."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            await self._child.wait()
            nursery.cancel_scope.deadline = trio.current_time() + _DRAIN_SECONDS

    async def end(self) -> None:
        """Kill the session, within about a second; shielded from cancellation."""
        with trio.CancelScope(shield=True):
            remaining = 0.0
            try:
                if self._child.returncode is None:
                    until = trio.current_time() + _TERM_SECONDS
                    await self._child.signal_group("term")
                    with trio.move_on_at(until):  # processes with open outputs may still clean up
                        await self._read()
                    remaining = max(until - trio.current_time(), 0)
            finally:
                await self._child.end(
                    GracePeriods(after_stdin=remaining, after_term=0, after_kill=_TERM_SECONDS)
                )
                if self._child.returncode is None:
                    _survivors.add(self._child)
                await self._errors.aclose()

    async def _read(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._copy, "stdout", self._child.transport)
            nursery.start_soon(self._copy, "stderr", self._errors)

    async def _copy(self, stream: Stream, source: Transport) -> None:
        while data := await source.receive():
            if text := self._filters[stream].feed(data):
                await self._on_output(stream, text)
