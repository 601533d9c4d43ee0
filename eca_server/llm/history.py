"""A chat's history in parts that belong to no API, and its repair before each request.

The rule it keeps: history is append-only and replayed as it was. What an API wants back unchanged
stands in `opaque` beside the neutral form, and goes back only to where the message came from.
What was stopped or broke in the middle is made sendable by `repair`, each time anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs

if TYPE_CHECKING:
    from eca_protocol.messages import ToolCallDetails

__all__ = [
    "BlockPart",
    "CallView",
    "CitationPart",
    "CompactionPart",
    "FilePart",
    "ImagePart",
    "Message",
    "Origin",
    "Part",
    "ReasoningPart",
    "RefusalPart",
    "Repair",
    "ServerToolPart",
    "Subagent",
    "TextPart",
    "ToolCallPart",
    "ToolResultPart",
    "in_force",
    "repair",
]


@attrs.frozen
class Origin:
    """Who made a message. What is opaque in it is only sent back to the same API and provider."""

    api: str
    provider: str
    model: str


@attrs.frozen
class TextPart:
    """Text, by whoever the message is from."""

    text: str


@attrs.frozen(kw_only=True)
class ImagePart:
    """A picture."""

    media_type: str
    data: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class FilePart:
    """A document given to the model as a file."""

    name: str
    media_type: str
    data: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class ReasoningPart:
    """What the model thought; `opaque` goes back only to where the message came from.

    `id` is the one by which clients know it.
    """

    text: str = ""
    opaque: Any = None
    redacted: bool = False
    id: str | None = None
    total_time_ms: int | None = None


@attrs.frozen(kw_only=True)
class ToolCallPart:
    """A call the model made; `id` is ours, `raw` what the model wrote as arguments.

    `server` and `tool` say which tool `name` meant, as the client was told.
    """

    id: str
    name: str
    raw: str
    arguments: Mapping[str, Any] | None
    provider_id: str | None = None
    opaque: Any = None
    server: str = ""
    tool: str = ""


@attrs.frozen(kw_only=True)
class Subagent:
    """An agent that worked in a call, in a chat of its own.

    Attributes:
        name: of the agent.
        model: as `provider/model`.
        variant: of that model.
        max_steps: how many answers it may give; None: as many as it needs.
        steps: how many it gave.
        messages: what is kept of its chat, for the user alone: no model is told of it.
    """

    name: str
    model: str
    variant: str | None = None
    max_steps: int | None = None
    steps: int = 0
    messages: tuple[Message, ...] = attrs.field(default=(), repr=False)


@attrs.frozen(kw_only=True)
class CallView:
    """How the user was shown a call that has ended; no model is sent it.

    Attributes:
        summary: its title.
        details: what was shown inside it.
        total_time_ms: how long it ran; None: it did not run.
        reason: why it was rejected; None: it was not.
    """

    summary: str | None = None
    details: ToolCallDetails | None = None
    total_time_ms: int | None = None
    reason: Literal["user-choice", "user-config", "hookRejected", "interrupted"] | None = None


@attrs.frozen(kw_only=True)
class ToolResultPart:
    """What came of a call; `subagent`: who worked in it, if an agent did."""

    call_id: str
    parts: tuple[TextPart | ImagePart | FilePart, ...]
    is_error: bool = False
    subagent: Subagent | None = None
    view: CallView | None = None


@attrs.frozen(kw_only=True)
class ServerToolPart:
    """What the provider's own tool did, raw."""

    kind: str
    raw: Any


@attrs.frozen
class RefusalPart:
    """The model's refusal."""

    text: str


@attrs.frozen(kw_only=True)
class CitationPart:
    """A source of the text before it."""

    url: str
    title: str = ""


@attrs.frozen(kw_only=True)
class BlockPart:
    """A raw piece of the provider's message."""

    raw: Any


@attrs.frozen
class CompactionPart:
    """A marker: from its message on a summary stands for all that was said before (`in_force`)."""

    summary: str


