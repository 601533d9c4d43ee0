"""The replay of a chat's history to the client.

Rules: other work continues during a long replay; no more is sent than the client reads; new
contents follow the whole replay.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import trio

from eca_protocol.messages import ChatContent
from eca_protocol.server.texts import Paragraphs
from eca_server.agent.chat.replay import ReplayedContent
from eca_server.client.session import Session

AT_ONCE = 50
"""Contents between two checkpoints."""


class Replayer:
    """Replays the history of one chat to the client."""

    def __init__(self, chat_id: str, session: Session) -> None:
        self._chat_id = chat_id
        self._session = session
        self._remaining: Generator[ReplayedContent] | None = None
        self._paragraphs = Paragraphs()

    async def run(self, contents: Generator[ReplayedContent]) -> None:
        """Send these contents; end early after `finish`, `end` or a second `run`."""
        self.end()
        self._remaining = contents
        self._paragraphs = Paragraphs()
        with closing(contents):
            for number, replayed in enumerate(contents, 1):
                self._emit(replayed)
                await self._session.drained()  # a content may be long
                if not number % AT_ONCE:
                    await trio.lowlevel.checkpoint()

    def finish(self) -> None:
        """Send the rest at once, before a content that must follow it."""
        for replayed in self._remaining or ():
            self._emit(replayed)

    def end(self) -> None:
        """Send no more of the replay."""
        if self._remaining is not None:
            self._remaining.close()

    def _emit(self, replayed: ReplayedContent) -> None:
        chat_id, parent = self._chat_id, None
        content: ChatContent | None = replayed.content
        if replayed.subagent_chat_id is not None:
            chat_id, parent = replayed.subagent_chat_id, chat_id
        else:
            content = self._paragraphs.spaced(replayed.role, replayed.content)
        if content is not None:
            self._session.emit(chat_id, replayed.role, content, parent_chat_id=parent)
