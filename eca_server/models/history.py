"""A chat's history in parts that belong to no API, and its repair before each request.

History is append-only and sent as it was. Data that an API wants back unchanged is in `opaque`,
next to the neutral form, and goes back only to the model that made it. Interrupted or broken
answers are made sendable by `repair`, anew for each request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs

from eca_protocol import json

if TYPE_CHECKING:
    from eca_protocol.messages import ToolCallDetails


@attrs.frozen
class Origin:
    """The model that made a message. Opaque data goes back to the same API and provider only."""

    api: str
    provider: str
    model: str


@attrs.frozen
class TextPart:
    """Text of the message's author."""

    text: str


@attrs.frozen(kw_only=True)
class ImagePart:
    """An image."""

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
    """Reasoning of the model; `opaque` goes back only to the model that made it.

    `id` is the id that clients know.
    """

    text: str = ""
    opaque: Any = None
    redacted: bool = False
    id: str | None = None
    total_time_ms: int | None = None


@attrs.frozen(kw_only=True)
class ToolCallPart:
    """A call of the model; `id` is ours, `raw` is the text of the arguments.

    `server` and `tool` are the tool that `name` meant, as announced to the client.
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
    """A subagent that ran in a call, in a chat of its own.

    Attributes:
        model: as `provider/model`.
        max_steps: the limit of its answers; None: no limit.
        messages: the stored part of its chat, for the user only: no model is sent it.
    """

    name: str
    model: str
    variant: str | None = None
    max_steps: int | None = None
    steps: int = 0
    messages: tuple[Message, ...] = attrs.field(default=(), repr=False)


@attrs.frozen(kw_only=True)
class CallView:
    """The view of an ended call that the user saw; no model is sent it.

    Attributes:
        total_time_ms: its duration; None: it did not run.
        reason: the reason of its rejection; None: it was not rejected.
    """

    summary: str | None = None
    details: ToolCallDetails | None = None
    total_time_ms: int | None = None
    reason: Literal["user-choice", "user-config", "hookRejected", "interrupted"] | None = None


@attrs.frozen(kw_only=True)
class ToolResultPart:
    """The result of a call; `subagent` is the agent that ran in it, if any."""

    call_id: str
    parts: tuple[TextPart | ImagePart | FilePart, ...]
    is_error: bool = False
    subagent: Subagent | None = None
    view: CallView | None = None


@attrs.frozen(kw_only=True)
class ServerToolPart:
    """The raw result of a provider's own tool."""

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
    """A marker: from its message on, a summary replaces all earlier messages.

    `is_shown`: the user was shown the summary.
    """

    summary: str
    is_shown: bool = attrs.field(default=False, kw_only=True)


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
        parts: its content, in order.
        origin: the model that made an assistant's message.
        interrupted: it was stopped, or broke, before its end; for a user's message: the server
            wrote it, after a turn that failed, was stopped, or ended with the server.
        content_id: the id of the content by which the client showed a user's message.
        shown: the text that the client showed, if it differs from the last text part.
        context_tokens: the provider's count of a request and its answer, which this message ends;
            None: it did not count.
    """

    role: Literal["user", "assistant", "tool"]
    parts: tuple[Part, ...]
    origin: Origin | None = None
    interrupted: bool = False
    content_id: str | None = None
    shown: str | None = None
    context_tokens: int | None = None

    @property
    def shown_text(self) -> str:
        """The text of a user's message as shown, without the contexts before it."""
        if self.shown is not None:
            return self.shown
        texts = [part.text for part in self.parts if isinstance(part, TextPart)]
        return texts[-1] if texts else ""


Spoken = TextPart | ImagePart | ServerToolPart
"""The parts of an answer that a different model is sent as text."""


def spoken(part: Spoken) -> str:
    """Return a part of an answer as text."""
    match part:
        case TextPart(text):
            return text
        case ImagePart():
            return "[image generated by you]"
        case ServerToolPart(kind=kind):
            return f"[used {kind}]"


def neutral_answer(message: Message) -> Message:
    """Return an answer as a different model is sent it: texts and calls, without private data."""
    parts = tuple(
        attrs.evolve(part, provider_id=None, opaque=None)
        if isinstance(part, ToolCallPart)
        else TextPart(spoken(part))
        for part in message.parts
        if isinstance(part, ToolCallPart | Spoken)
    )
    return attrs.evolve(message, parts=parts, origin=None)


AnyPart = TypeVar("AnyPart", bound=Part)


def parts_in(messages: Iterable[Message], kind: type[AnyPart]) -> Iterator[AnyPart]:
    """Yield the parts of one kind in messages, in order."""
    return (part for message in messages for part in message.parts if isinstance(part, kind))


_UserContent = TextPart | ImagePart | FilePart
_AnswerContent = TextPart | ImagePart | ToolCallPart | ServerToolPart

