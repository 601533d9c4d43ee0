"""The base of both HTTP transports: the queue of our messages, a task for each, retries.

Rules: sending never waits for an answer; `aclose` is bounded. An `Inbox` has the received messages.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
import trio

from eca_protocol.errors import HTTPError, RemoteProtocolError
from eca_protocol.http import Deadlines, HTTPResponse
from eca_protocol.message_transport import Reader
from eca_protocol.sse import SSEDecoder
from eca_server.agent.mcp.eras import Era
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.http_endpoint import HTTPEndpoint, Refusal
from eca_server.agent.mcp.inbox import Id, Inbox, Message, Outgoing
from eca_server.agent.mcp.server_log import ServerLog

MAX_MESSAGE: Final = 64 * 2**20
"""Maximum size of a message from a server, in bytes."""

SUCCESS: Final = range(200, 300)
_LISTS: Final = frozenset(
    {
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "server/discover",
    }
)
_BUSY: Final = frozenset({429, 503})
_PATIENCE: Final = 10.0  # the longest accepted `Retry-After`, in seconds
_NOTICES: Final = 16  # our notifications and answers in flight

_CLOGGED: Final = 16 * 2**20
"""The size of the unsent messages above which no messages are received, in bytes."""

_OVERHEAD: Final = 1024  # bytes that an unsent message needs besides its body


@attrs.frozen(kw_only=True)
class Timeouts:
    """The time limits of an HTTP transport, in seconds."""

    notice: float = 30.0
    """For the server to accept our notification or answer."""
    headers: float = 10.0
    """For the start of the optional stream of server messages."""
    idle: float = 300.0
    """Between two chunks of a streamed answer."""
    linger: float = 1.0
    """For a stream to end by itself after its answer, so that the connection can be reused."""
    reconnect: float = 1.0
    """Before a stream is resumed, unless the server names a delay."""
    longest_reconnect: float = 30.0
    retry: tuple[float, ...] = (1.0, 2.0)
    """Before each retry of a request that was not sent, or may be repeated."""
    close: float = 1.0
    """For `aclose`."""

    def reconnect_floor(self, empty: int) -> float:
        """Return the least time between two connections to one stream, whatever the server names.

        It doubles with each connection in a row that had no message, up to a quarter of the usual.
        """
        return self.reconnect / (64 >> min(empty, 4))


class NotStreamable(MCPError):
    """A refusal of the first message that is typical of a server with the older transport."""


class HTTPTransport(ABC):
    """A `MessageTransport` whose messages are HTTP bodies; subclasses send them."""

    def __init__(
        self, endpoint: HTTPEndpoint, log: ServerLog, timeouts: Timeouts | None = None
    ) -> None:
        self.endpoint = endpoint
        self._log = log
        self._timeouts = timeouts or Timeouts()
        self._era: Era | None = None
        self._inbox = Inbox(
            linger=self._timeouts.linger, accept=self._accept, ready=self._unclogged
        )
        self._unsent: deque[Outgoing] = deque()
        self._unsent_size = 0
        self._has_unsent = trio.Event()
        self._has_sent = trio.Event()
        self._notices = trio.Semaphore(_NOTICES)
        self._notices_under_way = 0
        self._quiet = trio.Event()
        self._running = trio.CancelScope(shield=True)
        self._nursery: trio.Nursery | None = None
        self._closing = False

    def agree(self, era: Era) -> None:
        """Set the negotiated revision."""
        self._era = era

    def messages(self, read: Reader, take: Callable[[list[Message]], object]) -> HTTPTransport:
        """Return this transport; `read` reads each body and event, `take` gets its messages."""
        self._inbox.reader, self._inbox.take = read, take
        return self

    @property
    def closed(self) -> bool:
        """True if messages are dropped instead of sent."""
        return self._closing

    async def receive(self) -> list[Message]:
        """Wait for the end of the stream; its messages are dispatched when they arrive."""
        await self._inbox.wait_ended()
        return []

    async def _unclogged(self) -> None:
        """Wait while too much is unsent: a server may ask faster than it accepts our answers."""
        while self._unsent_size > _CLOGGED:
            await self._has_sent.wait()

    def send(self, message: Message) -> None:
        """Send a message in the background; its outcome arrives as a message.

        A request is sent at once, other messages wait for their turn, and requests behind them.
        """
        outgoing = Outgoing(message)
        if self._closing:
            return
        self._notices_under_way += outgoing.id is None
        if outgoing.id is not None and self._nursery is not None and not self._unsent:
            self._start(outgoing, outgoing.id)
            return
        self._unsent.append(outgoing)
        self._unsent_size += _size(outgoing)
        self._has_unsent.set()

    async def _send_in_turn(self) -> None:
        """Send the waiting messages; one stays in the queue until the next may be sent."""
        while True:
            while self._unsent:
                await self._send_one(self._unsent[0])
                self._unsent_size -= _size(self._unsent.popleft())
                self._has_sent.set()
                self._has_sent = trio.Event()
            self._has_unsent = trio.Event()
            await self._has_unsent.wait()

    async def _send_one(self, outgoing: Outgoing) -> None:
        if outgoing.id is not None:
            self._start(outgoing, outgoing.id)
            return
        await self._notices.acquire()
        if outgoing.method == "notifications/initialized":
            await self._run_notice(outgoing)  # no other message may overtake it
        else:
            self._start_soon(self._run_notice, outgoing)

    def _start(self, message: Outgoing, request: Id) -> None:
        self._start_soon(self._run_request, message, request, self._inbox.expect(request))

    def _start_soon(self, function: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(function, *arguments)

    async def drain(self, size: int = 0) -> None:  # noqa: B027 - of the protocol
        """Return at once: `aclose` waits until the unsent messages are accepted."""

    async def run(self) -> None:
        """Send and receive messages until `aclose`."""
        with self._running:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._send_in_turn)
                await self._work()
                await trio.sleep_forever()

    async def error(self) -> MCPError | None:
        """Return the reason of the stream's end."""
        return self._inbox.end

    async def aclose(self) -> None:
        """Send the last notifications, end the session, and cancel all tasks; within a second."""
        if self._closing:
            return
        self._closing = True
        with trio.move_on_after(self._timeouts.close):
            while self._notices_under_way and self._nursery is not None and self._inbox.end is None:
                self._quiet = trio.Event()
                await self._quiet.wait()
            await self._end_session()
        self._running.cancel()
        self._inbox.close()

    async def _work(self) -> None:  # noqa: B027 - not every transport has some
        """Do background work; raise nothing."""

    @abstractmethod
    async def _request(self, message: Outgoing) -> None:
        """Send a request and deliver its answer; raise MCPError if this is impossible."""

    @abstractmethod
    async def _notify(self, message: Outgoing) -> None:
        """Send a message without an answer; raise HTTPError and MCPError."""

    async def _post_to(
        self, endpoint: HTTPEndpoint, message: Outgoing, headers: Mapping[str, str]
    ) -> None:
        """Send a message whose response has no answer; raise HTTPError and MCPError."""
        seconds = self._timeouts.notice
        async with endpoint.ask(
            "POST",
            headers=headers,
            content=message.body,
            deadlines=Deadlines(first_byte=seconds, idle=seconds),
            resend=may_be_resent(message.method),
        ) as response:
            if response.status not in SUCCESS:
                refusal = await endpoint.refusal(response)
                await self._must_log_in(refusal)
                raise MCPError(f"the server answered with {refusal}", kind="refused")
            if "content-length" in response.headers:
                await response.read_excerpt()  # closing may cancel what the server has accepted

    async def _end_session(self) -> None:  # noqa: B027 - not every server expects one
        """Notify the server of the end of the session."""

    async def _run_request(self, message: Outgoing, request: Id, scope: trio.CancelScope) -> None:
        with scope:
            try:
                await self._request(message)
            except MCPError as error:
                if message.method == "initialize":
                    self._inbox.finish(error)
                self._inbox.fail(message, error.message)
            finally:
                self._inbox.forget(request)

    async def _run_notice(self, message: Outgoing) -> None:
        try:
            await self._notify(message)
        except (HTTPError, MCPError) as error:
            self._log.note(f"{message.method or 'an answer'} was not accepted: {error}")
        finally:
            self._notices.release()
            self._notices_under_way -= 1
            if not self._notices_under_way:
                self._quiet.set()

    def _accept(self, messages: list[Message]) -> list[Message]:
        """Return the received messages that are for the session."""
        return messages

    async def _must_log_in(self, refusal: Refusal) -> bool:
        """End the stream if a refusal requires a login; return whether it does."""
        error = await self.endpoint.login_fault(refusal)
        if error is not None:
            self._inbox.finish(error)
        return error is not None


