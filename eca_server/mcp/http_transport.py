"""What both transports over HTTP share: messages in, one task for each message out, an end.

The rules it keeps: sending never waits for an answer; a request that is not answered ends with an
error that says why, or with the stream; what a server sends faster than it is read waits in its
socket; `aclose` is bounded.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
import trio

from eca_protocol import json
from eca_protocol.errors import INTERNAL_ERROR, HTTPError, InvalidJSON, RemoteProtocolError
from eca_protocol.framing import Framing
from eca_protocol.http import HTTPResponse
from eca_protocol.outbox import WriteShape
from eca_protocol.sse import SSEDecoder
from eca_server.mcp.eras import Era
from eca_server.mcp.faults import MCPFault
from eca_server.mcp.http_endpoint import HTTPEndpoint, Refusal
from eca_server.mcp.server_log import ServerLog
from eca_server.mcp.transport import BODIES

__all__ = [
    "MAX_MESSAGE",
    "HTTPTransport",
    "NotStreamable",
    "Outgoing",
    "Place",
    "Waits",
    "is_events",
    "read_events",
]

Id = int | str

MAX_MESSAGE: Final = 64 * 2**20
"""Bytes of one message from a server."""

_INBOX: Final = 16  # messages that were received and not read
_NOTICES: Final = 16  # notifications and answers of ours that are under way


@attrs.frozen(kw_only=True)
class Waits:
    """How long is waited for what, in seconds."""

    notice: float = 30.0
    """For a notification or an answer of ours to be taken."""
    headers: float = 10.0
    """For the optional stream of what a server says unasked to begin."""
    idle: float = 300.0
    """Between two signs of life of an answer that is a stream."""
    linger: float = 1.0
    """For a stream to end by itself after its answer, so that the connection can be kept."""
    reconnect: float = 1.0
    """Before a stream is taken up again, unless the server says how long."""
    longest_reconnect: float = 30.0
    retry: tuple[float, ...] = (1.0, 2.0)
    """Before each further try of what was not sent, or may be asked twice."""
    close: float = 1.0
    """For the farewell."""


class NotStreamable(MCPFault):
    """The first message was refused as a server of the older transport refuses it."""


@attrs.frozen(kw_only=True)
class Outgoing:
    """One message of ours."""

    body: bytes
    method: str
    id: Id | None
    params: Mapping[str, Any]

    @classmethod
    def read(cls, body: bytes) -> Outgoing:
        """What the peer wrote."""
        value = json.loads(body)
        method = value.get("method", "")
        return cls(
            body=body,
            method=method,
            id=value.get("id") if method else None,
            params=value.get("params") or {},
        )


class HTTPTransport(ABC):
    """A transport whose messages are bodies; the two kinds say how one of them travels.

    Attributes:
        endpoint: where messages go.
    """

    framing: Framing = BODIES

    def __init__(self, endpoint: HTTPEndpoint, log: ServerLog, waits: Waits | None = None) -> None:
        self.endpoint = endpoint
        self.shape = WriteShape(size=1, send_now=self._send_now)
        self._log = log
        self._waits = waits or Waits()
        self._era: Era | None = None
        self._arrived, self._inbox = trio.open_memory_channel[bytes](_INBOX)
        self._requests: dict[Id, trio.CancelScope] = {}
        self._notices = trio.Semaphore(_NOTICES)
        self._notices_under_way = 0
        self._quiet = trio.Event()
        self._fault: MCPFault | None = None
        self._running = trio.CancelScope(shield=True)
        self._has_nursery = trio.Event()
        self._nursery: trio.Nursery
        self._closing = False

    def agree(self, era: Era) -> None:
        """Hear which revision is spoken from now on."""
        self._era = era

    async def receive(self) -> bytes:
        """The next message; `b""` once there will be none."""
        try:
            return await self._inbox.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            return b""

    async def send(self, data: bytes) -> None:
        """Let one message go; what comes of it comes back as a message."""
        await self._has_nursery.wait()
        message = Outgoing.read(data)
        if message.id is not None:
            self._start(message, message.id)
            return
        await self._notices.acquire()
        self._notices_under_way += 1
        if message.method == "notifications/initialized":
            await self._run_notice(message)  # nothing may overtake it
        else:
            self._nursery.start_soon(self._run_notice, message)

    def _send_now(self, data: bytes) -> int:
        """Let a request go without a switch of tasks; what is none waits for its turn."""
        if self._has_nursery.is_set() and not self._closing:
            message = Outgoing.read(data)
            if message.id is not None:
                self._start(message, message.id)
                return len(data)
        return 0

    def _start(self, message: Outgoing, request: Id) -> None:
        scope = self._requests[request] = trio.CancelScope()
        self._nursery.start_soon(self._run_request, message, request, scope)

    async def run(self) -> None:
        """Carry messages until `aclose`."""
        with self._running:
            async with trio.open_nursery() as self._nursery:
                self._has_nursery.set()
                await self._work()
                await trio.sleep_forever()

    async def fault(self) -> MCPFault | None:
        """Why the stream has ended."""
        return self._fault

    async def aclose(self) -> None:
        """Let the last notifications go, say farewell, and end what runs; within a second."""
        if self._closing:
            return
        self._closing = True
        with trio.move_on_after(self._waits.close):
            while self._notices_under_way and self._fault is None:
                self._quiet = trio.Event()
                await self._quiet.wait()
            await self._bid_farewell()
        self._running.cancel()
        self._inbox.close()

    async def _work(self) -> None:  # noqa: B027 - not every transport has some
        """What goes on beside the messages; raises nothing."""

    @abstractmethod
    async def _request(self, message: Outgoing) -> None:
        """See that a request is answered; raises MCPFault if it cannot be."""

    @abstractmethod
    async def _notify(self, message: Outgoing) -> None:
        """Send what has no answer; raises HTTPError and MCPFault."""

    async def _bid_farewell(self) -> None:  # noqa: B027 - not every server expects one
        """Tell the server that we leave."""

    async def _run_request(self, message: Outgoing, request: Id, scope: trio.CancelScope) -> None:
        with scope:
            try:
                await self._request(message)
            except MCPFault as fault:
                if message.method == "initialize":
                    self._end(fault)
                await self._fail(message, fault.message)
            finally:
                self._requests.pop(request, None)

    async def _run_notice(self, message: Outgoing) -> None:
        try:
            await self._notify(message)
        except (HTTPError, MCPFault) as fault:
            self._log.note(f"{message.method or 'an answer'} was not taken: {fault}")
        finally:
            self._notices.release()
            self._notices_under_way -= 1
            if not self._notices_under_way:
                self._quiet.set()

    def _end(self, fault: MCPFault) -> None:
        """There will be no more messages; the first reason counts."""
        self._fault = self._fault or fault
        self._arrived.close()

    async def _deliver(self, text: bytes) -> None:
        """Pass a message on; the stream of a request that it answers ends soon."""
        if not text.strip():
            return
        try:
            value = json.loads(text)
        except InvalidJSON:
            value = None  # the session makes of it what can be made
        await self._pass_on(text)
        for message in value if isinstance(value, list) else [value]:
            if isinstance(message, dict) and "method" not in message:
                self._has_answer(message.get("id"))

    async def _pass_on(self, text: bytes) -> None:
        with contextlib.suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            try:
                self._arrived.send_nowait(text)  # `send` gives way to other tasks each time
            except trio.WouldBlock:
                await self._arrived.send(text)

    def _has_answer(self, answered: Any) -> None:
        """A request has its answer, on whatever stream that came."""
        for own, scope in self._requests.items():
            if answered in (own, str(own)):
                del self._requests[own]
                scope.deadline = trio.current_time() + self._waits.linger
                return

    async def _fail(self, message: Outgoing, why: str) -> None:
        """Answer a request in the server's place."""
        await self._answer_with_error(message, {"code": INTERNAL_ERROR, "message": why})

    async def _refuse(self, message: Outgoing, refusal: Refusal) -> None:
        """Answer a request with what the server refused it for."""
        words = refusal.text if refusal.error else ""
        error = {"code": INTERNAL_ERROR, **(refusal.error or {})}
        error["message"] = words or f"the server answered with {refusal}"
        await self._answer_with_error(message, error)

    async def _answer_with_error(self, message: Outgoing, error: Mapping[str, Any]) -> None:
        if self._requests.pop(message.id or 0, None) is not None:
            answer = {"jsonrpc": "2.0", "id": message.id, "error": dict(error)}
            await self._pass_on(json.dumps(answer))

    async def _must_log_in(self, refusal: Refusal) -> bool:
        """End everything where the server wants to know who we are."""
        fault = await self.endpoint.login_fault(refusal)
        if fault is not None:
            self._end(fault)
        return fault is not None


