"""A chat that is shown again: its past on the way to the client.

The rules it keeps: however much it is, others go on meanwhile, and no more is appended than the
client reads; what is said anew stands behind all of it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import trio

from eca_protocol.messages import ChatContent
from eca_server.chat.paragraphs import Paragraphs
from eca_server.chat.replay import Told
from eca_server.session import Session

__all__ = ["Showing"]

AT_ONCE = 50
"""Contents between two looks at what else there is to do."""


class Showing:
    """What is still to be shown of one chat."""

    def __init__(self, chat_id: str, session: Session) -> None:
        self._chat_id = chat_id
        self._session = session
        self._left: Generator[Told] | None = None
        self._paragraphs = Paragraphs()

    async def run(self, contents: Generator[Told]) -> None:
        """Show these contents; it ends early after `finish`, `end` and another `run`."""
        self.end()
        self._left = contents
        self._paragraphs = Paragraphs()
        with closing(contents):
            for number, told in enumerate(contents, 1):
                self._emit(told)
                await self._session.drained()  # a content may be long
                if not number % AT_ONCE:
                    await trio.lowlevel.checkpoint()

    def finish(self) -> None:
        """Show the rest at once: something follows that must stand behind it."""
        for told in self._left or ():
            self._emit(told)

    def end(self) -> None:
        """Show no more of it."""
        if self._left is not None:
            self._left.close()

    def _emit(self, told: Told) -> None:
        chat_id, parent = self._chat_id, None
        content: ChatContent | None = told.content
        if told.subagent_chat_id is not None:
            chat_id, parent = told.subagent_chat_id, chat_id
        else:
            content = self._paragraphs.spaced(told.role, told.content)
        if content is not None:
            self._session.emit(chat_id, told.role, content, parent_chat_id=parent)
