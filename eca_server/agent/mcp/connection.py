"""The connection to a configured server: its start, its revision, and its keep-alive.

A handshake is tried first, since every server of today accepts it. A stateless revision is used if
the configuration or the server's refusal names one; a program is restarted for it, since some
programs stick to the first revision. If a URL refuses the first message, the older transport is
tried, unless the transport is configured.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import trio

from eca_protocol.errors import METHOD_NOT_FOUND, RequestFailed
from eca_protocol.http import HTTPClient
from eca_protocol.server.roots import Root
from eca_server.agent.mcp.conversation import ServerTransport
from eca_server.agent.mcp.eras import ERAS, OFFERED, Era, newest_stateless
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.http_endpoint import HTTPEndpoint
from eca_server.agent.mcp.http_transport import NotStreamable, Timeouts
from eca_server.agent.mcp.legacy_sse import LegacySSE
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.session import Session
from eca_server.agent.mcp.stdio import StdioTransport, start_stdio
from eca_server.agent.mcp.streamable_http import StreamableHTTP
from eca_server.config.directories import home_directory
from eca_server.config.mcp_settings import MCPServer

if TYPE_CHECKING:
    from eca_server.agent.mcp.authorization.login import Login

PING_SECONDS: Final = 10.0
"""Time limit for the answer to a ping."""

RETRY_SECONDS: Final = 50.0
"""Time from an unanswered ping to the next one; an abandoned call may end meanwhile."""

_UNSUPPORTED_REVISION: Final = -32022
_WRONG_URL: Final = "is the URL right? That of most servers ends in /mcp or /sse"


class _RevisionRefused(Exception):
    """The server refused the handshake and named a stateless revision."""

    def __init__(self, era: Era) -> None:
        super().__init__(era.revision)
        self.era = era


@contextlib.asynccontextmanager
async def connect(
    settings: MCPServer,
    *,
    environment: Mapping[str, str],
    roots: Callable[[], Sequence[Root]],
    log: ServerLog,
    http: HTTPClient | None = None,
    login: Login | None = None,
    timeouts: Timeouts | None = None,
    start_seconds: float = 60.0,
    keep_alive_seconds: float = 30.0,
) -> AsyncIterator[Session]:
    """Open a session with a server; leaving the block ends the session and the server in seconds.

    Args:
        settings: the configuration of the server.
        environment: the inherited environment of a program.
        roots: returns the workspace roots; a program starts in the first one, else in the home.
        log: the log of the server, which is emptied first.
        http: the client for requests to a `url`; None: a new one.
        login: the login at a `url`.
        timeouts: the time limits of requests to a `url`.
        start_seconds: time limit of the initialization.
        keep_alive_seconds: time between two pings to a server at a `url`.

    Raises:
        MCPError: no session could be opened; the text is the reason.
    """
    log.clear()
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(HTTPClient()) if http is None else http

        begin = partial(
            _begin,
            environment=environment,
            roots=roots,
            log=log,
            http=client,
            login=login,
            timeouts=timeouts,
            start_seconds=start_seconds,
            keep_alive_seconds=keep_alive_seconds,
        )
        era = ERAS.get(settings.protocol, ERAS[OFFERED])
        try:
            session = await stack.enter_async_context(begin(settings, era))
        except _RevisionRefused as refusal:
            session = await stack.enter_async_context(begin(settings, refusal.era, is_last=True))
        except NotStreamable as refusal:
            if settings.type not in (None, "stdio"):
                raise
            try:
                older = begin(attrs.evolve(settings, type="sse"), era)
                session = await stack.enter_async_context(older)
            except MCPError as error:
                if error.kind == "login":
                    raise
                log.note(f"it does not support the older transport either: {error}")
                raise MCPError(f"{refusal}; {_WRONG_URL}", kind="start") from error
        yield session


@contextlib.asynccontextmanager
async def _begin(
    settings: MCPServer,
    era: Era,
    *,
    environment: Mapping[str, str],
    roots: Callable[[], Sequence[Root]],
    log: ServerLog,
    http: HTTPClient,
    login: Login | None,
    timeouts: Timeouts | None,
    start_seconds: float,
    keep_alive_seconds: float,
    is_last: bool = False,
) -> AsyncIterator[Session]:
    """Open a session by one transport, in one era of the protocol."""
    if settings.url is None:
        transport: ServerTransport = _start(settings, environment, roots, log)
        keep_alive_seconds = math.inf
    else:
        endpoint = HTTPEndpoint(settings.url, http=http, headers=settings.headers, login=login)
        kind = LegacySSE if settings.type == "sse" else StreamableHTTP
        transport = kind(endpoint, log, timeouts)
    session = Session(transport, name=log.name, era=era, roots=roots, log=log)
    async with session.peer:
        if isinstance(transport, StdioTransport):
            session.peer.start_soon(transport.watch)
        session.peer.start_soon(session.serve)
        with trio.move_on_after(start_seconds) as timeout:
            try:
                await session.introduce()
            except RequestFailed as refusal:
                is_final = is_last or settings.protocol == "legacy"
                next_era = None if is_final else _stateless_era(refusal)
                if next_era is None or (
                    session.era.stateless and refusal.code != _UNSUPPORTED_REVISION
                ):
                    # An answer that was lost here has no method: the server refused nothing.
                    refused = f"it refused {refusal.method}: " if refusal.method else ""
                    raise MCPError(f"{refused}{refusal.message}") from refusal
                raise _RevisionRefused(next_era) from refusal
        if timeout.cancelled_caught:
            raise MCPError(_silence(settings, start_seconds, log), kind="timeout")
        if not session.era.stateless:
            session.peer.start_soon(partial(keep_alive, session, keep_alive_seconds))
        yield session


async def keep_alive(session: Session, seconds: float) -> None:
    """Ping a server while it is idle, until it does not answer two pings; then end the session.

    A server with a pending call is not checked; any answer means that it is alive.

    Args:
        session: the session.
        seconds: between two pings; `math.inf`: only after an unanswered call.
    """
    while True:
        with trio.move_on_after(seconds):
            await session.suspect.wait()
        session.suspect = trio.Event()
        if not await _is_alive(session):
            await trio.sleep(RETRY_SECONDS)
            if not await _is_alive(session):
                session.give_up(MCPError("it stopped answering", kind="closed"))
                return


async def _is_alive(session: Session) -> bool:
    if session.is_busy:
        return True
    try:
        await session.ping(PING_SECONDS)
    except MCPError as error:
        return error.kind != "timeout" or session.is_busy  # a call may have started meanwhile
    return True


def _start(
    settings: MCPServer,
    environment: Mapping[str, str],
    roots: Callable[[], Sequence[Root]],
    log: ServerLog,
) -> ServerTransport:
    if settings.command is None:
        raise MCPError("it has neither a `command` nor a `url`", kind="start")
    first = next((root.path for root in roots()), None) or home_directory(environment)
    directory = first / os.path.expanduser(settings.cwd or "")  # noqa: PTH111 (pathlib raises for an unknown user)
    return start_stdio(settings, environment=environment, directory=directory, log=log)


def _stateless_era(refusal: RequestFailed) -> Era | None:
    """Return the stateless revision to try after a refused request, or None."""
    data = refusal.data if isinstance(refusal.data, dict) else {}
    named = [name for name in ERAS if name in refusal.message]
    era = newest_stateless(data.get("supported")) or newest_stateless(named)
    if era is None and refusal.code in {_UNSUPPORTED_REVISION, METHOD_NOT_FOUND}:
        return newest_stateless(tuple(ERAS))
    return era


def _silence(settings: MCPServer, seconds: float, log: ServerLog) -> str:
    """Return the error for a server that did not answer, with a hint and its last output."""
    program = Path(settings.command or "").name
    hint = ""
    if program == "npx" and not {"-y", "--yes"} & set(settings.args):
        hint = "; npx may be asking whether to install it: add `-y` to `args`"
    lines = log.reason()
    output = f"; its last output:\n{lines}" if lines else ""
    return f"it was not initialized within {seconds:g} s{hint}{output}"
