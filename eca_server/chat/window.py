"""How much of a model's context a chat takes.

What the provider counted for the last request stands for all that request held; what came since,
or all where nothing was counted, is estimated: those who act on it leave room.
"""

from __future__ import annotations

from eca_server.chat.usage import tokens_of
from eca_server.llm.backend import Request
from eca_server.llm.estimate import request_tokens, tokens_in
from eca_server.llm.events import Usage

__all__ = ["Window"]


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
        return request_tokens(request)