def _size(message: Outgoing) -> int:
    return len(message.body) + _OVERHEAD


@attrs.define
class StreamPosition:
    """The position in a stream of events, over all its connections.

    Attributes:
        event_id: the last event id, from which a new connection resumes. None: there is none, or
            none that a header can hold.
        retry: seconds before a new connection, if the server names them.
        events: number of received messages.
    """

    event_id: str | None = None
    retry: float | None = None
    events: int = 0

    def follow(self, decoder: SSEDecoder) -> None:
        """Update the position from a connection's decoder."""
        event_id = decoder.last_event_id
        if event_id is not None:
            is_sendable = event_id != "" and event_id.isascii() and event_id.isprintable()
            self.event_id = event_id if is_sendable else None
        if decoder.retry is not None:
            self.retry = decoder.retry / 1000


async def read_events(
    body: AsyncIterator[bytes],
    position: StreamPosition,
    deliver: Callable[[bytes], Awaitable[None]],
    *,
    start: bytes = b"",
) -> None:
    """Deliver the messages of a stream of events to its end; ignore an incomplete event.

    `start` is the part of the stream that was read already.

    Raises:
        HTTPError: the connection broke, or an event is beyond the limit.
    """
    decoder = SSEDecoder(max_event=MAX_MESSAGE)
    chunk: bytes | None = start
    while chunk is not None:
        try:
            events = decoder.feed(chunk)
        except RemoteProtocolError as error:
            raise HTTPError("protocol", str(error)) from error
        position.follow(decoder)
        for event in events:
            if event.event == "message" and event.data:
                position.events += 1
                await deliver(event.data.encode())
        chunk = await anext(body, None)


