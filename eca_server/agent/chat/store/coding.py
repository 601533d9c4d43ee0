"""The coding of a chat's messages, settings and numbers in rows.

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
from eca_protocol.errors import DecodeError
from eca_protocol.messages import (
    ChatContentReceivedParams,
    ChatToolCallPrepareContent,
    ToolCallDetails,
)
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_server.agent.chat.flags import read_flags
from eca_server.agent.chat.store.rows import ChatRow, ChatSettings, TurnUsage, UnreadableRow
from eca_server.models import history

_LAST_TIME: Final = 2.5e11
"""Seconds since the epoch in the year 9892: a later time is damage, and no date."""

Coding = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def encode_message(message: history.Message) -> bytes:
    """Return a message as the body of a row.

    Raises:
        LocalProtocolError: something in it is not JSON.
    """
    return json.dumps(_write(message))


def decode_message(body: bytes) -> history.Message:
    """Return the message in a row's body.

    Raises:
        UnreadableRow: the body was not written by `encode_message`.
    """
    try:
        return history.Message(**_read(history.Message, json.loads(body)))
    except (AttributeError, KeyError, TypeError, ValueError) as fault:
        raise UnreadableRow(f"expected a stored message, got {type(fault).__name__}") from fault


def encode_settings(settings: ChatSettings) -> bytes:
    """Return a chat's settings as the body of a row."""
    return json.dumps(_write(settings))


def decode_settings(body: bytes | None) -> ChatSettings:
    """Return the settings in a row's body; an unreadable setting has its default.

    Settings of a newer server are ignored.
    """
    defaults = attrs.asdict(ChatSettings(), recurse=False)
    try:
        written = json.loads(body or b"{}").items()
    except (AttributeError, TypeError, ValueError):
        return ChatSettings()
    readable: dict[str, Any] = {
        name: value
        for name, value in written
        if name in defaults
        and isinstance(value, str | None if defaults[name] is None else type(defaults[name]))
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


def _object(kind: type[Any]) -> Coding:
    return _write, lambda written: kind(**_read(kind, written))


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
_COUNTS: Final[Coding] = (
    dict,
    lambda written: {name: held for name, held in written.items() if type(held) is int},
)
_MESSAGES: Final[Coding] = (
    lambda messages: [_write(message) for message in messages],
    lambda written: tuple(history.Message(**_read(history.Message, each)) for each in written),
)

_PARTS: Final[Mapping[str, type[history.Part]]] = MappingProxyType(
    {
        "text": history.TextPart,
        "image": history.ImagePart,
        "file": history.FilePart,
        "reasoning": history.ReasoningPart,
        "tool_call": history.ToolCallPart,
        "tool_result": history.ToolResultPart,
        "server_tool": history.ServerToolPart,
        "refusal": history.RefusalPart,
        "citation": history.CitationPart,
        "block": history.BlockPart,
        "compaction": history.CompactionPart,
    }
)
_TAGS: Final[Mapping[type[Any], str]] = MappingProxyType(
    {kind: tag for tag, kind in _PARTS.items()}
)
_CODINGS: Final[Mapping[type[Any], Mapping[str, Coding]]] = MappingProxyType(
    {
        history.Message: {
            "parts": _NESTED,
            "origin": (attrs.asdict, lambda held: history.Origin(**held)),
        },
        history.ImagePart: {"data": _BYTES},
        history.FilePart: {"data": _BYTES},
        history.ReasoningPart: {"opaque": _JSON},
        history.ToolCallPart: {"opaque": _JSON, "arguments": _JSON},
        history.ToolResultPart: {
            "parts": _NESTED,
            "subagent": _object(history.Subagent),
            "view": _object(history.CallView),
        },
        history.CallView: {"details": (_write_details, _read_details)},
        history.Subagent: {"messages": _MESSAGES},
        ChatSettings: {"flags": _FLAGS, "context": _COUNTS},
        history.ServerToolPart: {"raw": _JSON},
        history.BlockPart: {"raw": _JSON},
    }
)
