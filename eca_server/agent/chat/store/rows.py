"""The stored values of a chat, and the coding of a message in a row.

Rule: a message is read as it was written. JSON of others (a provider's opaque data, a call's
arguments) is stored as a string, so that it may be nested as deeply as any JSON text. A field with
its default value is left out. A field that is added to `Message` or to a part with a default
therefore needs no change here, and old rows without it can be read.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, Final

import attrs

from eca_protocol import json
from eca_protocol.codec import Codec
from eca_protocol.errors import DecodeError, ECAError
from eca_protocol.messages import (
    ChatContentReceivedParams,
    ChatToolCallPrepareContent,
    ToolCallDetails,
)
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_server.agent.chat.flags import Flag, read_flags
from eca_server.models.history import (
    BlockPart,
    CallView,
    CitationPart,
    CompactionPart,
    FilePart,
    ImagePart,
    Message,
    Origin,
    Part,
    ReasoningPart,
    RefusalPart,
    ServerToolPart,
    Subagent,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

_LAST_TIME: Final = 2.5e11
"""Seconds since the epoch in the year 9892: a later time is damage, and no date."""

Coding = tuple[Callable[[Any], Any], Callable[[Any], Any]]


@attrs.frozen(kw_only=True)
class StoredMessage:
    """A message with its stable id: for a user's message the contentId of the wire."""

    id: str
    message: Message


@attrs.frozen(kw_only=True)
class TurnUsage:
    """The usage of one turn: its tokens, and its cost in US dollars; None: unknown."""

    tokens: int
    cost: Decimal | None = None


@attrs.frozen(kw_only=True)
class ChatSettings:
    """The settings of a chat.

    Attributes:
        model: the model of its last prompt, as `provider/model`.
        behavior: the behavior of its last prompt.
        trust: calls that need approval run without it.
        is_named_by_user: the user gave the title, and no generated title replaces it.
        flags: the user's flags, by their content ids.
        kind: `inline` if its answers are shown in the text; None: an ordinary chat.
        acp_session: the session of an ACP agent with the chat's last prompt: the agent's name, the
            prompt's content id and the session's id, as JSON.
    """

    model: str | None = None
    variant: str | None = None
    behavior: str | None = None
    trust: bool = False
    is_named_by_user: bool = False
    flags: Mapping[str, Flag] = attrs.field(factory=dict)
    kind: str | None = None
    acp_session: str | None = None


@attrs.frozen(kw_only=True)
class StoredChat:
    """A stored chat.

    Attributes:
        title: its title; None: it has none.
        messages: its whole history, oldest first.
        usages: the usage of each of its turns, oldest first.
        created: the time it was first stored, in seconds since the epoch.
        updated: the time of the last addition.
    """

    id: str
    title: str | None
    messages: tuple[StoredMessage, ...]
    usages: tuple[TurnUsage, ...]
    created: float
    updated: float
    settings: ChatSettings = ChatSettings()


@attrs.frozen
class LoadResult:
    """The result of loading a chat.

    Attributes:
        chat: None if there is none with this id.
        has_unfinished_rollbacks: a rollback was interrupted, and has to be finished first.
    """

    chat: StoredChat | None
    has_unfinished_rollbacks: bool = False


@attrs.frozen(kw_only=True)
class ChatSummary:
    """An entry in a list of chats; `beginning`: the first words of a chat without title."""

    id: str
    title: str | None
    beginning: str
    created: float
    updated: float
    messages: int = 0
    model: str | None = None
    kind: str | None = None


@attrs.frozen(kw_only=True)
class BeforeImage:
    """A file before a call changes it; a turn may have several of one path.

    It is stored before the change, which may therefore have failed. Before a file is restored, the
    last change first, its content must be compared with `after`.

    Attributes:
        content_id: the id of the user's last message before the change.
        path: the real path of the file, or of the directory that was moved there.
        moved_from: the real path it was moved from, if it was: moved back, it is restored.
        existed: whether there was a file.
        mode: its permission bits.
        data: its bytes; None if there was no file, or it was too large to be stored.
        after: the digest of its content after the change (see `Fingerprint`).
    """

    content_id: str
    path: str
    moved_from: str | None = None
    existed: bool
    mode: int | None = None
    data: bytes | None = attrs.field(default=None, repr=False)
    after: bytes | None = attrs.field(default=None, repr=False)


@attrs.define(kw_only=True, eq=False)
class BeforeImageBatch:
    """The before-images of one call.

    Attributes:
        content_id: the id of the user's last message before the changes.
        numbers: their numbers in the store; None: they are not stored, or not yet.
    """

    chat: str
    content_id: str
    paths: tuple[str, ...]
    numbers: tuple[int, ...] | None = None


