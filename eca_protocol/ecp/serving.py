"""Serving an agent over standard input and output, or over HTTP.

`serve_stdio` and `serve_http` block, as the last line of a script. `run_stdio` and `serving_http`
are for programs that run an event loop already (trio or asyncio).
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio

from eca_protocol.ecp.authoring import active_threads, as_agent
from eca_protocol.ecp.conversation import Conversation
from eca_protocol.ecp.methods import ECP, ECP_CODEC, ECP_DIALECT
from eca_protocol.framing import LINES
from eca_protocol.message_transport import StreamTransport
from eca_protocol.peer import Peer
from eca_protocol.streams import FdTransport, Transport, owned_stdio

if TYPE_CHECKING:
    from eca_protocol.http_server import HTTPServer, ServerLimits

KEEP_ALIVE: Final = 15.0
"""Seconds between two comments during a long step."""

Backend = Literal["asyncio", "trio"]


async def run_conversation(agent: Any, transport: Transport) -> None:
    """Serve one conversation over a byte stream of lines until the stream ends."""
    conversation = Conversation(as_agent(agent))
    async with Peer(
        StreamTransport(transport, framing=LINES, duplicate_keys="refuse"),
        side="server",
        table=ECP,
        codec=ECP_CODEC,
        handlers=conversation.handlers,
        dialect=ECP_DIALECT,
    ) as peer:
        await peer.serve()


async def run_stdio(agent: Any) -> None:
    """Serve an agent (see `as_agent`) on the standard streams until standard input ends.

    Meanwhile printed text goes to standard error.

    Raises:
        TypeError: `agent` cannot be made an agent.
        StartFailed: a standard stream is closed.
    """
    served_agent = as_agent(agent)
    with owned_stdio() as (read_fd, write_fd):
        await run_conversation(served_agent, FdTransport(read_fd, write_fd))


def serve_stdio(agent: Any, *, backend: Backend = "asyncio") -> None:
    """Block until standard input ends or Ctrl-C; see `run_stdio`.

    A synchronous hook that is still running cannot be cancelled: the process exits at once.
    """
    _run(functools.partial(run_stdio, agent), backend)


@asynccontextmanager
async def serving_http(
    agent: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    path: str = "/ecp",
    allowed_origins: Collection[str] | None = None,
    allowed_hosts: Collection[str] | None = None,
    limits: ServerLimits | None = None,
    keep_alive: float = KEEP_ALIVE,
) -> AsyncIterator[HTTPServer]:
    """Serve an agent (see `as_agent`) over HTTP while the block runs.

    Args:
        agent: the function, class, object or `Agent` to serve.
        host: the address to listen on; loopback by default.
        port: 0 takes a free one; the server's `url` contains it.
        path: the path of the endpoint.
        allowed_origins: origins of browser pages that may call; by default only the server's own.
        allowed_hosts: names accepted in the `Host` header; by default those of loopback, and
            `host`.
        limits: sizes, times, connections.
        keep_alive: seconds between two comments during a long step.

    Raises:
        TypeError: `agent` cannot be made an agent.
        OSError: the address cannot be listened on.
    """
    from eca_protocol import http_server  # noqa: PLC0415 - HTTP only if used
    from eca_protocol.ecp.http_endpoint import AgentEndpoint  # noqa: PLC0415 - as above

    hosts = http_server.LOOPBACK_NAMES | {host} if allowed_hosts is None else allowed_hosts
    endpoint = AgentEndpoint(
        as_agent(agent), path=path, origins=allowed_origins, keep_alive=keep_alive
    )
    async with http_server.serve(
        endpoint.handle,
        host=host,
        port=port,
        limits=limits or http_server.ServerLimits(max_body=16 * 2**20, max_connections=128),
        allowed_hosts=hosts,
    ) as server:
        endpoint.port = server.port
        yield server


def serve_http(
    agent: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    path: str = "/ecp",
    allowed_origins: Collection[str] | None = None,
    backend: Backend = "asyncio",
) -> None:
    """Block until Ctrl-C, after printing the URL on stderr; see `serving_http`.

    A synchronous hook that is still running cannot be cancelled: the process exits at once.
    """

    async def run() -> None:
        async with serving_http(
            agent, host=host, port=port, path=path, allowed_origins=allowed_origins
        ) as server:
            sys.stderr.write(f"{server.url}{path}\n")
            sys.stderr.flush()
            await anyio.sleep_forever()

    _run(run, backend)


def _run(serve: Callable[[], Awaitable[None]], backend: Backend) -> None:
    is_ours = os.name != "nt" and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        run = functools.partial(_until_interrupted, serve) if is_ours else serve
        anyio.run(run, backend=backend)
    except* KeyboardInterrupt:
        pass
    if active_threads:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(0)


async def _until_interrupted(serve: Callable[[], Awaitable[None]]) -> None:
    """Serve until the end or Ctrl-C.

    asyncio's own handler may miss a Ctrl-C that arrives just before it waits.
    """
    fault: Exception | None = None
    with anyio.open_signal_receiver(signal.SIGINT) as interrupts:
        async with anyio.create_task_group() as tasks:

            async def end() -> None:
                async for _ in interrupts:
                    tasks.cancel_scope.cancel()

            tasks.start_soon(end)
            try:
                await serve()
            except Exception as raised:  # noqa: BLE001 - raised again below, outside the group
                fault = raised
            tasks.cancel_scope.cancel()
    if fault is not None:
        raise fault