@attrs.define
class Place:
    """Where a stream of events stands, through all the connections that carry it.

    Attributes:
        event_id: of the last event that had one; what a further connection takes up from. None:
            there is none, or none that a header can hold.
        retry: seconds before a further connection, if the server told.
        events: how many messages were received.
    """

    event_id: str | None = None
    retry: float | None = None
    events: int = 0

    def follow(self, decoder: SSEDecoder) -> None:
        """Take over how far a connection has come."""
        found = decoder.last_event_id
        if found is not None:
            is_sendable = found != "" and found.isascii() and found.isprintable()
            self.event_id = found if is_sendable else None
        if decoder.retry is not None:
            self.retry = decoder.retry / 1000


async def read_events(
    body: AsyncIterator[bytes],
    place: Place,
    deliver: Callable[[bytes], Awaitable[None]],
) -> None:
    """Deliver the messages of a stream of events, to its end; half an event is none.

    Raises:
        HTTPError: the connection broke, or an event is beyond the limit.
    """
    decoder = SSEDecoder(max_event=MAX_MESSAGE)
    async for chunk in body:
        try:
            events = decoder.feed(chunk)
        except RemoteProtocolError as fault:
            raise HTTPError("protocol", str(fault)) from fault
        place.follow(decoder)
        for event in events:
            if event.event == "message" and event.data:
                place.events += 1
                await deliver(event.data.encode())


def is_events(response: HTTPResponse) -> bool:
    """Whether an answer is a stream of events, by its headers alone."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return response.status == 200 and kind == "text/event-stream"
