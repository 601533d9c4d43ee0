"""Servers of the oldest transport over HTTP: one stream of events, and a URL for messages.

The stream's first event names the URL, which must be of the same origin (MCP 2024-11-05, HTTP
with SSE). All answers come on the stream; when it ends, the conversation has ended.
"""

from __future__ import annotations

import math
from typing import Final

import trio

from eca_protocol.errors import HTTPError, RemoteProtocolError
from eca_protocol.http import Deadlines, HTTPResponse
from eca_protocol.sse import SSEDecoder
from eca_server.mcp.faults import MCPFault
from eca_server.mcp.http_endpoint import HTTPEndpoint
from eca_server.mcp.http_transport import (
    MAX_MESSAGE,
    HTTPTransport,
    Outgoing,
    Waits,
    is_events,
)
from eca_server.mcp.retrying import may_come_twice
from eca_server.mcp.server_log import ServerLog

__all__ = ["LegacySSE"]

_SUCCESS: Final = range(200, 300)


class LegacySSE(HTTPTransport):
    """A server that answers on one stream."""

    def __init__(self, endpoint: HTTPEndpoint, log: ServerLog, waits: Waits | None = None) -> None:
        super().__init__(endpoint, log, waits)
        self._messages: HTTPEndpoint | None = None
        self._found = trio.Event()

    async def _work(self) -> None:
        limits = Deadlines(first_byte=self._waits.headers, idle=math.inf)
        headers = {"accept": "text/event-stream"}
        try:
            async with self.endpoint.ask("GET", headers=headers, deadlines=limits) as response:
                if is_events(response):
                    await self._read(response)
                    self._end(MCPFault("its stream has ended", kind="closed"))
                    return
                refusal = await self.endpoint.refusal(response)
                if not await self._must_log_in(refusal):
                    self._end(MCPFault(f"it has no stream of events: {refusal}", kind="start"))
        except HTTPError as fault:
            if self._messages is None:
                self._end(MCPFault(f"it cannot be reached: {fault}", kind="start"))
            else:
                self._end(MCPFault(f"its stream was lost: {fault}", kind="closed"))
        except (MCPFault, RemoteProtocolError) as fault:
            self._end(MCPFault(str(fault)))

    async def _read(self, response: HTTPResponse) -> None:
        decoder = SSEDecoder(max_event=MAX_MESSAGE)
        async for chunk in response.chunks():
            for event in decoder.feed(chunk):
                if event.event == "message":
                    await self._deliver(event.data.encode())
                elif event.event == "endpoint" and self._messages is None:
                    self._messages = self.endpoint.at(event.data.strip())
                    self._found.set()

    async def _request(self, message: Outgoing) -> None:
        try:
            await self._notify(message)
        except HTTPError as fault:
            if fault.kind == "timeout":
                await self._fail(message, f"the server does not take messages: {fault}")
            elif fault.kind == "broken":
                await self._fail(message, f"it was lost on its way, and may have run: {fault}")
            else:
                self._end(MCPFault(f"it cannot be reached: {fault}", kind="closed"))
        else:
            await trio.sleep_forever()  # until the answer has come, or nobody waits for it

    async def _notify(self, message: Outgoing) -> None:
        await self._found.wait()
        assert self._messages is not None
        headers = {"content-type": "application/json", "accept": "application/json"}
        if self._era is not None:
            headers |= self._era.headers(message.method, message.params)
        seconds = self._waits.notice
        try:
            async with self._messages.ask(
                "POST",
                headers=headers,
                content=message.body,
                deadlines=Deadlines(first_byte=seconds, idle=seconds),
                resend=may_come_twice(message.method),
            ) as response:
                if response.status not in _SUCCESS:
                    refusal = await self._messages.refusal(response)
                    await self._must_log_in(refusal)
                    raise MCPFault(f"the server answered with {refusal}", kind="refused")
        finally:
            self._leave(message)

    def _leave(self, message: Outgoing) -> None:
        """Wait no longer for a request that is cancelled."""
        if message.method == "notifications/cancelled":
            scope = self._requests.get(message.params.get("requestId", ""))
            if scope is not None:
                scope.cancel()
