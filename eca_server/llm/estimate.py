"""About how many tokens something is, as far as it can be told without a tokenizer. No I/O.

A token is taken for four bytes. That is about right for English and for code, and some way too
little for Chinese or for long numbers: those who act on it leave room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from eca_protocol import json
from eca_server.llm.backend import Request
from eca_server.llm.history import (
    CompactionPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

__all__ = ["BYTES_OF_A_TOKEN", "Kind", "tokens_asked", "tokens_by_kind", "tokens_in"]

Kind: TypeAlias = Literal["instructions", "tools", "messages", "calls", "files"]
"""What a request is made of."""

BYTES_OF_A_TOKEN = 4
BYTES_OF_A_TOKEN_IN_A_DOCUMENT = 32
TOKENS_OF_A_PICTURE = 1500
TOKENS_OF_A_MESSAGE = 10


def tokens_asked(request: Request) -> int:
    """About how many tokens a whole request is."""
    return sum(tokens_by_kind(request).values())


def tokens_by_kind(request: Request) -> dict[Kind, int]:
    """About how many tokens each kind of content in a request is."""
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    found: dict[Kind, int] = {
        "instructions": _size(request.system) // BYTES_OF_A_TOKEN,
        "tools": len(json.dumps(tools)) // BYTES_OF_A_TOKEN if tools else 0,
        "messages": TOKENS_OF_A_MESSAGE * len(request.messages),
        "calls": 0,
        "files": 0,
    }
    for message in request.messages:
        for part in message.parts:
            found[_kind(part)] += _tokens(part)
    return found


def tokens_in(messages: Sequence[Message]) -> int:
    """About how many tokens these messages are."""
    parts = sum(_tokens(part) for message in messages for part in message.parts)
    return parts + TOKENS_OF_A_MESSAGE * len(messages)


def _kind(part: Part) -> Kind:
    if isinstance(part, ToolCallPart | ToolResultPart):
        return "calls"
    return "files" if isinstance(part, FilePart | ImagePart) else "messages"


def _tokens(part: Part) -> int:
    match part:
        case TextPart(text) | RefusalPart(text) | CompactionPart(text) | ReasoningPart(text=text):
            return _size(text) // BYTES_OF_A_TOKEN
        case ToolCallPart(name=name, raw=raw):
            return _size(name + raw) // BYTES_OF_A_TOKEN
        case ToolResultPart(parts=parts):
            return sum(map(_tokens, parts))
        case FilePart(media_type=media_type, data=data):
            readable = media_type.startswith("text/")
            return len(data) // (BYTES_OF_A_TOKEN if readable else BYTES_OF_A_TOKEN_IN_A_DOCUMENT)
        case ImagePart():
            return TOKENS_OF_A_PICTURE
        case _:
            return 0


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
