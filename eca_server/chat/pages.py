"""A chat's history in pages, for clients that do not want all of it at once.

The rules it keeps: a page ends between two things that were said, so that a call is never without
its result; a cursor names a place in this history, and of another one it says that it is expired.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from eca_protocol.errors import ECAError
from eca_protocol.messages import ChatHistoryMeta
from eca_server.llm.history import CompactionPart, Message

__all__ = ["LAST_COMPACTION", "CursorExpired", "Page", "page_of"]

LAST_COMPACTION = "lastCompaction"
"""In place of a cursor: where the last summary stands, or the beginning."""


class CursorExpired(ECAError):
    """A cursor of a history that is no more; the message is for the user."""


@attrs.frozen(kw_only=True)
class Page:
    """Some messages that follow each other, and where they stand."""

    messages: Sequence[Message]
    meta: ChatHistoryMeta


def page_of(
    history: Sequence[Message],
    *,
    limit: int | None = None,
    before: str | None = None,
    after: str | None = None,
) -> Page:
    """A page: the last messages before a cursor, else the first behind one, else the last of all.

    Args:
        history: all of it.
        limit: how many at most, results of calls not counted.
        before: the page ends here.
        after: it begins here at the earliest.

    Raises:
        CursorExpired: a cursor is none of this history.
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
            raise CursorExpired("This page is gone: the chat was cleared since. Open it again.")
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