INTERRUPTED = "[interrupted: this call has no result; check whether it took effect]"

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape of half a character; alone it is refused, and models write some."""

_LONGEST_NAME = 64

_UNSETTLED = 4
"""Repaired messages; two may still change, four are the last two of the user with an answer."""

_SUMMARY = (
    "This chat is continued from an earlier conversation, which was too long for your context. The "
    "summary below replaces it.\n\n{}\n\n"
    "Continue from here; do not repeat completed work."
)


def effective_history(
    messages: Sequence[Message], before: Sequence[Message] = ()
) -> tuple[Message, ...]:
    """Return the messages that a model is sent: all, or those from the last summary on.

    `messages`: the history, or the messages that were added to it.
    """
    for behind, message in enumerate(reversed(messages)):
        parts = message.parts
        if parts and isinstance(parts[0], CompactionPart) and message.role == "user":
            parts_sent = (TextPart(_SUMMARY.format(parts[0].summary)), *parts[1:])
            since = messages[len(messages) - behind :]
            return (attrs.evolve(message, parts=parts_sent), *since)
    return (*before, *messages)


def repair(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the history in a form that every API accepts; a valid history is unchanged.

    Afterwards the first message is the user's and the last the user's or a tool's; neighbours
    differ in role; no message and no text is empty; every call has an id of its own, a legal name,
    arguments that are an object without halves of characters, and exactly one result, in its place
    in the `tool` message that follows; no result is without its call. A refused answer is left out;
    an interrupted one keeps its text and the calls that have a result.
    """
    return Repair().rest(messages)


class Repair:
    """The incremental form of `repair`: settled messages are not repaired again.

    The settled messages, then the rest of a history, are together the result of `repair`.
    """

    def __init__(self) -> None:
        self._settled: list[Message] = []  # of the history, unrepaired
        self._end: list[Message] = []  # repaired; following messages may still be joined to it
        self._used_ids: set[str] = set()

    def continues(self, messages: Sequence[Message]) -> bool:
        """Return whether a history begins with the settled messages; equal copies do not count."""
        count = len(self._settled)
        if count > len(messages) or (count and messages[count - 1] is not self._settled[-1]):
            return False
        return messages[:count] == self._settled

    def settle(self, messages: list[Message]) -> list[Message]:
        """Settle more messages, and return those repaired messages that can no longer change.

        The last two user messages, results of calls included, stay in the rest.

        Args:
            messages: a history that continues.
        """
        settled = len(self._settled)
        answers = (
            n for n in range(len(messages) - 1, settled, -1) if messages[n].role == "assistant"
        )
        new = messages[settled : next(answers, settled)]
        _repair_onto(self._end, self._used_ids, new)
        self._settled += new
        settled_messages, self._end = self._end[:-_UNSETTLED], self._end[-_UNSETTLED:]
        return settled_messages

    def rest(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the repaired messages after the settled ones."""
        end = list(self._end)
        _repair_onto(end, set(self._used_ids), messages[len(self._settled) :])
        if not end or end[-1].role == "assistant":
            end.append(Message(role="user", parts=(TextPart("Continue."),)))
        return tuple(end)


def _repair_onto(repaired: list[Message], used_ids: set[str], messages: Sequence[Message]) -> None:
    """Repair messages that follow a repaired beginning; they begin with an answer if it has one.

    Only the last two messages of the beginning may change: an answer that is joined to the last
    can leave it empty, and then the following message is joined to the one before.
    """
    for position, message in enumerate(messages):
        if message.role == "assistant":
            answers = _until_next_answer(messages, position + 1)
            for each in _answer_with_results(message, answers, used_ids):
                _append(repaired, each)
        elif message.role == "user":
            parts = tuple(part for part in message.parts if isinstance(part, _UserContent))
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
    message: Message, results: list[ToolResultPart], used_ids: set[str]
) -> list[Message]:
    if any(isinstance(part, RefusalPart) for part in message.parts):
        return []
    repaired: list[Part] = []
    answers: list[ToolResultPart] = []
    for part in _full(message.parts):
        if not isinstance(part, ToolCallPart):
            repaired += [] if isinstance(part, ToolResultPart | FilePart) else [part]
            continue
        result = next((result for result in results if result.call_id == part.id), None)
        if result is not None:
            results.remove(result)
        elif message.interrupted:
            continue
        call = _legal_call(part, used_ids)
        parts = (_full(result.parts) if result else ()) or (
            TextPart(INTERRUPTED if result is None else "(no output)"),
        )
        is_error = result is None or result.is_error
        repaired.append(call)
        answers.append(ToolResultPart(call_id=call.id, parts=parts, is_error=is_error))
    if message.interrupted and not answers:
        repaired = [part for part in repaired if not isinstance(part, ReasoningPart | BlockPart)]
    if not any(isinstance(part, _AnswerContent) for part in repaired):
        return []  # providers refuse messages with reasoning alone
    return [
        attrs.evolve(message, parts=tuple(repaired)),
        Message(role="tool", parts=tuple(answers)),
    ]


def _legal_call(part: ToolCallPart, used_ids: set[str]) -> ToolCallPart:
    """Return a call with a new id, a name that every API accepts, and readable arguments."""
    call = attrs.evolve(part, id=_unused(part.id, used_ids), name=_legal(part.name))
    if part.arguments is None or not part.raw.strip():
        return attrs.evolve(call, raw="{}", arguments={})
    if _SURROGATE.search(part.raw):
        return attrs.evolve(call, raw=json.dumps(part.arguments).decode())
    return call


def _legal(name: str) -> str:
    """Return a tool's name as every API accepts it: models invent other names."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_NAME] or "_"


def _unused(call_id: str, used_ids: set[str]) -> str:
    number, unused = 1, call_id or "call"
    while unused in used_ids:
        number += 1
        unused = f"{call_id or 'call'}_{number}"
    used_ids.add(unused)
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
