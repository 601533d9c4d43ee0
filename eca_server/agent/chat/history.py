"""The history of a chat: its messages, the part sent to the model, positions and pages of it.

Rules: messages are appended, until a rollback or a clear removes the last ones or all; nothing here
knows a task or the disk.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from typing import overload

import attrs

from eca_protocol.errors import ECAError
from eca_protocol.messages import ChatHistoryMeta
from eca_server.agent.chat.usage import tokens_of
from eca_server.models.backend import Request
from eca_server.models.estimate import request_tokens, tokens_in
from eca_server.models.events import Usage
from eca_server.models.history import CompactionPart, Message, effective_history

LAST_COMPACTION = "lastCompaction"
"""A cursor for the last summary, or the beginning if there is none."""

_SUMMARY_SHOWN = "(Summary of an earlier chat)\n\n{}"


class UnknownMessage(ECAError):
    """The chat has no message of the user with this id."""


class CursorExpired(ECAError):
    """A cursor of a history that was cleared; the message is for the user."""


@attrs.frozen(kw_only=True)
class Cut:
    """The position where a rollback cuts a history.

    Attributes:
        place: the position of the first removed message.
        named_by: the id of the cut in the store: see `store.Rollback.cut`.
        earlier: see `store.Rollback.earlier`.
        last_remaining: the content id of the last remaining message of the user.
    """

    place: int
    named_by: str | None
    earlier: int
    content_ids: Sequence[str]
    last_remaining: str | None


class History(Sequence[Message]):
    """The messages of a chat, oldest first.

    Attributes:
        unrecorded_prompts: positions of prompts that were shown but are not in the history, by id.
        had_room: a request was within the limit since the last compaction; otherwise compacting
            again would not help.
        is_greeted: the texts of the hooks at the chat's start are in the history.
    """

    def __init__(self) -> None:
        self.model_context: tuple[Message, ...] = ()
        self.unrecorded_prompts: dict[str, int] = {}
        self.had_room = True
        self.is_greeted = False
        self._messages: list[Message] = []
        self._counted = 0, 0  # tokens, in how many messages

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages."""
        return iter(self._messages)

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> list[Message]: ...
    def __getitem__(self, place: int | slice) -> Message | list[Message]:
        """Return the message at a position, or a list of several."""
        return self._messages[place]

    def extend(self, messages: Sequence[Message]) -> None:
        """Append messages."""
        self._messages.extend(messages)
        self.model_context = effective_history(messages, self.model_context)

    def restore(self, stored: Sequence[Message], running: Sequence[Message]) -> None:
        """Insert the stored messages before those since, which may be stored, too."""
        known_ids = {each.content_id for each in (*self, *running)} - {None}
        known = next((each.content_id for each in stored if each.content_id in known_ids), None)
        if known is not None:
            place, earlier = place_of(stored, known)
            stored = stored[: place - earlier]
        positions = self.unrecorded_prompts.items()
        self.unrecorded_prompts = {name: place + len(stored) for name, place in positions}
        self._change([*stored, *self])

    def replace(self, messages: Sequence[Message]) -> None:
        """Replace all messages."""
        self._change([*messages])
        self.unrecorded_prompts.clear()

    def truncate(self, count: int) -> None:
        """Remove all messages but the first `count`, and the prompts that are not recorded."""
        self.replace(self._messages[:count])

    def _change(self, messages: list[Message]) -> None:
        self._messages = messages
        self.model_context = effective_history(messages)
        self.had_room, self._counted = True, _last_count(messages)

    def record(self, usage: Usage, running: list[Message]) -> None:
        """Record the provider's count of a request, whose answer is last unless it is empty."""
        if usage.input or (usage.input is not None and (usage.cache_read or usage.cache_write)):
            tokens = tokens_of(usage)
            if running[-1].role == "assistant":  # `Compactor` knows its prompt by identity
                running[-1] = attrs.evolve(running[-1], context_tokens=tokens)
            self._counted = tokens, len(self) + len(running)

    def tokens(self, request: Request, running: int = 0) -> int:
        """Return the estimated tokens of a request.

        The provider's count is used for the messages of the last request. Later messages, or all
        if there is no count, are estimated, so callers must leave a margin.

        Args:
            request: a request with the last messages of the chat, from its last summary on.
            running: the number of messages of the running turn.
        """
        tokens, counted = self._counted
        first = len(self) + running - len(request.messages)
        if counted > first:
            return tokens + tokens_in(request.messages[counted - first :])
        return request_tokens(request)

    def cut_at(self, content_id: str) -> Cut:
        """Find the position where a rollback to a user's message cuts the history.

        Raises:
            UnknownMessage: there is no such message, or the store cannot identify it.
        """
        place, named_by, earlier = self._place_of_cut(content_id)
        remaining = _content_ids(self[:place])
        return Cut(
            place=place,
            named_by=named_by,
            earlier=earlier,
            content_ids=_content_ids(self[place:]),
            last_remaining=remaining[-1] if remaining else None,
        )

    def _place_of_cut(self, content_id: str) -> tuple[int, str | None, int]:
        cut = self.unrecorded_prompts.get(content_id)
        if cut is None:
            place, earlier = place_of(self, content_id)
            return place - earlier, content_id, earlier
        if cut == len(self):
            return cut, None, 0
        for place in (*range(cut, len(self)), *reversed(range(cut))):
            if (near := self[place].content_id) is not None:
                return cut, near, place - cut
        raise UnknownMessage


