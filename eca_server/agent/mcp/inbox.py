"""The received messages of an HTTP transport, and its requests that wait for an answer.

Rules: an unanswered request ends with an error and its reason, or with the stream; a message is
dispatched by the task that has received it, so that the next ones wait in the socket.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs
import trio

from eca_protocol import json
from eca_protocol.errors import INTERNAL_ERROR
from eca_protocol.message_transport import Reader
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.http_endpoint import Refusal

Id: TypeAlias = int | str
Message: TypeAlias = Mapping[str, Any]

_IN_A_ROW: Final = 16  # events


@attrs.frozen
class Outgoing:
    """One message of ours, and its body."""

    message: Message
    body: bytes = attrs.field(init=False)

    @body.default
    def _body(self) -> bytes:
        return json.dumps(self.message)

    @property
    def method(self) -> str:
        """The method; empty for an answer."""
        return str(self.message.get("method", ""))

    @property
    def id(self) -> Id | None:
        """The id of a request; None for other messages."""
        return self.message.get("id") if "method" in self.message else None

    @property
    def params(self) -> Mapping[str, Any]:
        """The params of a request or notification."""
        return self.message.get("params") or {}

    @property
    def cancelled(self) -> Id:
        """The id of the request that a `notifications/cancelled` cancels."""
        request: Id = self.params.get("requestId", "")
        return request


class Inbox:
    """The received messages and the requests that wait for an answer.

    Args:
        linger: seconds for a stream to end by itself after its answer, so that the connection can
            be reused.
        accept: called with the messages of a body or event; returns those for the session.
        ready: awaited before received messages are passed on.

    Attributes:
        reader: reads the messages of each received body and event.
        take: dispatches messages for the session.
        end: the reason of the stream's end; None before it.
    """

    reader: Reader
    take: Callable[[list[Message]], object]

    def __init__(
        self,
        *,
        linger: float,
        accept: Callable[[list[Message]], list[Message]],
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self.end: MCPError | None = None
        self._linger = linger
        self._accept = accept
        self._ready = ready
        self._has_ended = trio.Event()
        self._events = 0
        self._requests: dict[Id, trio.CancelScope] = {}

    async def wait_ended(self) -> None:
        """Wait until no more messages will be passed on."""
        await self._has_ended.wait()

    def close(self) -> None:
        """Drop all later messages."""
        self._has_ended.set()

    def finish(self, error: MCPError) -> None:
        """End the stream of messages; the first reason is stored."""
        self.end = self.end or error
        self._has_ended.set()

    def expect(self, request: Id) -> trio.CancelScope:
        """Wait for the answer to a request; return a scope that ends soon after the answer."""
        scope = self._requests[request] = trio.CancelScope()
        return scope

    def forget(self, request: Id) -> None:
        """Stop waiting for the answer to a request."""
        self._requests.pop(request, None)

    def waits_for(self, request: Id | None) -> bool:
        """Return whether a request is unanswered."""
        return request in self._requests

    def cancel(self, request: Id) -> None:
        """End the scope of a request, if it is unanswered."""
        scope = self._requests.get(request)
        if scope is not None:
            scope.cancel()

    def read(self, text: bytes) -> list[Message]:
        """Parse a body or an event."""
        return list(self.reader([text])) if text.strip() else []

    async def deliver(self, text: bytes) -> None:
        """Pass the messages of an event on; other tasks get their turn in a flood of events."""
        await self.deliver_all(self.read(text))
        self._events += 1
        if self._events % _IN_A_ROW == 0:
            await trio.lowlevel.checkpoint()

    async def deliver_all(self, messages: list[Message], ended: Id | None = None) -> None:
        """Pass messages on, and limit the time of the streams whose requests they answer.

        `ended`: the request whose response was read to its end, and needs no limit.
        """
        await self._ready()
        self.pass_on(messages)
        for message in messages:
            if "method" not in message:
                self._has_answer(message.get("id"), ended)

    def pass_on(self, messages: list[Message]) -> None:
        """Pass messages on to the session, unless the stream has ended."""
        accepted = self._accept(messages)
        if not self._has_ended.is_set():
            self.take(accepted)

    def _has_answer(self, answered: Any, ended: Id | None) -> None:
        """Note that a request is answered, on any stream."""
        for own, scope in self._requests.items():
            if answered in (own, str(own)):
                del self._requests[own]
                if own != ended:
                    scope.deadline = trio.current_time() + self._linger
                return

    def fail(self, message: Outgoing, why: str) -> None:
        """Answer a request with an error of ours, if it is unanswered."""
        self._answer_with_error(message, {"code": INTERNAL_ERROR, "message": why})

    def refuse(self, message: Outgoing, refusal: Refusal) -> None:
        """Answer a request with the server's refusal, if it is unanswered."""
        text = refusal.text if refusal.error else ""
        error = {"code": INTERNAL_ERROR, **(refusal.error or {})}
        error["message"] = text or f"the server answered with {refusal}"
        self._answer_with_error(message, error)

    def _answer_with_error(self, message: Outgoing, error: Mapping[str, Any]) -> None:
        if self._requests.pop(message.id or 0, None) is not None:
            self.pass_on([{"jsonrpc": "2.0", "id": message.id, "error": dict(error)}])