Part = (
    TextPart
    | ImagePart
    | FilePart
    | ReasoningPart
    | ToolCallPart
    | ToolResultPart
    | ServerToolPart
    | RefusalPart
    | CitationPart
    | BlockPart
    | CompactionPart
)


@attrs.frozen(kw_only=True)
class Message:
    """One message of a history.

    Attributes:
        role: `tool` messages hold `ToolResultPart`s and nothing else.
        parts: what it says, in order.
        origin: who made an assistant's message.
        interrupted: it was stopped, or broke, before its end; of a user's message: the server
            wrote it, behind an answer that ended with the server.
        content_id: of a message that the client was shown as the user's: the id of that content.
        shown: the words it was shown in, if they are not its last text.
    """

    role: Literal["user", "assistant", "tool"]
    parts: tuple[Part, ...]
    origin: Origin | None = None
    interrupted: bool = False
    content_id: str | None = None
    shown: str | None = None


AnyPart = TypeVar("AnyPart", bound=Part)

_Said = TextPart | ImagePart | FilePart
_Answered = TextPart | ImagePart | ToolCallPart | ServerToolPart

INTERRUPTED = "[interrupted: this call has no result]"

_LONGEST_NAME = 64

_KEPT_BACK = 4
"""Repaired messages; two of them may still change, four are the user's last two with an answer."""

_SUMMARY = (
    "The conversation before this was long. In its place stands this summary of it:\n\n{}\n\n"
    "Go on from there; what it says is done need not be done again."
)


def in_force(messages: Sequence[Message], before: Sequence[Message] = ()) -> tuple[Message, ...]:
    """What a model is told of a history: all of it, or what begins with the last summary.

    Args:
        messages: the history, or what was added to it.
        before: what was in force before they were added.
    """
    for behind, message in enumerate(reversed(messages)):
        parts = message.parts
        if parts and isinstance(parts[0], CompactionPart) and message.role == "user":
            told = (TextPart(_SUMMARY.format(parts[0].summary)), *parts[1:])
            since = messages[len(messages) - behind :]
            return (attrs.evolve(message, parts=told), *since)
    return (*before, *messages)