def _last_count(messages: Sequence[Message]) -> tuple[int, int]:
    """Return the last count of a provider, and how many of the messages it covers."""
    for place in range(len(messages), 0, -1):
        if (tokens := messages[place - 1].context_tokens) is not None:
            return tokens, place
    return 0, 0


def context_used(messages: Sequence[Message]) -> int | None:
    """Return the tokens of a model's context with the messages of a chat; None: unknown.

    Messages behind the last request that a provider has counted are estimated.
    """
    sent, (tokens, counted) = effective_history(messages), _last_count(messages)
    first = len(messages) - len(sent)
    return tokens + tokens_in(sent[counted - first :]) if counted > first else None


def _content_ids(messages: Collection[Message]) -> Sequence[str]:
    return [each.content_id for each in messages if each.content_id is not None]


def place_of(messages: Sequence[Message], content_id: str) -> tuple[int, int]:
    """Return the position of a user's message, and the number of its prompt's messages before it.

    Raises:
        UnknownMessage: there is no such message.
    """
    for place, message in enumerate(messages):
        if message.content_id == content_id:
            earlier = 0
            while earlier < place and _opens_with(messages[place - earlier - 1]):
                earlier += 1
            return place, earlier
    raise UnknownMessage


def _opens_with(message: Message) -> bool:
    """Return whether a message belongs to a prompt without being the user's message."""
    return (
        message.content_id is None
        and message.origin is None
        and not message.interrupted
        and message.role != "tool"
        and not any(isinstance(part, CompactionPart) for part in message.parts)
    )


def appendable(messages: Sequence[Message]) -> list[Message]:
    """Return another chat's messages to append to a chat, with its last summary as plain text.

    As a summary it would replace the messages of the chat it is appended to, too. It is shown,
    since the messages before it are not. The first message has an id, by which the store can be cut
    before it.
    """
    first, *rest = effective_history(messages)
    match messages[-1 - len(rest)].parts:
        case (CompactionPart(summary), *_):
            shown: str | None = _SUMMARY_SHOWN.format(summary)
        case _:
            shown = first.shown
    copies = [_renamed(each) if each.content_id else each for each in rest]
    appended = [attrs.evolve(_renamed(first), shown=shown), *copies]
    return [attrs.evolve(each, context_tokens=None) for each in appended]  # of a different chat


def _renamed(message: Message) -> Message:
    return attrs.evolve(message, content_id=str(uuid.uuid4()))


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

    A page ends between two messages, so that a call is never without its result; a cursor names a
    position in one history, and has expired in any other.

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
    compactions = (
        number
        for number, place in enumerate(starts)
        if any(isinstance(part, CompactionPart) for part in history[place].parts)
    )
    last_compaction = max(compactions, default=None)
    name = next((each.content_id for each in history if each.content_id is not None), "")

    def position_of(cursor: str) -> int:
        if cursor == LAST_COMPACTION:
            return last_compaction or 0
        number, _, of = cursor.partition("@")
        if of != name or not number.isdecimal() or len(number) > 9 or int(number) > total:
            raise CursorExpired(
                "This page does not exist any more: the chat was cleared. Open the chat again."
            )
        return int(number)

    first = 0 if after is None else position_of(after)
    end = total if before is None else max(first, position_of(before))
    count = end - first if limit is None else min(end - first, max(0, limit))
    if before is None and after is not None:
        end = first + count
    else:
        first = end - count
    places = [*starts, len(history)]
    return Page(
        messages=history[places[first] : places[end]],
        meta=ChatHistoryMeta(
            total=total,
            returned=count,
            before_cursor=f"{first}@{name}" if first else None,
            after_cursor=f"{end}@{name}" if end < total else None,
            compaction_cursor=None if last_compaction is None else f"{last_compaction}@{name}",
        ),
    )
