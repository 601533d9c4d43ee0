"""A server's process and its streams, with only the standard library.

One thread writes and reads, and each wait has a deadline. Output that ruling W-1 does not allow
raises a violation.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

__all__ = ["DeadlineMissed", "Violation", "Wire"]

_HEADER = re.compile(rb"Content-Length: (0|[1-9][0-9]*)\r\n\r\n")
_START = b"Content-Length: "
_READ = 65_536


class Violation(AssertionError):
    """A requirement that the server violates.

    Attributes:
        signature: that of the message which showed it, if only a watcher sees it.
    """

    def __init__(
        self, requirement: str, expected: str, got: object, signature: tuple[str, ...] = ()
    ) -> None:
        super().__init__(f"{requirement}: Expected {expected}; got {got}")
        self.requirement = requirement
        self.expected = expected
        self.got: str = str(got)
        self.signature = signature


class DeadlineMissed(Violation):
    """A required message that did not come before the deadline."""


class Wire:
    """The server's process, frames to it and messages from it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        on_message: Callable[[Any], None],
    ) -> None:
        if not hasattr(os, "killpg"):
            raise OSError("random sessions need a system with process groups, such as Linux")
        self._on_message = on_message
        self._buffer = bytearray()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self.ended: bool = False
        try:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
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
        if sys.platform != "win32":
            os.set_blocking(self._input, False)

    def errors(self) -> str:
        """Return the end of the process's stderr."""
        if sys.platform == "win32":
            return ""
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), 2000, max(0, size - 2000)).decode(errors="replace")

    def write(self, data: bytes, *, until: float) -> None:
        """Write all bytes; read meanwhile, so that two full pipes cannot block both sides.

        `until`: the deadline, by `time.monotonic`.
        """
        view = memoryview(data)
        while view:
            ready = _ready([] if self.ended else [self._output], [self._input], until=until)
            if not ready:
                raise DeadlineMissed("BASE-1", "a server that reads its input", "a full pipe")
            if self._input not in ready:
                self._read()
                continue
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return  # the missing response reports the end of the process

    def read(self, *, until: float, wake: int) -> bool:
        """Wait for output or a byte in `wake` and read it; return False at the deadline."""
        if self._take_messages():  # messages that an earlier violation left in the buffer
            return True
        readable = _ready([wake] if self.ended else [wake, self._output], [], until=until)
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
                raise Violation(
                    "W-1", "complete frames up to the end of the output", bytes(self._buffer[:80])
                )
            return
        self._buffer += data
        self._take_messages()

    def _take_messages(self) -> bool:
        """Handle the complete frames in the buffer; return whether there was one."""
        before = len(self._buffer)
        while header := _HEADER.match(self._buffer):
            stop = header.end() + int(header[1])
            if stop > len(self._buffer):
                break
            body = bytes(self._buffer[header.end() : stop])
            del self._buffer[:stop]
            self._on_message(_message(body))
        start = bytes(self._buffer[: len(_START)])
        if not _START.startswith(start):
            raise Violation("W-1", "a frame with `Content-Length` as its only header", start)
        return len(self._buffer) < before

    def close_input(self) -> None:
        """Close the process's input."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def exit_code(self, *, until: float) -> int | None:
        """Return the exit code; None if the process runs until the deadline."""
        try:
            return self.process.wait(max(0.01, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Kill the process and its children."""
        self.close_input()
        if sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()
        self.ended = True


def _ready(readers: Iterable[int], writers: Iterable[int], *, until: float) -> set[int]:
    """Return the descriptors that can be read or written, after waiting for the first of them.

    Unlike `select.select`, a selector has no largest descriptor.
    """
    with selectors.DefaultSelector() as selector:
        for descriptor in readers:
            selector.register(descriptor, selectors.EVENT_READ)
        for descriptor in writers:
            selector.register(descriptor, selectors.EVENT_WRITE)
        return {key.fd for key, _ in selector.select(max(0.0, until - time.monotonic()))}


def _message(body: bytes) -> Any:
    try:
        value = json.loads(body.decode("utf-8"))
    except ValueError as error:
        raise Violation("W-1", "JSON in UTF-8", f"{body[:80]!r} ({error})") from None
    if not isinstance(value, dict):
        raise Violation("BASE-13", "an object as the message", body[:80])
    return value


def frame(value: object) -> bytes:
    """Return a message as a frame; bytes are the body, unchanged."""
    body = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