def repair(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The history as every API accepts it; a pure function that leaves a valid history alone.

    Afterwards the first message is the user's and the last the user's or a tool's; neighbours
    differ in role; no message and no text is empty; every call has an id of its own, a legal name,
    arguments that are an object, and exactly one result, in its place in the `tool` message that
    follows; no result is without its call. A refused answer is left out; of an interrupted one the
    text stays, and what belongs to calls that had a result.
    """
    return Repair().rest(messages)


class Repair:
    """`repair` for a history that grows at its end: what is settled is not looked at again.

    What it settled, then the rest of a history, are together what `repair` makes of that history.
    """

    def __init__(self) -> None:
        self._settled: list[Message] = []  # of the history, as it was
        self._end: list[Message] = []  # repaired; what follows may still be joined to it
        self._seen: set[str] = set()

    def continues(self, messages: Sequence[Message]) -> bool:
        """Whether a history begins with all that is settled; not one that only says the same."""
        count = len(self._settled)
        if count > len(messages) or (count and messages[count - 1] is not self._settled[-1]):
            return False
        return messages[:count] == self._settled

    def settle(self, messages: list[Message]) -> list[Message]:
        """Repaired messages, after those given before, that nothing will change any more.

        The last two of the user's, results of calls included, are not given but part of the rest.

        Args:
            messages: a history that continues.
        """
        settled = len(self._settled)
        answers = (
            n for n in range(len(messages) - 1, settled, -1) if messages[n].role == "assistant"
        )
        new = messages[settled : next(answers, settled)]
        _repair_onto(self._end, self._seen, new)
        self._settled += new
        given, self._end = self._end[:-_KEPT_BACK], self._end[-_KEPT_BACK:]
        return given

    def rest(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The repaired messages after the settled ones."""
        end = list(self._end)
        _repair_onto(end, set(self._seen), messages[len(self._settled) :])
        if not end or end[-1].role == "assistant":
            end.append(Message(role="user", parts=(TextPart("Continue."),)))
        return tuple(end)


def _repair_onto(repaired: list[Message], seen: set[str], messages: Sequence[Message]) -> None:
    """Repair what follows a repaired beginning; it begins with an answer if that has one.

    Only the last two messages of the beginning may change: an answer that is joined to the last
    can leave nothing of it, and then what follows is joined to the one before.
    """
    for position, message in enumerate(messages):
        if message.role == "assistant":
            answers = _until_next_answer(messages, position + 1)
            for each in _answer_with_results(message, answers, seen):
                _append(repaired, each)
        elif message.role == "user":
            parts = tuple(part for part in message.parts if isinstance(part, _Said))
            _append(repaired, attrs.evolve(message, parts=_full(parts)))


def _append(repaired: list[Message], message: Message) -> None:
    if not message.parts or (not repaired and message.role != "user"):
        return
    if repaired and repaired[-1].role == message.role:
        joined = _joined(repaired.pop(), message)
        if not joined.parts:
            return
        message = joined
    repaired.append(message)


def _until_next_answer(messages: Sequence[Message], start: int) -> list[ToolResultPart]:
    results: list[ToolResultPart] = []
    for position in range(start, len(messages)):
        if messages[position].role == "assistant":
            break
        results += [part for part in messages[position].parts if isinstance(part, ToolResultPart)]
    return results


def _answer_with_results(
    message: Message, results: list[ToolResultPart], seen: set[str]
) -> list[Message]:
    if any(isinstance(part, RefusalPart) for part in message.parts):
        return []
    kept: list[Part] = []
    answers: list[ToolResultPart] = []
    for part in _full(message.parts):
        if not isinstance(part, ToolCallPart):
            kept += [] if isinstance(part, ToolResultPart | FilePart) else [part]
            continue
        result = next((result for result in results if result.call_id == part.id), None)
        if result is not None:
            results.remove(result)
        elif message.interrupted:
            continue
        call_id = _unused(part.id, seen)
        parts = (_full(result.parts) if result else ()) or (
            TextPart(INTERRUPTED if result is None else "(no output)"),
        )
        is_error = result is None or result.is_error
        readable = part.arguments is not None and part.raw.strip()
        legal = attrs.evolve(part, id=call_id, name=_legal(part.name))
        kept.append(legal if readable else attrs.evolve(legal, raw="{}", arguments={}))
        answers.append(ToolResultPart(call_id=call_id, parts=parts, is_error=is_error))
    if message.interrupted and not answers:
        kept = [part for part in kept if not isinstance(part, ReasoningPart | BlockPart)]
    if not any(isinstance(part, _Answered) for part in kept):
        return []  # thoughts alone are no message that a provider takes back
    return [
        attrs.evolve(message, parts=tuple(kept)),
        Message(role="tool", parts=tuple(answers)),
    ]


def _legal(name: str) -> str:
    """A tool's name as every API takes it: models make up others."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_NAME] or "_"


def _unused(call_id: str, seen: set[str]) -> str:
    number, unused = 1, call_id or "call"
    while unused in seen:
        number += 1
        unused = f"{call_id or 'call'}_{number}"
    seen.add(unused)
    return unused


def _full(parts: tuple[AnyPart, ...]) -> tuple[AnyPart, ...]:
    return tuple(part for part in parts if not isinstance(part, TextPart) or part.text.strip())


def _joined(first: Message, second: Message) -> Message:
    if first.origin == second.origin:
        interrupted = first.interrupted and second.interrupted
        return attrs.evolve(first, parts=first.parts + second.parts, interrupted=interrupted)
    neutral = tuple(
        attrs.evolve(part, opaque=None) if isinstance(part, ToolCallPart) else part
        for part in first.parts + second.parts
        if not isinstance(part, ReasoningPart | ServerToolPart | BlockPart)
    )
    return Message(role=first.role, parts=neutral)