def is_events(response: HTTPResponse) -> bool:
    """Return whether a response is a stream of events, by its headers."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return response.status == 200 and kind == "text/event-stream"


def may_become_reachable(error: HTTPError) -> bool:
    """Return whether a later attempt may reach the server, on this network or a different one.

    A network that requires a login shows certificates of its own.
    """
    return error.never_connected or error.kind in ("tls", "proxy")


def may_be_resent(method: str) -> bool:
    """Return whether a message may reach the server twice: it does not run a tool."""
    return method != "tools/call"


def pause_before_retry(
    outcome: Refusal | HTTPError, method: str, wait: float | None
) -> float | None:
    """Return the seconds until a request may be sent again; None: it may not.

    Args:
        outcome: the refusal or the error in place of an answer.
        method: the method of the request.
        wait: the default pause in seconds; None: no retries are left.
    """
    if wait is None:
        return None
    if isinstance(outcome, HTTPError):
        is_safe = outcome.never_connected or (method in _LISTS and outcome.kind == "broken")
        return wait if is_safe else None
    if outcome.status in _BUSY and outcome.retry_after is not None:
        return outcome.retry_after if outcome.retry_after <= _PATIENCE else None
    if method in _LISTS and outcome.status >= 500:
        return wait * random.uniform(0.5, 1.0)
    return None
