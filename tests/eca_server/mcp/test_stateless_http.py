"""The revision without sessions (2026-07-28) over HTTP: what its requests say, how they end."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
import trio

from eca_server.mcp.messages import TextContent
from tests.eca_server.mcp.web import Exchange, WebServer, session_at, until_left, web_server

pytestmark = pytest.mark.trio

FOUND = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}


def be_stateless(server: WebServer) -> None:
    """Refuse the handshake as such servers do, and serve what follows."""

    async def refuses(exchange: Exchange) -> None:
        await exchange.error(
            400, -32022, "Unsupported protocol version", data={"supported": ["2026-07-28"]}
        )

    server.session_id = None
    server.on |= {
        "initialize": refuses,
        "server/discover": lambda e: e.json(e.result(FOUND)),
        "subscriptions/listen": lambda e: e.error(404, -32601, "Method not found"),
    }


async def test_a_server_without_a_handshake_is_spoken_to_in_its_own_revision():
    async with web_server() as server:
        be_stateless(server)
        async with session_at(server.url) as session:
            assert session.era.revision == "2026-07-28"
            result = await session.call_tool("grüße", {}, deadline=5)
            await server.has_seen("subscriptions/listen")
        (call,) = server.of("tools/call")
        assert not {"GET", "DELETE", "notifications/initialized"} & set(server.kinds())
    assert result.content == (TextContent(text="called"),)
    assert call.headers["mcp-protocol-version"] == "2026-07-28"
    assert call.headers["mcp-method"] == "tools/call"
    assert call.headers["mcp-name"] == "=?base64?Z3LDvMOfZQ==?="
    assert call.message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == (
        "2026-07-28"
    )


async def test_leaving_the_stream_is_the_cancellation():
    left = anyio.Event()

    async def hangs(exchange: Exchange) -> None:
        try:
            await until_left(exchange)
        finally:
            left.set()

    async with web_server() as server:
        be_stateless(server)
        server.on["tools/call"] = hangs
        async with session_at(server.url, revision="2026-07-28") as session:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_call, session)
                    await server.has_seen("tools/call")
                    scope.cancel()
            with trio.fail_after(5):
                await left.wait()
            await session.list_tools()
        assert "initialize" not in server.kinds()
        assert "notifications/cancelled" not in server.kinds()


async def _call(session: Any) -> None:
    await session.call_tool("echo", {}, deadline=5)


async def test_a_change_is_told_on_the_stream_of_the_subscription():
    async def listens(exchange: Exchange) -> None:
        await exchange.begin_events()
        method = "notifications/subscriptions/acknowledged"
        await exchange.event({"jsonrpc": "2.0", "method": method, "params": {}})
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await until_left(exchange)

    heard = trio.Event()
    async with web_server() as server:
        be_stateless(server)
        server.on["subscriptions/listen"] = listens
        async with session_at(server.url) as session:
            session.on_change = lambda what: heard.set()
            with trio.fail_after(5):
                await heard.wait()
