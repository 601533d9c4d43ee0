"""The part of a model's context that a chat takes.

The provider's count is used for the messages of the last request. Later messages, or all if there
is no count, are estimated, so callers must leave a margin.
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
        had_room: a request was within the limit since the last compaction; otherwise compacting
            again would not help.
    """

    def __init__(self) -> None:
        self.had_room = True
        self._tokens = 0
        self._messages = 0

    def record(self, usage: Usage, messages: int) -> None:
        """Record the provider's count of a request; `messages` includes its answer."""
        if usage.input is not None and (tokens := tokens_of(usage)):
            self._tokens, self._messages = tokens, messages

    def tokens(self, request: Request, messages: int) -> int:
        """Return the estimated tokens of a request.

        Args:
            request: a request with the last messages of the chat, from its last summary on.
            messages: the number of all messages of the chat.
        """
        first = messages - len(request.messages)
        if self._messages > first:
            return self._tokens + tokens_in(request.messages[self._messages - first :])
        return request_tokens(request)
