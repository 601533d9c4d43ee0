"""A chat's history in pages, for clients that do not want all of it at once.

Rules: a page ends between two messages, so that a call is never without its result; a cursor names
a position in one history, and has expired in any other.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from eca_protocol.errors import ECAError
from eca_protocol.messages import ChatHistoryMeta
from eca_server.models.history import CompactionPart, Message

LAST_COMPACTION = "lastCompaction"
"""A cursor for the last summary, or the beginning if there is none."""


class CursorExpired(ECAError):
    """A cursor of a history that was cleared; the message is for the user."""


@attrs.frozen(kw_only=True)
class Page:
    """Consecutive messages, and their position."""

    messages: Sequence[Message]
    meta: ChatHistoryMeta


def page_of(
    history: Sequence[Message],
    *,
    limit: int | None = None,
    before: str | None = None,
    after: str | None = None,
) -> Page:
    """Return the last messages before a cursor, else the first after one, else the last of all.

    Args:
        history: the whole history.
        limit: the largest number of messages, results of calls not counted.
        before: the cursor at which the page ends.
        after: the cursor at which the page starts at the earliest.

    Raises:
        CursorExpired: a cursor belongs to a different history.
    """
    starts = [place for place, each in enumerate(history) if each.role != "tool"]
    total = len(starts)
    compactions = [
        number
        for number, place in enumerate(starts)
        if any(isinstance(part, CompactionPart) for part in history[place].parts)
    ]
    name = next((each.content_id for each in history if each.content_id is not None), "")

    def place_of(cursor: str) -> int:
        if cursor == LAST_COMPACTION:
            return compactions[-1] if compactions else 0
        number, _, of = cursor.partition("@")
        if of != name or not number.isdecimal() or len(number) > 9 or int(number) > total:
            raise CursorExpired(
                "This page does not exist any more: the chat was cleared. Open the chat again."
            )
        return int(number)

    first = 0 if after is None else place_of(after)
    end = total if before is None else max(first, place_of(before))
    if limit is not None and end - first > max(0, limit):
        if before is None and after is not None:
            end = first + max(0, limit)
        else:
            first = end - max(0, limit)
    places = [*starts, len(history)]
    return Page(
        messages=history[places[first] : places[end]],
        meta=ChatHistoryMeta(
            total=total,
            returned=end - first,
            before_cursor=f"{first}@{name}" if first else None,
            after_cursor=f"{end}@{name}" if end < total else None,
            compaction_cursor=f"{compactions[-1]}@{name}" if compactions else None,
        ),
    )
