"""The oldest HTTP transport: one stream of events, and a URL for messages.

The stream's first event names the URL, which must have the same origin (MCP 2024-11-05, HTTP with
SSE). All answers arrive on the stream; its end is the end of the conversation.
"""

from __future__ import annotations

import math

import trio

from eca_protocol.errors import HTTPError, RemoteProtocolError
from eca_protocol.http import Deadlines, HTTPResponse
from eca_protocol.sse import SSEDecoder
from eca_server.agent.mcp.errors import MCPError, MCPErrorKind
from eca_server.agent.mcp.http_endpoint import HTTPEndpoint
from eca_server.agent.mcp.http_transport import (
    MAX_MESSAGE,
    HTTPTransport,
    Timeouts,
    is_events,
    may_become_reachable,
)
from eca_server.agent.mcp.inbox import Outgoing
from eca_server.agent.mcp.server_log import ServerLog


class LegacySSE(HTTPTransport):
    """A server that answers on one stream."""

    def __init__(
        self, endpoint: HTTPEndpoint, log: ServerLog, timeouts: Timeouts | None = None
    ) -> None:
        super().__init__(endpoint, log, timeouts)
        self._messages: HTTPEndpoint | None = None
        self._endpoint_known = trio.Event()

    async def _work(self) -> None:
        limits = Deadlines(first_byte=self._timeouts.headers, idle=math.inf)
        headers = {"accept": "text/event-stream"}
        try:
            async with self.endpoint.ask("GET", headers=headers, deadlines=limits) as response:
                if is_events(response):
                    await self._read(response)
                    self._inbox.finish(MCPError("its stream has ended", kind="closed"))
                    return
                refusal = await self.endpoint.refusal(response)
                if not await self._must_log_in(refusal):
                    self._inbox.finish(
                        MCPError(f"it offers no stream of events: {refusal}", kind="start")
                    )
        except HTTPError as error:
            if self._messages is None:
                kind: MCPErrorKind = "unreachable" if may_become_reachable(error) else "start"
                self._inbox.finish(MCPError(f"it cannot be reached: {error}", kind=kind))
            else:
                self._inbox.finish(MCPError(f"its stream was lost: {error}", kind="closed"))
        except (MCPError, RemoteProtocolError) as error:
            self._inbox.finish(MCPError(str(error)))

    async def _read(self, response: HTTPResponse) -> None:
        decoder = SSEDecoder(max_event=MAX_MESSAGE)
        async for chunk in response.chunks():
            for event in decoder.feed(chunk):
                if event.event == "message":
                    await self._inbox.deliver(event.data.encode())
                elif event.event == "endpoint" and self._messages is None:
                    self._messages = self.endpoint.at(event.data.strip())
                    self._endpoint_known.set()

    async def _request(self, message: Outgoing) -> None:
        try:
            await self._notify(message)
        except HTTPError as error:
            if error.kind == "timeout":
                self._inbox.fail(message, f"the server does not accept messages: {error}")
            elif error.kind == "broken":
                self._inbox.fail(
                    message, f"the connection broke, and the request may have run: {error}"
                )
            else:
                self._inbox.fail(message, f"the request was not sent: {error}")
                self._inbox.finish(MCPError(f"it cannot be reached: {error}", kind="closed"))
        else:
            await trio.sleep_forever()  # until the answer arrives, or the request is cancelled

    async def _notify(self, message: Outgoing) -> None:
        await self._endpoint_known.wait()
        assert self._messages is not None
        headers = {"content-type": "application/json", "accept": "application/json"}
        if self._era is not None:
            headers |= self._era.headers(message.method, message.params)
        try:
            await self._post_to(self._messages, message, headers)
        finally:
            if message.method == "notifications/cancelled":
                self._inbox.cancel(message.cancelled)
