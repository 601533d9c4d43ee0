"""How much of a model's context a chat takes, as far as it can be told without a tokenizer.

What the provider counted for the last request stands for all that request held; what came since,
or all where nothing was counted, is taken for a token every four bytes. That is about right for
English and for code, and some way too little for Chinese or for long numbers: those who act on it
leave room.
"""

from __future__ import annotations

from collections.abc import Sequence

from eca_protocol import json
from eca_server.chat.usage import tokens_of
from eca_server.llm.backend import Request
from eca_server.llm.events import Usage
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

__all__ = ["Window", "tokens_in"]

BYTES_OF_A_TOKEN = 4
TOKENS_OF_A_PICTURE = 1500
TOKENS_OF_A_MESSAGE = 10


def tokens_in(messages: Sequence[Message]) -> int:
    """About how many tokens these messages are."""
    parts = sum(_tokens(part) for message in messages for part in message.parts)
    return parts + TOKENS_OF_A_MESSAGE * len(messages)


class Window:
    """The context that one chat takes.

    Attributes:
        had_room: since the chat was last compacted a request was within the limit; as long as
            none was, compacting again would not help.
    """

    def __init__(self) -> None:
        self.had_room = True
        self._tokens = 0
        self._messages = 0

    def told(self, usage: Usage, messages: int) -> None:
        """The provider counted a request; with its answer the chat has so many messages."""
        if usage.input is not None and (tokens := tokens_of(usage)):
            self._tokens, self._messages = tokens, messages

    def tokens(self, request: Request, messages: int) -> int:
        """About how many tokens a request will be.

        Args:
            request: it holds the last messages of the chat, from its last summary on.
            messages: how many the chat has in all.
        """
        first = messages - len(request.messages)
        if self._messages > first:
            return self._tokens + tokens_in(request.messages[self._messages - first :])
        tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
        fixed = _size(request.system) + len(json.dumps(tools))
        return fixed // BYTES_OF_A_TOKEN + tokens_in(request.messages)


def _tokens(part: Part) -> int:
    match part:
        case TextPart(text) | RefusalPart(text) | CompactionPart(text) | ReasoningPart(text=text):
            return _size(text) // BYTES_OF_A_TOKEN
        case ToolCallPart(name=name, raw=raw):
            return _size(name + raw) // BYTES_OF_A_TOKEN
        case ToolResultPart(parts=parts):
            return sum(map(_tokens, parts))
        case FilePart(data=data):
            return len(data) // BYTES_OF_A_TOKEN
        case ImagePart():
            return TOKENS_OF_A_PICTURE
        case _:
            return 0


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
