"""From a configured server to a session: started, reached, initialized in the revision it speaks.

A handshake is offered first, for every server of today takes it. The stateless revisions are
spoken where the configuration says so, or the server's refusal does; a program is started anew
for it, since some are bound to the first revision that they hear. A URL that refuses the first
message is tried as a server of the older transport, where the configuration does not say which.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from eca_protocol.errors import METHOD_NOT_FOUND, RequestFailed
from eca_protocol.http import HTTPClient
from eca_server.config.directories import home_directory
from eca_server.mcp.eras import ERAS, OFFERED, Era, newest_stateless
from eca_server.mcp.faults import MCPFault
from eca_server.mcp.http_endpoint import HTTPEndpoint, Login
from eca_server.mcp.http_transport import NotStreamable, Waits
from eca_server.mcp.keep_alive import keep_alive
from eca_server.mcp.legacy_sse import LegacySSE
from eca_server.mcp.server_log import ServerLog
from eca_server.mcp.session import Session
from eca_server.mcp.settings import ServerSettings
from eca_server.mcp.stdio import start_stdio
from eca_server.mcp.streamable_http import StreamableHTTP
from eca_server.mcp.transport import ServerTransport
from eca_server.workspace import Root

__all__ = ["connect"]

_UNSUPPORTED_REVISION: Final = -32022
_WRONG_URL: Final = "is the URL right? That of most servers ends in /mcp or /sse"


class _SpeaksOnly(Exception):
    """The server refused how we began, and named a revision without a handshake."""

    def __init__(self, era: Era) -> None:
        super().__init__(era.revision)
        self.era = era


@contextlib.asynccontextmanager
async def connect(
    settings: ServerSettings,
    *,
    environment: Mapping[str, str],
    roots: Callable[[], Sequence[Root]],
    log: ServerLog,
    http: HTTPClient | None = None,
    login: Login | None = None,
    waits: Waits | None = None,
) -> AsyncIterator[Session]:
    """A session with a server; leaving the block ends it, and the server, within seconds.

    Args:
        settings: the server.
        environment: of a server that is started, before the settings' own variables.
        roots: the roots of the workspace, as they are when the server asks.
        log: what the server says beside the protocol.
        http: asks servers that have a URL; None: a client of this session alone.
        login: at such a server; None: there is none.
        waits: how long is waited for such servers.

    Raises:
        MCPFault: it did not come to a session; the text says why.
    """
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(HTTPClient()) if http is None else http

        def begin(
            era: Era, settings: ServerSettings = settings, *, is_last: bool = False
        ) -> contextlib.AbstractAsyncContextManager[Session]:
            if settings.url is None:
                transport = _start(settings, environment, roots, log)
            else:
                endpoint = HTTPEndpoint(
                    settings.url, http=client, headers=settings.headers, login=login
                )
                is_older = settings.transport == "sse"
                kind = LegacySSE if is_older else StreamableHTTP
                transport = kind(endpoint, log, waits)
            return _begin(settings, era, transport=transport, roots=roots, log=log, is_last=is_last)

        asked_for = ERAS.get(settings.revision, ERAS[OFFERED])
        try:
            session = await stack.enter_async_context(begin(asked_for))
        except _SpeaksOnly as refusal:
            session = await stack.enter_async_context(begin(refusal.era, is_last=True))
        except NotStreamable as refusal:
            if settings.transport is not None:
                raise
            try:
                older = attrs.evolve(settings, transport="sse")
                session = await stack.enter_async_context(begin(asked_for, older))
            except MCPFault as fault:
                if fault.kind == "login":
                    raise
                log.note(f"nor is it a server of the older transport: {fault}")
                raise MCPFault(f"{refusal}; {_WRONG_URL}", kind="start") from fault
        yield session


@contextlib.asynccontextmanager
async def _begin(
    settings: ServerSettings,
    era: Era,
    *,
    transport: ServerTransport,
    roots: Callable[[], Sequence[Root]],
    log: ServerLog,
    is_last: bool,
) -> AsyncIterator[Session]:
    """One attempt, in one era."""
    session = Session(transport, name=settings.name, era=era, roots=roots, log=log)
    async with session.peer:
        session.peer.start_soon(transport.run)
        session.peer.start_soon(session.serve)
        with trio.move_on_after(settings.start_seconds) as patience:
            try:
                await session.introduce()
            except RequestFailed as refusal:
                is_final = is_last or settings.revision == "legacy"
                other = None if is_final else _stateless_era(refusal)
                if other is None or (era.stateless and refusal.code != _UNSUPPORTED_REVISION):
                    raise MCPFault(f"it refused {refusal.method}: {refusal.message}") from refusal
                raise _SpeaksOnly(other) from refusal
        if patience.cancelled_caught:
            raise MCPFault(_silence(settings, log), kind="timeout")
        if not session.era.stateless:
            seconds = settings.keep_alive_seconds if settings.url else math.inf
            session.peer.start_soon(partial(keep_alive, session, seconds))
        yield session


def _start(
    settings: ServerSettings,
    environment: Mapping[str, str],
    roots: Callable[[], Sequence[Root]],
    log: ServerLog,
) -> ServerTransport:
    if settings.command is None:
        raise MCPFault("it has neither a `command` nor a `url`", kind="start")
    first = next((root.path for root in roots()), None) or home_directory(environment)
    directory = settings.directory or first
    return start_stdio(settings, environment=environment, directory=directory, log=log)


def _stateless_era(refusal: RequestFailed) -> Era | None:
    """The revision without a handshake that a refused one should be followed by."""
    data = refusal.data if isinstance(refusal.data, dict) else {}
    named = [name for name in ERAS if name in refusal.message]
    era = newest_stateless(data.get("supported")) or newest_stateless(named)
    if era is None and refusal.code in {_UNSUPPORTED_REVISION, METHOD_NOT_FOUND}:
        return newest_stateless(tuple(ERAS))
    return era


def _silence(settings: ServerSettings, log: ServerLog) -> str:
    """What to tell of a server that did not answer, with what often helps."""
    program = Path(settings.command or "").name
    hint = ""
    if program == "npx" and not {"-y", "--yes"} & set(settings.args):
        hint = "; npx may be asking whether to install it: add `-y` to `args`"
    words = log.last_words()
    said = f"; it said last:\n{words}" if words else ""
    return f"it was not initialized within {settings.start_seconds:g} s{hint}{said}"
