"""A chat's title: the user's, or one extra request to the model in the background (ruling W-25)."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Awaitable, Callable, Container
from typing import TypeAlias

import attrs
import trio

from eca_protocol.messages import ChatContent, ChatMetadataContent
from eca_server.models.backend import Request
from eca_server.models.history import Message, TextPart
from eca_server.models.models import Model
from eca_server.printable import visible

_log = logging.getLogger("eca_server.agent.chat")

MakeTitle: TypeAlias = Callable[[], Awaitable[str | None]]
"""Requests a title; None: the model gave none. Any error means that there is no title."""

LONGEST = 60
_READ = 2000
_NUMBERED = re.compile(r"(.*?) \((\d{1,4})\)", re.DOTALL)
_INSTRUCTION = (
    "Write a title for a chat that begins with the user's message: at most six words, in the "
    "user's language, as plain text without quotes or a full stop. Output only the title."
)


@attrs.define
class Titling:
    """The title of a chat, and the request for one.

    Attributes:
        nursery: the nursery of the request.
        title: the title, once the model or the user has given one.
    """

    _nursery: trio.Nursery
    _write: Callable[[ChatContent], None]
    _store: Callable[[], Awaitable[None]]
    title: str | None = attrs.field(init=False, default=None)
    _scope: trio.CancelScope | None = attrs.field(init=False, default=None)
    _is_over: bool = attrs.field(init=False, default=False)

    def request(self, make_title: MakeTitle) -> None:
        """Request a title in the background, if there is none."""
        if self.title is None and self._scope is None:
            self._scope = trio.CancelScope()
            self._nursery.start_soon(self._find, make_title, self._scope)

    def cancel(self) -> None:
        """End the request."""
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None

    def end(self) -> None:
        """End the request, and announce nothing more: the chat is deleted (W-24)."""
        self.cancel()
        self._is_over = True

    def rename(self, title: str | None) -> None:
        """Replace the title; a request does not replace the new one."""
        self.cancel()
        self.title = title

    def announce(self) -> None:
        """Notify the client of the title, if there is one."""
        if self.title and not self._is_over:
            self._write(ChatMetadataContent(title=self.title))

    async def _find(self, make_title: MakeTitle, scope: trio.CancelScope) -> None:
        title = None
        try:
            with scope:
                title = await make_title()
        except Exception as error:  # noqa: BLE001 - a missing title must not fail the turn
            _log.info("no title: %s", error)
        if self._scope is scope:
            self._scope = None
            if title:
                self.title = title
                self.announce()
                await self._store()


async def make_title(model: Model, prompt: str, instruction: str | None = None) -> str | None:
    """Return a short plain title for a chat that begins with `prompt`; None for an empty one.

    `instruction`: the instruction; None: the built-in one.

    Raises:
        BackendError: the request failed.
    """
    message = Message(role="user", parts=(TextPart(prompt[:_READ]),))
    text = await model.text(Request(system=_system(instruction), messages=[message]))
    lines = visible(text).strip().splitlines()
    title = lines[0].strip().strip("\"'`*#").strip() if lines else ""
    if len(title) > LONGEST:
        title = title[: LONGEST - 1].rstrip() + "…"
    return title or None


def _system(instruction: str | None) -> str:
    """Return the instruction; make sure that it contains the word title (W-25)."""
    if not instruction or "title" in instruction.lower():
        return instruction or _INSTRUCTION
    return f"{instruction}\n\nOutput only the title."


def shortened_title(message: str) -> str:
    """Return the first characters of a message in one line, as a title until a model makes one."""
    return " ".join(message.split())[:LONGEST]


def title_of_fork(title: str | None, taken: Container[str]) -> str:
    """Return `Title (2)` for `Title`, and so on; skip titles that are `taken`."""
    title = title or "Untitled"
    numbered = _NUMBERED.fullmatch(title)
    words, number = (numbered[1], int(numbered[2])) if numbered else (title, 1)
    counted = (f"{words} ({more})" for more in itertools.count(number + 1))
    return next(each for each in counted if each not in taken)
