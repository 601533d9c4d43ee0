"""The revision without sessions (2026-07-28) over HTTP: what its requests say, how they end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from eca_server.agent.mcp.session import Session
from tests.eca_server.agent.mcp import web
from tests.eca_server.agent.mcp.scripted import STATELESS

DISCOVERY = {
    "supportedVersions": [STATELESS],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}


async def refuses(exchange: web.Exchange) -> None:
    data = {"supported": [STATELESS]}
    await exchange.error(400, -32022, "Unsupported protocol version", data=data)


@asynccontextmanager
async def stateless(
    revision: str = "auto", **on: Any
) -> AsyncIterator[tuple[web.WebServer, Session]]:
    """Yield a server that refuses the handshake as such servers do, and a session with it."""
    async with web.web_server() as server:
        server.session_id = None
        server.on |= {
            "initialize": refuses,
            "server/discover": lambda e: e.json(e.result(DISCOVERY)),
            "subscriptions/listen": lambda e: e.error(404, -32601, "Method not found"),
            **{name.replace("_", "/"): answer for name, answer in on.items()},
        }
        async with web.session_at(server.url, revision=revision) as session:
            yield server, session


async def test_a_stateless_server_is_used_in_its_own_revision():
    async with stateless() as (server, session):
        assert session.era.revision == STATELESS
        assert web.text_of(await session.call_tool("grüße", {}, deadline=5)) == "called"
        await server.has_seen("subscriptions/listen")
    (call,) = server.of("tools/call")
    assert not {"GET", "DELETE", "notifications/initialized"} & set(server.kinds())
    assert call.headers["mcp-protocol-version"] == STATELESS
    assert call.headers["mcp-method"] == "tools/call"
    assert call.headers["mcp-name"] == "=?base64?Z3LDvMOfZQ==?="
    meta = call.message["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == STATELESS


async def test_a_server_that_refuses_its_own_revision_at_first_is_asked_once_more():
    async def refuses_once(exchange: web.Exchange) -> None:
        exchange.server.on["server/discover"] = lambda e: e.json(e.result(DISCOVERY))
        await refuses(exchange)

    async with stateless(STATELESS, server_discover=refuses_once) as (server, session):
        assert session.era.revision == STATELESS
        server.on["server/discover"] = refuses
        assert "Unsupported" in (await web.fails_to_start(server.url)).message
    assert server.kinds().count("server/discover") == 3


def tool_with(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def marked(header: Any, kind: str = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": header}


async def test_arguments_that_a_server_wants_as_headers_are_sent_so():
    marked_tool = tool_with(
        "where",
        region=marked("Region"),
        place={"type": "object", "properties": {"city": marked("City")}},
        count=marked("Count", "integer"),
        dry=marked("Dry", "boolean"),
        absent=marked("Absent"),
    )
    arguments = {"region": "süd", "place": {"city": "Bern"}, "count": 3, "dry": True}
    tools = {"tools": [marked_tool]}
    async with stateless(STATELESS, tools_list=lambda e: e.json(e.result(tools))) as pair:
        server, session = pair
        await session.list_tools()
        await session.call_tool("where", {**arguments, "absent": None}, deadline=5)
        marked_tool["inputSchema"] = {"type": "object"}
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


GUILTY: list[dict[str, Any]] = [
    {"a": marked("")},
    {"a": marked("two words")},
    {"a": marked(7)},
    {"a": marked("A", "number")},
    {"a": {"type": ["string"], "x-mcp-header": "A"}},
    {"a": marked("Same"), "b": marked("same")},
    {"a": {"type": "array", "items": marked("A")}},
    {"a": {"anyOf": [marked("A"), {"type": "null"}]}},
]


async def test_tools_whose_headers_cannot_be_sent_are_left_out_alone(caplog):
    innocent = tool_with("innocent", **{"x-mcp-header": {"type": "string"}})
    innocent["inputSchema"]["required"] = ["x-mcp-header"]
    guilty = [tool_with(f"guilty{number}", **each) for number, each in enumerate(GUILTY)]
    tools = {"tools": [*guilty, innocent]}
    async with stateless(STATELESS, tools_list=lambda e: e.json(e.result(tools))) as (_, session):
        assert await web.names_of_tools(session) == ["innocent"]
    for tool in guilty:
        assert f"the tool '{tool['name']}' was left out" in caplog.text


async def test_leaving_the_stream_is_the_cancellation():
    async with stateless(STATELESS) as (server, session):
        departure = server.hold("tools/call")
        await web.stop_a_call(server, session)
        with trio.fail_after(5):
            await departure.wait()
        await session.list_tools()
    assert "initialize" not in server.kinds()
    assert "notifications/cancelled" not in server.kinds()


async def test_a_change_is_announced_on_the_stream_of_the_subscription():
    async def listens(exchange: web.Exchange) -> None:
        await exchange.begin_events()
        for name in ("subscriptions/acknowledged", "tools/list_changed"):
            await exchange.event({"jsonrpc": "2.0", "method": f"notifications/{name}"})
        await web.until_left(exchange)

    changed = trio.Event()
    async with stateless(subscriptions_listen=listens) as (_, session):
        session.on_change = lambda what: changed.set()
        with trio.fail_after(5):
            await changed.wait()
