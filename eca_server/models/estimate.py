"""Estimates of token counts, without a tokenizer. No I/O.

A token is taken as four bytes. That is about right for English and code, and too low for Chinese or
long numbers: callers leave a margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from eca_protocol import json
from eca_server.models import history
from eca_server.models.backend import Request

Kind: TypeAlias = Literal["instructions", "tools", "messages", "calls", "files"]
"""The kinds of content in a request."""

BYTES_PER_TOKEN = 4
BYTES_PER_DOCUMENT_TOKEN = 32
TOKENS_PER_IMAGE = 1500
TOKENS_PER_MESSAGE = 10


def request_tokens(request: Request) -> int:
    """Estimate the tokens of a whole request."""
    return sum(tokens_by_kind(request).values())


def tokens_by_kind(request: Request) -> dict[Kind, int]:
    """Estimate the tokens of each kind of content in a request."""
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    counts: dict[Kind, int] = {
        "instructions": utf8_size(request.system) // BYTES_PER_TOKEN,
        "tools": len(json.dumps(tools)) // BYTES_PER_TOKEN if tools else 0,
        "messages": _overhead(request.messages),
        "calls": 0,
        "files": 0,
    }
    for message in request.messages:
        for part in message.parts:
            counts[_kind(part)] += _tokens(part)
    return counts


def tokens_in(messages: Sequence[history.Message]) -> int:
    """Estimate the tokens of these messages."""
    parts = sum(_tokens(part) for message in messages for part in message.parts)
    return parts + _overhead(messages)


def _overhead(messages: Sequence[history.Message]) -> int:
    """Estimate the tokens of messages beside their parts; those without a part are not sent."""
    return TOKENS_PER_MESSAGE * sum(bool(message.parts) for message in messages)


def _kind(part: history.Part) -> Kind:
    if isinstance(part, history.ToolCallPart | history.ToolResultPart):
        return "calls"
    return "files" if isinstance(part, history.FilePart | history.ImagePart) else "messages"


def _tokens(part: history.Part) -> int:
    match part:
        case (
            history.TextPart(text)
            | history.RefusalPart(text)
            | history.CompactionPart(text)
            | history.ReasoningPart(text=text)
        ):
            return utf8_size(text) // BYTES_PER_TOKEN
        case history.ToolCallPart(name=name, raw=raw):
            return utf8_size(name + raw) // BYTES_PER_TOKEN
        case history.ToolResultPart(parts=parts):
            return sum(map(_tokens, parts))
        case history.FilePart(media_type=media_type, data=data):
            readable = media_type.startswith("text/")
            return len(data) // (BYTES_PER_TOKEN if readable else BYTES_PER_DOCUMENT_TOKEN)
        case history.ImagePart():
            return TOKENS_PER_IMAGE
        case _:
            return 0


def utf8_size(text: str) -> int:
    """Return the number of bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
