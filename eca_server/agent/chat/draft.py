"""Drafts of running turns, stored now and then: a server that is killed leaves its draft.

Rules: a draft is stored every second at most, only if something new came, and only
what is new; an event of a stream costs an append to a list. There is one write at a time, so that
a late disk makes nothing pile up. When the turn ends, its messages replace the draft.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs
import trio

from eca_server.agent.chat.store.rows import Piece
from eca_server.agent.chat.store.running import joined
from eca_server.agent.chat.tool_call import ToolCall
from eca_server.models import history
from eca_server.models.events import (
    Event,
    ReasoningDelta,
    ReasoningStarted,
    RefusalDelta,
    TextDelta,
)

SECONDS: Final = 1.0
"""Seconds from the first new event to the write."""

MOST_SECONDS: Final = 60.0
"""The longest pause while the disk refuses writes."""


@attrs.define(eq=False)
class _Growing:
    """The message that is still being written.

    Attributes:
        place: its number in the turn.
        origin: the model that writes it; None: it consists of results of calls.
        events: the events that are not stored.
        results: the calls whose results are stored.
    """

    place: int
    origin: history.Origin | None = None
    events: list[Event] = attrs.field(factory=list)
    pieces: int = 0
    results: set[str] = attrs.field(factory=set)


class Draft:
    """The part of one turn that is not stored as messages.

    Attributes:
        stored: the number of messages that are stored or being stored.
    """

    def __init__(self, messages: Sequence[history.Message], calls: Mapping[str, ToolCall]) -> None:
        """Take the messages and the calls of the turn, to which more are added."""
        self.stored = 0
        self._messages = messages
        self._calls = calls
        self._scope = trio.CancelScope()
        self._changed = trio.Event()
        self._is_stored = False
        self._written: list[history.Message] = []
        self._growing = _Growing(0)

    def take(self, count: int) -> Sequence[history.Message]:
        """Return the unstored ones of the first `count` messages, and mark them as stored."""
        first, self.stored = self.stored, max(self.stored, count)
        return self._messages[first:count]

    def record(self, event: Event) -> None:
        """Take an event of the answer."""
        if self._is_stored:
            self._growing.events.append(event)
            self._changed.set()

    def changed(self) -> None:
        """Have a look at the calls of the turn: one has moved."""
        self._changed.set()

    def begin_answer(self, origin: history.Origin) -> None:
        """Begin the turn's next message: a model answers."""
        self._growing = _Growing(len(self._messages), origin)

    def end_answer(self) -> None:
        """End the message: what came of it is among the turn's messages."""
        self._growing = _Growing(len(self._messages))

    async def run(self, add: Callable[[Sequence[Piece]], Awaitable[bool]]) -> None:
        """Store what comes until `end`; `add` stores pieces, and returns whether it did."""
        pause = SECONDS
        self._is_stored = True
        with self._scope:
            while True:
                await self._changed.wait()
                await trio.sleep(pause)
                self._changed = trio.Event()
                if await self._store(add):
                    pause = SECONDS
                else:
                    pause = min(2 * pause, MOST_SECONDS)
                    self._changed.set()

    def end(self) -> None:
        """Store no more of the draft: the turn ends."""
        self._is_stored = False
        self._scope.cancel()

    async def _store(self, add: Callable[[Sequence[Piece]], Awaitable[bool]]) -> bool:
        messages = tuple(self._messages)
        whole = max(self._written_of(messages), self.stored)
        growing = self._growing
        if growing.place != len(messages):
            growing = self._growing = _Growing(len(messages))
        recorded = len(growing.events)
        results = tuple(self._new_results(messages, growing))
        parts = (*joined(part for each in growing.events for part in _part_of(each)), *results)
        pieces = [
            Piece(message=place, number=0, body=messages[place])
            for place in range(whole, len(messages))
        ]
        if parts:
            body = history.Message(
                role="tool" if growing.origin is None else "assistant",
                parts=parts,
                origin=growing.origin,
                interrupted=growing.origin is not None,
            )
            pieces.append(Piece(message=growing.place, number=growing.pieces, body=body))
        if pieces and not await add(pieces):
            return False
        self._written = [*messages]
        del growing.events[:recorded]
        growing.pieces += bool(parts)
        growing.results |= {each.call_id for each in results}
        return True

    def _written_of(self, messages: Sequence[history.Message]) -> int:
        """Count the messages that are stored as they are: the last may have been rewritten."""
        written = self._written
        while written and (
            len(written) > len(messages) or messages[len(written) - 1] is not written[-1]
        ):
            written.pop()
        return len(written)

    def _new_results(
        self, messages: Sequence[history.Message], growing: _Growing
    ) -> Iterator[history.ToolResultPart]:
        """Yield the results of the last answer's calls that are not stored."""
        if growing.origin is None and messages and messages[-1].role == "assistant":
            for part in messages[-1].parts:
                if isinstance(part, history.ToolCallPart) and part.id not in growing.results:
                    call = self._calls.get(part.id)
                    if call is not None and call.result is not None:
                        yield call.result_part()


def _part_of(event: Event) -> Iterator[history.Part]:
    """Yield what an event adds to an answer; calls do not count before the answer is whole."""
    match event:
        case TextDelta(text):
            yield history.TextPart(text)
        case RefusalDelta(text):
            yield history.RefusalPart(text)
        case ReasoningStarted():
            yield history.ReasoningPart(text="\n\n")
        case ReasoningDelta(text=text):
            yield history.ReasoningPart(text=text)
        case history.CitationPart() | history.ImagePart():
            yield event