@attrs.frozen(kw_only=True)
class Change:
    """A change of a file without its previous bytes: enough to plan how to undo it.

    Attributes:
        number: the number of its before-image in the store.
        path: the real path of the file, or of the directory that was moved there.
        moved_from: the real path it was moved from, if it was.
        existed: whether there was a file.
        before: the digest of its content; None: there was none, or it is not stored.
        after: the digest of its content after the change.
    """

    number: int
    path: str
    moved_from: str | None = None
    existed: bool = True
    before: bytes | None = None
    after: bytes | None = None


@attrs.frozen(kw_only=True)
class StoredContent:
    """The previous permission bits and bytes of a file."""

    mode: int | None
    data: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class UndoStep:
    """One step that undoes changes on the disk.

    Attributes:
        path: the real path of the file or directory.
        moved_to: the real path it is moved back to, if it is.
        present: the digest of its current content; None: nothing is there.
        change: the number of the change whose before-image is restored; None: the file is deleted
            or moved.
    """

    path: str
    moved_to: str | None = None
    present: bytes | None = None
    change: int | None = None

    @property
    def is_deletion(self) -> bool:
        """True if the file did not exist before, and is deleted."""
        return self.moved_to is None and self.change is None


@attrs.frozen(kw_only=True)
class Rollback:
    """A rollback of a chat to one of its messages.

    Attributes:
        cut: the id of the message; None: no messages are removed.
        earlier: the number of messages directly before it that are removed, too; below zero: the
            number of messages, from it on, that remain.
        last_remaining: the id of the last remaining message of the user.
        first_change: the number of the first change of a file that came after it.
        undoes: files are restored, too.
        last_message: the number of the last message to remove; None: all later ones.
        last_change: the number of the last change to undo; None: all later ones.
        steps: the remaining steps, in order.
    """

    chat: str
    cut: str | None
    earlier: int = 0
    last_remaining: str | None = None
    first_change: int | None = None
    undoes: bool = False
    last_message: int | None = None
    last_change: int | None = None
    steps: tuple[UndoStep, ...] = ()


@attrs.frozen
class ChatRow:
    """The row of a chat; times are in seconds since the epoch."""

    id: str
    workspace: str
    title: str | None
    created: float
    updated: float


class UnreadableRow(ECAError):
    """A row without a readable message."""


def encode_message(message: Message) -> bytes:
    """Return a message as the body of a row.

    Raises:
        LocalProtocolError: something in it is not JSON.
    """
    return json.dumps(_write(message))


def decode_message(body: bytes) -> Message:
    """Return the message in a row's body.

    Raises:
        UnreadableRow: the body was not written by `encode_message`.
    """
    try:
        return Message(**_read(Message, json.loads(body)))
    except (AttributeError, KeyError, TypeError, ValueError) as fault:
        raise UnreadableRow(f"expected a stored message, got {type(fault).__name__}") from fault


def encode_settings(settings: ChatSettings) -> bytes:
    """Return a chat's settings as the body of a row."""
    return json.dumps(_write(settings))


def decode_settings(body: bytes | None) -> ChatSettings:
    """Return the settings in a row's body; an unreadable setting has its default.

    Settings of a newer server are ignored.
    """
    known = attrs.fields_dict(ChatSettings)
    try:
        written = json.loads(body or b"{}").items()
    except (AttributeError, TypeError, ValueError):
        return ChatSettings()
    readable: dict[str, Any] = {
        name: value
        for name, value in written
        if name in known and isinstance(value, _SETTINGS.get(name, str | None))
    }
    return ChatSettings(**_read(ChatSettings, readable))


def read_text(value: object) -> str:
    """Return a column that must be a text.

    Raises:
        UnreadableRow: the column has a different type.
    """
    if not isinstance(value, str):
        raise UnreadableRow(f"expected a text, got {type(value).__name__}")
    return value


def read_usage(tokens: object, cost: object) -> TurnUsage:
    """Return the usage of a turn.

    Raises:
        UnreadableRow: the tokens are no integer, or the cost is no finite decimal number.
    """
    if not isinstance(tokens, int):
        raise UnreadableRow(f"expected a number of tokens, got {type(tokens).__name__}")
    try:
        price = None if cost is None else Decimal(read_text(cost))
    except InvalidOperation as fault:
        raise UnreadableRow("expected a cost in dollars, got a different text") from fault
    if price is not None and not price.is_finite():
        raise UnreadableRow(f"expected a finite cost in dollars, got {price}")
    return TurnUsage(tokens=tokens, cost=price)


