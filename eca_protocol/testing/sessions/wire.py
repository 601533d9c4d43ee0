"""A server's process and the bytes to and from it, with the standard library alone.

The rule it keeps: one thread writes and reads, and each wait has a deadline. What it reads is
what ruling W-1 lets a server write; all else is a `Fault`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Fault", "Stuck", "Wire"]

_HEADER = re.compile(rb"Content-Length: (0|[1-9][0-9]*)\r\n\r\n")
_START = b"Content-Length: "
_READ = 65_536


class Fault(AssertionError):
    """A duty that the server breaks.

    Attributes:
        requirement: the row of the requirements table.
        expected: what should have been.
        got: what was.
    """

    def __init__(self, requirement: str, expected: str, got: object) -> None:
        super().__init__(f"{requirement}: expected {expected}, got {got}")
        self.requirement = requirement
        self.expected = expected
        self.got = str(got)


class Stuck(Fault):
    """What had to come did not come in time."""


class Wire:
    """The process, frames to it and messages from it.

    Attributes:
        process: the process.
        ended: it has closed its output.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        heard: Callable[[Any], None],
    ) -> None:
        self._heard = heard
        self._buffer = bytearray()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self.ended = False
        try:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError:
            self._errors.close()
            raise
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self._output = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._input, False)

    def errors(self) -> str:
        """The end of what it wrote to stderr."""
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), 2000, max(0, size - 2000)).decode(errors="replace")

    def write(self, data: bytes, *, until: float) -> None:
        """Write bytes, whole; reads meanwhile, so that two full pipes hold nobody.

        Args:
            data: the bytes.
            until: the deadline, by `time.monotonic`.
        """
        view = memoryview(data)
        while view:
            readers = [] if self.ended else [self._output]
            left = max(0.0, until - time.monotonic())
            readable, writable, _ = select.select(readers, [self._input], [], left)
            if not readable and not writable:
                raise Stuck("BASE-1", "a server that reads", "a full pipe")
            if not writable:
                self._read()
                continue
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return  # how it ended is told when its answer is missed

    def read(self, *, until: float, wake: int) -> bool:
        """Wait for something to read, or for a byte in `wake`, and take it; False at `until`."""
        if self._take_messages():  # what a fault has left unread
            return True
        readers = [wake] if self.ended else [wake, self._output]
        readable, _, _ = select.select(readers, [], [], max(0.0, until - time.monotonic()))
        if wake in readable:
            os.read(wake, _READ)
        if self._output in readable:
            self._read()
        return bool(readable)

    def _read(self) -> None:
        data = os.read(self._output, _READ)
        if not data:
            self.ended = True
            if self._buffer:
                raise Fault("W-1", "whole frames up to the end", bytes(self._buffer[:80]))
            return
        self._buffer += data
        self._take_messages()

    def _take_messages(self) -> bool:
        """Take the whole frames in the buffer; whether there was one."""
        before = len(self._buffer)
        while found := _HEADER.match(self._buffer):
            stop = found.end() + int(found[1])
            if stop > len(self._buffer):
                break
            body = bytes(self._buffer[found.end() : stop])
            del self._buffer[:stop]
            self._heard(_message(body))
        start = bytes(self._buffer[: len(_START)])
        if not _START.startswith(start):
            raise Fault("W-1", "a frame with the one header Content-Length", start)
        return len(self._buffer) < before

    def close_input(self) -> None:
        """Nothing more will be written."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def exit_code(self, *, until: float) -> int | None:
        """The code it ended with; None if it still runs at that time."""
        try:
            return self.process.wait(max(0.01, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it and all that it started, however it feels."""
        self.close_input()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()
        self.ended = True


def _message(body: bytes) -> Any:
    try:
        value = json.loads(body.decode("utf-8"))
    except ValueError as error:
        raise Fault("W-1", "JSON in UTF-8", f"{body[:80]!r} ({error})") from None
    if not isinstance(value, dict):
        raise Fault("BASE-13", "an object as message", body[:80])
    return value


def frame(value: object) -> bytes:
    """A message, or a body's bytes as they are, as one frame."""
    body = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
