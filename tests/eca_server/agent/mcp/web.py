"""An MCP server over HTTP in the test's own process: decent unless a test says otherwise."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

import trio

from eca_protocol.http import HTTPClient
from eca_protocol.http_server import HTTPRequest, HTTPServer, Responder, serve
from eca_protocol.sse import encode_event
from eca_server.agent.mcp.authorization.login import Login
from eca_server.agent.mcp.connection import connect
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.http_transport import Timeouts
from eca_server.agent.mcp.messages import ToolResult
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.session import Session
from eca_server.config.mcp_settings import MCPServer
from eca_server.models.history import TextPart
from tests.eca_server.agent.mcp.scripted import failure
from tests.eca_server.agent.mcp.scripted_server import DECENT

QUICK = Timeouts(
    notice=2, headers=2, linger=0.02, reconnect=0.01, longest_reconnect=0.05, retry=(0.01, 0.02)
)

Answer = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """One request that a server has to answer."""

    def __init__(self, request: HTTPRequest, responder: Responder, server: WebServer) -> None:
        self.server = server
        self.request = request
        self.responder = responder
        self.headers = request.headers
        self.message: Any = json.loads(request.body) if request.body else {}

    @property
    def kind(self) -> str:
        """The method of its message, `answer`, or that of HTTP."""
        if self.request.method != "POST":
            return self.request.method
        return str(self.message.get("method", "answer"))

    def result(self, value: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self.message["id"], "result": value}

    async def json(self, value: Any, status: int = 200, **headers: str) -> None:
        await self.text(status, json.dumps(value), content_type="application/json", **headers)

    async def error(self, status: int, code: int, text: str, **more: Any) -> None:
        error = {"code": code, "message": text, **more}
        await self.json({"jsonrpc": "2.0", "id": self.message.get("id"), "error": error}, status)

    async def text(self, status: int, text: str = "", **headers: str) -> None:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.responder.respond(status, text.encode(), names)

    async def begin_events(self) -> None:
        await self.responder.start(200, {"content-type": "text/event-stream"})

    async def event(self, value: Any, **fields: str) -> None:
        data = value if isinstance(value, str) else json.dumps(value)
        await self.responder.send(encode_event(data, **fields))


class WebServer:
    """A server; `on` holds what it does otherwise, by the kind of exchange."""

    def __init__(self) -> None:
        self.on: dict[str, Answer] = {}
        self.exchanges: list[Exchange] = []
        self.session_id: str | None = "s1"
        self.at: HTTPServer
        self._news = trio.Event()

    @property
    def url(self) -> str:
        return f"{self.at.url}/mcp"

    def kinds(self) -> list[str]:
        return [exchange.kind for exchange in self.exchanges]

    def of(self, kind: str) -> list[Exchange]:
        return [exchange for exchange in self.exchanges if exchange.kind == kind]

    async def has_seen(self, kind: str, times: int = 1) -> list[Exchange]:
        """Wait for requests of a kind."""
        with trio.fail_after(5):
            while len(self.of(kind)) < times:
                await self._news.wait()
        return self.of(kind)

    async def handle(self, request: HTTPRequest, responder: Responder) -> None:
        exchange = Exchange(request, responder, self)
        self.exchanges.append(exchange)
        self._news.set()
        self._news = trio.Event()
        answer = self.on.get(exchange.kind)
        await (answer(exchange) if answer else self.be_decent(exchange))

    def hold(self, kind: str) -> trio.Event:
        """Hold exchanges of a kind until their client leaves, which the event says."""
        departure = trio.Event()

        async def holds(exchange: Exchange) -> None:
            try:
                await exchange.begin_events()
                await trio.sleep_forever()
            finally:
                departure.set()

        self.on[kind] = holds
        return departure

    async def be_decent(self, exchange: Exchange) -> None:
        kind = exchange.kind
        if kind == "initialize":
            session = {"mcp_session_id": self.session_id} if self.session_id else {}
            await exchange.json(exchange.result(DECENT["initialize"]), **session)
        elif kind in DECENT:
            await exchange.json(exchange.result(DECENT[kind]))
        elif kind == "GET":
            await exchange.text(405)
        else:
            await exchange.text(200 if kind == "DELETE" else 202)


@contextlib.asynccontextmanager
async def web_server() -> AsyncIterator[WebServer]:
    server = WebServer()

    async def handle(request: HTTPRequest, responder: Responder) -> None:
        await server.handle(request, responder)

    async with serve(handle) as server.at:
        yield server


@contextlib.asynccontextmanager
async def session_at(
    url: str,
    log: ServerLog | None = None,
    *,
    timeouts: Timeouts = QUICK,
    http: HTTPClient | None = None,
    login: Login | None = None,
    start_seconds: float = 60,
    keep_alive_seconds: float = 30,
    **changes: Any,
) -> AsyncIterator[Session]:
    """A session with a server at a URL, in little time."""
    settings = MCPServer(url=url, **changes)
    async with connect(
        settings,
        environment={},
        roots=lambda: (),
        log=log or ServerLog("web"),
        http=http,
        login=login,
        timeouts=timeouts,
        start_seconds=start_seconds,
        keep_alive_seconds=keep_alive_seconds,
    ) as session:
        yield session


@contextlib.asynccontextmanager
async def serving(
    on: Mapping[str, Answer] = MappingProxyType({}), **options: Any
) -> AsyncIterator[tuple[WebServer, Session]]:
    """Yield a server and a session with it; `on` is what it does otherwise."""
    async with web_server() as server:
        server.on |= on
        async with session_at(server.url, **options) as session:
            yield server, session


async def until_left(exchange: Exchange) -> None:
    """Hold an exchange open until its client leaves."""
    await trio.sleep_forever()


async def names_of_tools(session: Session) -> list[str]:
    return [tool.name for tool in await session.list_tools()]


async def fails_to_start(url: str, **changes: Any) -> MCPError:
    """Return the error of a session that cannot start."""
    return await failure(session_at(url, **changes))


def text_of(result: ToolResult) -> str:
    """The texts of a result."""
    return "".join(part.text for part in result.content if isinstance(part, TextPart))


async def stop_a_call(server: WebServer, session: Session) -> Exchange:
    """Call a tool, and stop the call when the server has seen it."""
    calls = len(server.of("tools/call"))
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, session)
            await server.has_seen("tools/call", calls + 1)
            scope.cancel()
    return server.of("tools/call")[-1]


async def call(session: Session, **options: Any) -> ToolResult:
    """Call the decent server's tool."""
    return await session.call_tool("echo", {"a key": 1}, **{"deadline": 5, **options})