def repair_row(row: ChatRow) -> tuple[ChatRow, tuple[str, ...]]:
    """Return the row with defaults for damaged columns, and the names of those columns."""
    defaults: dict[str, Any] = {}
    if not isinstance(row.title, str | None):
        defaults["title"] = None
    for name in ("created", "updated"):
        seconds = getattr(row, name)
        if not isinstance(seconds, int | float) or not 0 <= seconds < _LAST_TIME:
            defaults[name] = 0.0
    return attrs.evolve(row, **defaults), tuple(defaults)


def _write(value: Any) -> dict[str, Any]:
    kind = type(value)
    codings = _CODINGS.get(kind, {})
    written: dict[str, Any] = {"type": _TAGS[kind]} if kind in _TAGS else {}
    for field in attrs.fields(kind):
        held = getattr(value, field.name)
        if held != field.default:
            write, _ = codings.get(field.name, _PLAIN)
            written[field.name] = write(held)
    return written


def _read(kind: type[Any], written: dict[str, Any]) -> dict[str, Any]:
    codings = _CODINGS.get(kind, {})
    return {
        name: codings.get(name, _PLAIN)[1](held) for name, held in written.items() if name != "type"
    }


def _read_part(written: dict[str, Any]) -> Any:
    kind = _PARTS[written["type"]]
    return kind(**_read(kind, written))


def _write_details(details: ToolCallDetails) -> str:
    content = _content_with(details)
    written = _CODEC.encode_params("chat/contentReceived", content)["content"]["details"]
    return json.dumps(written).decode()


def _read_details(written: str) -> ToolCallDetails | None:
    raw = _CODEC.encode_params("chat/contentReceived", _content_with(None))
    raw["content"]["details"] = json.loads(written)
    try:
        content: Any = _CODEC.decode_params("chat/contentReceived", raw).content
    except DecodeError:  # the message is still readable without its details
        return None
    details: ToolCallDetails | None = content.details
    return details


def _content_with(details: ToolCallDetails | None) -> ChatContentReceivedParams:
    """Return a message around details: the codec writes and reads whole messages alone."""
    content = ChatToolCallPrepareContent(
        id="", name="", server="", origin="native", arguments_text="", details=details
    )
    return ChatContentReceivedParams(chat_id="", role="assistant", content=content)


_CODEC: Final = Codec(ECA, Revision.CURRENT)

_SETTINGS: Final[Mapping[str, type]] = MappingProxyType(
    {"trust": bool, "is_named_by_user": bool, "flags": dict}
)
"""The types of the settings that are no text."""

_PLAIN: Final[Coding] = (lambda held: held, lambda held: held)
_BYTES: Final[Coding] = (lambda data: base64.b64encode(data).decode(), base64.b64decode)
_JSON: Final[Coding] = (lambda value: json.dumps(value).decode(), json.loads)
_NESTED: Final[Coding] = (
    lambda parts: [_write(part) for part in parts],
    lambda parts: tuple(map(_read_part, parts)),
)

_FLAGS: Final[Coding] = (
    lambda flags: {name: attrs.asdict(flag) for name, flag in flags.items()},
    read_flags,
)
_VIEW: Final[Coding] = (_write, lambda written: CallView(**_read(CallView, written)))
_SUBAGENT: Final[Coding] = (_write, lambda written: Subagent(**_read(Subagent, written)))
_MESSAGES: Final[Coding] = (
    lambda messages: [_write(message) for message in messages],
    lambda written: tuple(Message(**_read(Message, each)) for each in written),
)

_PARTS: Final[Mapping[str, type[Part]]] = MappingProxyType(
    {
        "text": TextPart,
        "image": ImagePart,
        "file": FilePart,
        "reasoning": ReasoningPart,
        "tool_call": ToolCallPart,
        "tool_result": ToolResultPart,
        "server_tool": ServerToolPart,
        "refusal": RefusalPart,
        "citation": CitationPart,
        "block": BlockPart,
        "compaction": CompactionPart,
    }
)
_TAGS: Final[Mapping[type[Any], str]] = MappingProxyType(
    {kind: tag for tag, kind in _PARTS.items()}
)
_CODINGS: Final[Mapping[type[Any], Mapping[str, Coding]]] = MappingProxyType(
    {
        Message: {
            "parts": _NESTED,
            "origin": (attrs.asdict, lambda held: Origin(**held)),
        },
        ImagePart: {"data": _BYTES},
        FilePart: {"data": _BYTES},
        ReasoningPart: {"opaque": _JSON},
        ToolCallPart: {"opaque": _JSON, "arguments": _JSON},
        ToolResultPart: {"parts": _NESTED, "subagent": _SUBAGENT, "view": _VIEW},
        CallView: {"details": (_write_details, _read_details)},
        Subagent: {"messages": _MESSAGES},
        ChatSettings: {"flags": _FLAGS},
        ServerToolPart: {"raw": _JSON},
        BlockPart: {"raw": _JSON},
    }
)
