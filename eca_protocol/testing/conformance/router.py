"""The delivery of a server's messages to the sessions that they concern."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from eca_protocol import json
from eca_protocol.framing import encode_frame
from eca_protocol.testing.conformance.recorder import ReceivedMessage, id_key


class Listener(Protocol):
    """A session of a case; the router appends its messages."""

    case: str
    messages: list[ReceivedMessage]


class Router:
    """The sessions at one server, and the owners of its chats and requests.

    A message without an owner concerns each session.

    Attributes:
        sessions: receive the messages.
        replies: the results for the server's requests, or functions of the params, by method;
            other methods are refused with -32601, and a case answers those with None.
    """

    def __init__(self, encode: Callable[[bytes], bytes] = encode_frame) -> None:
        self._encode = encode
        self.sessions: list[Listener] = []
        self.replies: dict[str, Any] = {}
        self._chat_owners: dict[str, Listener] = {}
        self._id_owners: dict[str, Listener] = {}
        self._ids = itertools.count(1)

    def next_id(self) -> int:
        """Return a new request id."""
        return next(self._ids)

    def claim_id(self, id_: object, session: Listener) -> None:
        """Claim a request's answer, unless another session has."""
        self._id_owners.setdefault(id_key(id_), session)

    def claim_chat(self, chat_id: str, session: Listener) -> None:
        """Claim a chat: its messages concern that session only."""
        self._chat_owners[chat_id] = session
        for other in self.sessions:
            if other is not session:
                other.messages[:] = [each for each in other.messages if each.chat_id != chat_id]

    def owner_of_chat(self, chat_id: str) -> Listener | None:
        """Return the session that has claimed a chat."""
        return self._chat_owners.get(chat_id)

    def owner(self, received: ReceivedMessage) -> Listener | None:
        """Return the only session that a message concerns."""
        if received.method or not received.message:
            return self._chat_owners.get(received.chat_id)
        return self._id_owners.get(id_key(received.message.get("id")))

    def deliver(self, received: ReceivedMessage) -> bytes:
        """Deliver a message of the server; return the bytes that answer it, if any."""
        for session in tuple(self.sessions):
            owner = self.owner(received)
            if owner is None or owner is session:
                session.messages.append(received)
            if owner is session and not received.method:
                result = received.message.get("result")
                chat_id = result.get("chatId") if isinstance(result, Mapping) else None
                if isinstance(chat_id, str) and chat_id:
                    self.claim_chat(chat_id, session)
        return self._reply(received) if received.method and "id" in received.message else b""

    def _reply(self, request: ReceivedMessage) -> bytes:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request.message["id"]}
        if request.method not in self.replies:
            answer["error"] = {"code": -32601, "message": "Method not found"}
            return self._encode(json.dumps(answer))
        result = self.replies[request.method]
        if callable(result):
            result = result(request.params)
        return b"" if result is None else self._encode(json.dumps({**answer, "result": result}))
