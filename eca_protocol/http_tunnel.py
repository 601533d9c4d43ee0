"""Tunnels through proxies: the deadline for opening one, and its connection after a failure."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, TypeAlias

import anyio

from eca_protocol.http_errors import connect_timeout

__all__ = ["Trace", "tunnel"]

Trace: TypeAlias = Callable[[str, Mapping[str, Any]], None]
"""A function that is called with the name of each event of httpcore, and its arguments."""


def tunnel(
    proxy: str | None, scheme: str, seconds: float
) -> AbstractAsyncContextManager[Trace | None]:
    """Return the context of a request to a URL of this scheme, which may open a tunnel.

    It yields the function that must be called with each trace event; None: there is no tunnel.
    """
    if proxy is not None and proxy.lower().startswith("socks"):
        return _opened_tunnel("http11.send_request_headers.started", seconds)
    if proxy is not None and scheme == "https":  # the answer to CONNECT is the last
        return _opened_tunnel("http11.receive_response_headers.complete", seconds)
    return nullcontext()


@asynccontextmanager
async def _opened_tunnel(last_event: str, seconds: float) -> AsyncIterator[Trace]:
    """Limit the time that a proxy takes to open a tunnel, and close its connection after a failure.

    httpcore limits only the connection to the proxy, and forgets a half-open SOCKS tunnel.

    Raises:
        HTTPTimeout: the tunnel is not open in time.
    """
    stream: Any = None
    scope = anyio.CancelScope()

    def trace(event: str, info: Mapping[str, Any]) -> None:
        nonlocal stream
        if event.endswith(".connect_tcp.complete"):
            stream = info["return_value"]
            scope.deadline = anyio.current_time() + seconds
        elif event == last_event:
            stream, scope.deadline = None, math.inf

    with scope:
        try:
            yield trace
        finally:
            if stream is not None:
                with anyio.CancelScope(shield=True):
                    await stream.aclose()
    if scope.cancelled_caught:
        raise connect_timeout(seconds)
