"""The revision without sessions (2026-07-28) over HTTP: what its requests say, how they end."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
import trio

from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.messages import TextContent
from tests.eca_server.agent.mcp.web import Exchange, WebServer, session_at, until_left, web_server

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


async def test_a_stateless_server_is_used_in_its_own_revision():
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


async def test_a_server_that_refuses_its_own_revision_at_first_is_asked_once_more():
    async def refuses_once(exchange: Exchange) -> None:
        server.on["server/discover"] = lambda e: e.json(e.result(FOUND))
        await server.on["initialize"](exchange)

    async with web_server() as server:
        be_stateless(server)
        server.on["server/discover"] = refuses_once
        async with session_at(server.url, revision="2026-07-28") as session:
            assert session.era.revision == "2026-07-28"
        server.on["server/discover"] = server.on["initialize"]
        with pytest.raises(MCPError, match="Unsupported"):
            async with session_at(server.url):
                pass
    assert server.kinds().count("server/discover") == 3


def tool_with(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def marked(header: Any, kind: str = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": header}


NESTED = {"type": "object", "properties": {"city": marked("City")}}


async def test_arguments_that_a_server_wants_as_headers_are_sent_so():
    wanted = tool_with(
        "where",
        region=marked("Region"),
        place=NESTED,
        count=marked("Count", "integer"),
        dry=marked("Dry", "boolean"),
        absent=marked("Absent"),
    )
    arguments = {"region": "süd", "place": {"city": "Bern"}, "count": 3, "dry": True}
    async with web_server() as server:
        be_stateless(server)
        server.on["tools/list"] = lambda e: e.json(e.result({"tools": [wanted]}))
        async with session_at(server.url, revision="2026-07-28") as session:
            await session.list_tools()
            await session.call_tool("where", {**arguments, "absent": None}, deadline=5)
            wanted["inputSchema"] = {"type": "object"}
            await session.list_tools()
            await session.call_tool("where", arguments, deadline=5)
        first, second = server.of("tools/call")
    sent = {name: text for name, text in first.headers.items() if name.startswith("mcp-param-")}
    assert sent == {
        "mcp-param-region": "=?base64?c8O8ZA==?=",
        "mcp-param-city": "Bern",
        "mcp-param-count": "3",
        "mcp-param-dry": "true",
    }
    assert first.message["params"]["arguments"] == {**arguments, "absent": None}
    assert not any(name.startswith("mcp-param-") for name in second.headers)


@pytest.mark.parametrize(
    "properties",
    [
        {"a": marked("")},
        {"a": marked("two words")},
        {"a": marked(7)},
        {"a": marked("A", "number")},
        {"a": {"type": ["string"], "x-mcp-header": "A"}},
        {"a": marked("Same"), "b": marked("same")},
        {"a": {"type": "array", "items": marked("A")}},
        {"a": {"anyOf": [marked("A"), {"type": "null"}]}},
    ],
)
async def test_a_tool_whose_headers_cannot_be_sent_is_left_out_alone(properties, caplog):
    innocent = tool_with("innocent", **{"x-mcp-header": {"type": "string"}})
    tools = [tool_with("guilty", **properties), innocent]
    async with web_server() as server:
        be_stateless(server)
        server.on["tools/list"] = lambda e: e.json(e.result({"tools": tools}))
        async with session_at(server.url, revision="2026-07-28") as session:
            assert [tool.name for tool in await session.list_tools()] == ["innocent"]
    assert "the tool 'guilty' was left out" in caplog.text


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


async def test_a_change_is_announced_on_the_stream_of_the_subscription():
    async def listens(exchange: Exchange) -> None:
        await exchange.begin_events()
        method = "notifications/subscriptions/acknowledged"
        await exchange.event({"jsonrpc": "2.0", "method": method, "params": {}})
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await until_left(exchange)

    feed = trio.Event()
    async with web_server() as server:
        be_stateless(server)
        server.on["subscriptions/listen"] = listens
        async with session_at(server.url) as session:
            session.on_change = lambda what: feed.set()
            with trio.fail_after(5):
                await feed.wait()
