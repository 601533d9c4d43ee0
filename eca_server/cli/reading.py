"""The input of `chat`: the context at stdin, and the lines of the user."""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Protocol

import trio

from eca_protocol import messages as m
from eca_protocol import platforms

PromptState = Literal["hidden", "shown", "entered"]

_PATIENCE = 1.0  # seconds until a pipe without an end is reported

_WAITING = (
    "Reading the context of the message from stdin until its end. `</dev/null` passes none.\n"
)


class Reader(Protocol):
    """The lines of the user.

    Attributes:
        state: the state of the latest prompt; `entered` from its Enter on, before it is returned.
    """

    state: PromptState

    async def prompt(self, *, is_secret: bool) -> str:
        """Return the next prompt with its line end; empty at the end of the input."""

    async def answer(self, question: str) -> str:
        """Ask a question, and return the answer with its line end; empty at the end.

        What was typed before the question is discarded: it cannot be an answer to it.
        """

    def typing_ahead(self) -> AbstractContextManager[None]:
        """Let each prompt of the block have what was typed before it."""


@contextmanager
def piped_context(*, is_wanted: bool) -> Iterator[tuple[m.ChatContext, ...]]:
    """Yield the text of a pipe, socket or file at stdin, in a private file, as a context."""
    mode = os.fstat(sys.stdin.fileno()).st_mode if is_wanted and _has_stdin() else 0
    is_input = any(kind(mode) for kind in (stat.S_ISFIFO, stat.S_ISSOCK, stat.S_ISREG))
    text = _read_to_end() if is_input else ""
    if not text.strip():
        yield ()
        return
    with TemporaryDirectory(prefix="eca-") as directory:
        file = Path(directory) / "stdin.txt"
        file.write_text(text, "utf-8", errors="replace")
        yield (m.FileContext(path=str(file)),)


def _read_to_end() -> str:
    """Read stdin, and say so on a terminal if its end does not come."""
    notice = threading.Timer(_PATIENCE, sys.stderr.write, [_WAITING])
    notice.daemon = True
    if sys.stderr.isatty():
        notice.start()
    try:
        return sys.stdin.read()
    finally:
        notice.cancel()


def _has_stdin() -> bool:
    try:
        return sys.stdin.fileno() >= 0
    except (OSError, ValueError):  # closed, or no file
        return False


class Lines:
    """Lines of stdin, read on demand; the line of a cancelled wait goes to the next one."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.state: PromptState = "hidden"
        self._nursery = nursery
        self._sender, self._receiver = trio.open_memory_channel[str](0)
        self._is_reading = False
        self._answering = trio.Lock()

    async def prompt(self, *, is_secret: bool) -> str:
        """Return the next prompt with its line end; empty at the end of stdin."""
        self.state = "shown"
        if not sys.stdin.isatty():
            return await self._next()
        line = ""
        try:
            with platforms.hidden_input(sys.stdin.fileno()) if is_secret else nullcontext():
                _write("> ")
                line = await self._next()
        finally:
            if is_secret or not line:
                _write("\n")  # behind the prompt, or the `^C` of the terminal
        return line

    async def answer(self, question: str) -> str:
        """Ask one question at a time, and return the next line."""
        async with self._answering:
            platforms.discard_input(sys.stdin.fileno())
            _write(question)
            line = await self._next()
            if not line:
                _write("\n")  # behind the question
            return line

    def typing_ahead(self) -> AbstractContextManager[None]:
        """Leave the terminal as it is: it stores lines."""
        return nullcontext()

    async def _next(self) -> str:
        if not self._is_reading:
            self._is_reading = True
            self._nursery.start_soon(self._read_one)
        line = await self._receiver.receive()
        self._is_reading = False
        return line

    async def _read_one(self) -> None:
        await self._sender.send(await trio.to_thread.run_sync(self._read, abandon_on_cancel=True))

    def _read(self) -> str:
        line = sys.stdin.readline()
        self.state = "entered"
        return line


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
