"""The transport over HTTP with a POST per message (MCP "Streamable HTTP", 2025-03-26 and later).

Rules: a request owns the stream of its answer, though the answer may arrive on any stream; a broken
stream is resumed at its position, or its request fails with a note that it may have run; only lists
and requests that were refused or never sent are repeated. A request on a reused connection that is
broken counts as never sent, except a tool call. A session that the server has forgotten is opened
again once, for all requests at the same time.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator
from typing import Any, Final

import trio

from eca_protocol.errors import HTTPError
from eca_protocol.http import Deadlines, HTTPResponse
from eca_server.agent.mcp.errors import MCPError, MCPErrorKind
from eca_server.agent.mcp.http_endpoint import BodyKind, HTTPEndpoint, Refusal, body_kind
from eca_server.agent.mcp.http_transport import (
    MAX_MESSAGE,
    SUCCESS,
    HTTPTransport,
    NotStreamable,
    StreamPosition,
    Timeouts,
    is_events,
    may_be_resent,
    may_become_reachable,
    pause_before_retry,
    read_events,
)
from eca_server.agent.mcp.inbox import Message, Outgoing
from eca_server.agent.mcp.parameter_headers import ParameterHeaders
from eca_server.agent.mcp.server_log import ServerLog

_ACCEPTED: Final = "application/json, text/event-stream"
_EVENTS: Final = {"accept": "text/event-stream"}
_LISTEN: Final = "subscriptions/listen"
_NEVER_SENT: Final = frozenset({"tls", "proxy", "config", "resources"})
_GONE: Final = frozenset({404, 410})
_PERHAPS_GONE: Final = frozenset({400, 409})
_OLDER: Final = frozenset({400, 404, 405})
_RESUMPTIONS: Final = 5  # consecutive connections without an event
_TELLING: Final = 64  # bytes of a body that show its kind without a media type
_RENEWAL: Final = "initialize again"  # the id of a request that is hidden from the session


class StreamableHTTP(HTTPTransport):
    """The transport to a server at one URL."""

    def __init__(
        self, endpoint: HTTPEndpoint, log: ServerLog, timeouts: Timeouts | None = None
    ) -> None:
        super().__init__(endpoint, log, timeouts)
        self._session_id: str | None = None
        self._handshake: tuple[Outgoing, Outgoing] | None = None
        self._introduction: Outgoing | None = None
        self._renewal: dict[str, Any] = {}
        self._renewing = trio.Lock()
        self._listening = trio.CancelScope()
        self._parameters = ParameterHeaders()

    async def _notify(self, message: Outgoing) -> None:
        if message.method == "notifications/cancelled":
            await self._cancel(message)
            return
        await self._post_notice(message)
        if message.method == "notifications/initialized" and self._introduction is not None:
            self._handshake = self._introduction, message
            self._start_soon(self._listen)

    async def _cancel(self, message: Outgoing) -> None:
        """Cancel a request by a notification, or in stateless eras by closing its stream."""
        try:
            if self._era is None or self._era.cancels_by_notification:
                await self._post_notice(message)
        finally:
            self._inbox.cancel(message.cancelled)

    async def _post_notice(self, message: Outgoing) -> None:
        await self._post_to(self.endpoint, message, self._headers(message))

    def _headers(self, message: Outgoing) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": _ACCEPTED}
        if message.method == "initialize":
            return headers
        if message.method == "tools/call":
            headers |= self._parameters.of(message.params)
        return headers | self._place_headers(message)

    def _place_headers(self, message: Outgoing | None = None) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self._era is not None:
            method, params = (message.method, message.params) if message else ("", {})
            headers |= self._era.headers(method, params)
        if self._session_id is not None:
            headers["Mcp-Session-Id"] = self._session_id
        return headers

    async def _request(self, message: Outgoing) -> None:
        if message.method == "initialize":
            self._introduction = message
        delays = iter(self._timeouts.retry)
        while (outcome := await self._attempt(message)) is not None:
            pause = pause_before_retry(outcome, message.method, next(delays, None))
            if pause is None:
                await self._give_up(message, outcome)
                return
            await trio.sleep(pause)

    async def _attempt(self, message: Outgoing) -> Refusal | HTTPError | None:
        """Send a request, twice if the session must be renewed; return what failed, or None."""
        session_id = self._session_id
        try:
            refusal = await self._post(message)
            is_over = refusal and self._may_be_forgotten(refusal, message, session_id)
            if is_over and await self._renew(session_id):
                refusal = await self._post(message)
        except HTTPError as error:
            return error
        return refusal

    async def _give_up(self, message: Outgoing, outcome: Refusal | HTTPError) -> None:
        """Report a failure to the request, or to the whole session."""
        opens = message.method == "initialize"
        if isinstance(outcome, HTTPError):
            if opens or outcome.never_connected or outcome.kind in _NEVER_SENT:
                if not opens:
                    self._inbox.fail(message, f"the request was not sent: {outcome}")
                kind: MCPErrorKind = "start"
                if may_become_reachable(outcome):
                    kind = "unreachable" if self._handshake is None else "closed"
                self._inbox.finish(MCPError(f"it cannot be reached: {outcome}", kind=kind))
            else:
                self._inbox.fail(
                    message, f"the answer was lost, the request may have run: {outcome}"
                )
        elif await self._must_log_in(outcome):
            return
        elif outcome.error is not None or not opens:
            self._inbox.refuse(message, outcome)
        elif outcome.status in _OLDER:
            self._inbox.finish(NotStreamable(f"it answers with {outcome}", kind="start"))
        else:
            self._inbox.finish(MCPError(f"it answers with {outcome}", kind="start"))

    async def _post(self, message: Outgoing) -> Refusal | None:
        """Send a request and deliver all messages of its response.

        Raises:
            HTTPError: the response is missing or incomplete.
        """
        position = StreamPosition()
        idle = math.inf if message.method == _LISTEN else self._timeouts.idle
        async with self.endpoint.ask(
            "POST",
            headers=self._headers(message),
            content=message.body,
            deadlines=Deadlines(first_byte=math.inf, idle=idle),
            resend=may_be_resent(message.method),
        ) as response:
            if response.status not in SUCCESS:
                return await self.endpoint.refusal(response)
            if message.method == "initialize":
                self._session_id = _session_id(response)
            if await self._take_body(response, message, position):
                return None
        await self._resume(message, position)
        return None

    async def _take_body(
        self, response: HTTPResponse, message: Outgoing, position: StreamPosition
    ) -> bool:
        """Deliver the messages of a body; return False if a stream ended before the answer."""
        chunks = response.chunks()
        start = b""
        kind: BodyKind = "unknown"
        async for chunk in chunks:
            start += chunk
            kind = body_kind(response, start[:_TELLING])
            if start and (kind != "unknown" or len(start) >= _TELLING):
                break
        if not start:
            raise MCPError(f"the server sent an empty response (status {response.status})")
        match kind:
            case "events":
                try:
                    await read_events(chunks, position, self._inbox.deliver, start=start)
                except HTTPError:
                    if position.event_id is None and self._inbox.waits_for(message.id):
                        raise
                return not self._inbox.waits_for(message.id)
            case "json":
                await self._take_json(start, chunks, message)
            case "page":
                raise MCPError(
                    "the server answered with a web page: check that the URL is that of an MCP "
                    "server, and does not need a login in the browser"
                )
            case "unknown":
                raise MCPError(
                    "the server answered with neither JSON nor events, but "
                    f"{response.headers.get('content-type', 'no content type')!r}"
                )
        return True

    async def _take_json(self, start: bytes, rest: AsyncIterator[bytes], message: Outgoing) -> None:
        whole = bytearray(start)
        async for chunk in rest:
            whole += chunk
            if len(whole) > MAX_MESSAGE:
                raise MCPError(f"the server's answer has more than {MAX_MESSAGE} bytes")
        messages = _addressed(self._inbox.read(bytes(whole)), message)
        await self._inbox.deliver_all(messages, ended=message.id)
        self._inbox.fail(message, "the server's answer was not for this request")

    async def _resume(self, message: Outgoing, position: StreamPosition) -> None:
        """Resume a stream that ended before its answer.

        Raises:
            HTTPError: it cannot be resumed.
        """
        fruitless = empty = 0
        opened = -math.inf
        while self._inbox.waits_for(message.id):
            if position.event_id is None or fruitless == _RESUMPTIONS:
                raise HTTPError("broken", "the stream of the answer ended before it")
            pause = self._timeouts.reconnect if position.retry is None else position.retry
            since_opened = trio.current_time() - opened
            pause = max(pause, self._timeouts.reconnect_floor(empty) - since_opened)
            await trio.sleep(min(pause, self._timeouts.longest_reconnect))
            before, events_before = position.event_id, position.events
            opened = trio.current_time()
            try:
                async with self._open_stream(position) as response:
                    if not is_events(response):
                        refusal = await self.endpoint.refusal(response)
                        raise MCPError(
                            "the answer was lost, the request may have run: its stream cannot be "
                            f"resumed: {refusal}"
                        )
                    await read_events(response.chunks(), position, self._inbox.deliver)
            except HTTPError as error:
                self._log.note(f"a stream was lost: {error}")
            fruitless = 0 if position.event_id != before else fruitless + 1
            empty = 0 if position.events > events_before else empty + 1

    def _open_stream(
        self, position: StreamPosition, deadlines: Deadlines | None = None
    ) -> contextlib.AbstractAsyncContextManager[HTTPResponse]:
        headers = _EVENTS | self._place_headers()
        if position.event_id is not None:
            headers["last-event-id"] = position.event_id
        limits = Deadlines(first_byte=self._timeouts.headers, idle=self._timeouts.idle)
        return self.endpoint.ask("GET", headers=headers, deadlines=deadlines or limits)

    async def _listen(self) -> None:
        """Receive the server's own messages, if it has a stream for them; never fail."""
        position, pause = StreamPosition(), self._timeouts.reconnect
        limits = Deadlines(first_byte=self._timeouts.headers, idle=math.inf)
        with trio.CancelScope() as self._listening:
            while True:
                events_before = position.events
                try:
                    async with self._open_stream(position, limits) as response:
                        if not is_events(response):
                            self._log.note(
                                f"it has no stream of its own messages: status {response.status}"
                            )
                            return
                        await read_events(response.chunks(), position, self._inbox.deliver)
                except MCPError as error:
                    self._log.note(f"it has no stream of its own messages: {error}")
                    return
                except HTTPError as error:
                    self._log.note(f"its stream was lost: {error}")
                    if error.kind == "timeout" and not position.events:
                        return
                fresh = position.events > events_before
                pause = self._timeouts.reconnect if fresh else pause * 1.5
                pause = min(max(pause, position.retry or 0), self._timeouts.longest_reconnect)
                await trio.sleep(pause)

    def _may_be_forgotten(
        self, refusal: Refusal, message: Outgoing, session_id: str | None
    ) -> bool:
        """Return whether a refusal may mean that the server has forgotten the session."""
        if session_id is None or self._handshake is None:
            return False
        is_answer = refusal.error is not None and refusal.answered == message.id
        return refusal.status in _GONE or (refusal.status in _PERHAPS_GONE and not is_answer)

    async def _renew(self, forgotten: str | None) -> bool:
        """Open the session again, unless another request has; return whether there is one."""
        assert self._handshake is not None
        async with self._renewing:
            if self._session_id != forgotten:
                return True
            introduction, initialized = self._handshake
            again = Outgoing({**introduction.message, "id": _RENEWAL})
            self._renewal = {}
            refusal = None
            with self._inbox.expect(_RENEWAL):
                refusal = await self._post(again)
            self._inbox.forget(_RENEWAL)
            revision = self._renewal.get("protocolVersion")
            if refusal is not None or revision is None:
                self._session_id = forgotten
                return False
            if self._era is None or revision != self._era.revision:
                self._inbox.finish(
                    MCPError("its session was lost, and it uses a different revision now")
                )
                return False
            await self._post_notice(initialized)
        self._log.note("it had forgotten the session: a new one was opened")
        self._listening.cancel()
        self._start_soon(self._listen)
        for what in ("tools", "prompts", "resources"):
            method = f"notifications/{what}/list_changed"
            self._inbox.pass_on([{"jsonrpc": "2.0", "method": method}])
        return True

    def _accept(self, messages: list[Message]) -> list[Message]:
        """Return the messages for the session: all except the answer to a renewal."""
        rest = []
        for message in messages:
            if message.get("id") == _RENEWAL and self._inbox.waits_for(_RENEWAL):
                result = message.get("result")
                self._renewal = result if isinstance(result, dict) else {}
            elif self._era is not None and self._era.stateless:
                rest.append(self._parameters.learn(message, self._log.warn_once))
            else:
                rest.append(message)
        return rest

    async def _end_session(self) -> None:
        """End the session at the server, which may ignore it."""
        if self._session_id is None or self._inbox.end is not None:
            return
        seconds = self._timeouts.close
        limits = Deadlines(connect=seconds, first_byte=seconds, idle=seconds)
        try:
            async with self.endpoint.ask(
                "DELETE", headers=self._place_headers(), deadlines=limits
            ) as response:
                self._log.note(f"the session was ended: status {response.status}")
        except (HTTPError, MCPError) as error:
            self._log.note(f"the session could not be ended: {error}")


def _session_id(response: HTTPResponse) -> str | None:
    """Return the id of the session that a response opens; it must be visible ASCII."""
    session_id = response.headers.get("mcp-session-id", "")
    return session_id if session_id and session_id.isascii() and session_id.isprintable() else None


def _addressed(messages: list[Message], request: Outgoing) -> list[Message]:
    """Return the answer to a POST with its request's id, which the server may have changed."""
    if len(messages) != 1 or "method" in messages[0] or messages[0].keys().isdisjoint(_OUTCOMES):
        return messages
    return [{**messages[0], "id": request.id}]


_OUTCOMES: Final = frozenset({"result", "error"})
