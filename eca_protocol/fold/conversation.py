"""Both sides' raw messages, as a wire or a transcript has them, folded together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from eca_protocol.codec import Codec
from eca_protocol.fold.fold import Fold
from eca_protocol.fold.rules import Violation
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

__all__ = ["Conversation"]


class Reader(Protocol):
    """What reads notifications: a codec of any revision."""

    def incoming(self, method: str, raw: Any) -> Sequence[tuple[str, Any]]:
        """A raw notification as typed ones."""
        ...


class Conversation:
    """A fold of everything that passes between a client and a server.

    Args:
        codec: reads what the server says; by default every edition from 2025-09 on is read.
    """

    def __init__(self, codec: Reader | None = None) -> None:
        self.fold = Fold()
        self._codec = codec or Codec(ECA, Revision.CURRENT)
        self._deletes: dict[Any, str] = {}
        self._prompted_since: set[str] = set()

    def passed(
        self, side: Literal["client", "server"], message: Mapping[str, Any]
    ) -> tuple[Violation, ...]:
        """Take the next message that `side` wrote; the rules that it breaks.

        Raises:
            DecodeError: a notification of the server's does not fit its type.
        """
        method, params = message.get("method"), message.get("params")
        if side == "client":
            self._client_said(method, params, message.get("id"))
            return ()
        if method is None:
            chat_id = self._deletes.pop(message.get("id"), None)
            if chat_id is not None:
                self.fold.deleted(chat_id)
                if chat_id in self._prompted_since:
                    self.fold.prompted(chat_id)
            return ()
        if method not in ECA or "id" in message:
            return ()
        told = self._codec.incoming(method, params)
        return tuple(violation for each in told for violation in self.fold.take(*each))

    def _client_said(self, method: Any, params: Any, request_id: Any) -> None:
        chat_id = (params.get("chatId") or None) if isinstance(params, Mapping) else None
        if method == "chat/prompt":
            self.fold.prompted(chat_id)
            self._prompted_since |= {chat_id} if chat_id else set()
        elif method == "chat/delete" and chat_id is not None:
            self._deletes[request_id] = chat_id
            self._prompted_since.discard(chat_id)
            self.fold.deleting(chat_id)
