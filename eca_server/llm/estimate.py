"""About how many tokens something is, as far as it can be told without a tokenizer. No I/O.

A token is taken for four bytes. That is about right for English and for code, and some way too
little for Chinese or for long numbers: those who act on it leave room.
"""

from __future__ import annotations

from collections.abc import Sequence

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

__all__ = ["tokens_asked", "tokens_in"]

BYTES_OF_A_TOKEN = 4
BYTES_OF_A_TOKEN_IN_A_DOCUMENT = 32
TOKENS_OF_A_PICTURE = 1500
TOKENS_OF_A_MESSAGE = 10


def tokens_asked(request: Request) -> int:
    """About how many tokens a whole request is: instructions, tools, messages."""
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    fixed = _size(request.system) + len(json.dumps(tools))
    return fixed // BYTES_OF_A_TOKEN + tokens_in(request.messages)


def tokens_in(messages: Sequence[Message]) -> int:
    """About how many tokens these messages are."""
    parts = sum(_tokens(part) for message in messages for part in message.parts)
    return parts + TOKENS_OF_A_MESSAGE * len(messages)


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
