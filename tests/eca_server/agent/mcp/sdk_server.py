"""A server built on the official SDK, over HTTP: `/mcp` and, as servers of 2024 do it, `/sse`.

Writes its port as one line, then serves until it is ended.
"""

from __future__ import annotations

import socket
import sys

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("official", instructions="Be official.", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def grow(ctx: Context) -> str:
    """Register one more tool, and say so."""
    server.add_tool(lambda: "new", name="fresh", description="A new tool.")
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def change(ctx: Context) -> str:
    """Say that a resource has changed, to listeners of either family."""
    await ctx.session.send_resource_updated("memo://today")
    await ctx.notify_resource_updated("memo://today")
    return "changed"


@server.tool()
async def count(ctx: Context) -> str:
    """Report progress three times."""
    for step in range(3):
        await ctx.report_progress(step + 1, 3, f"step {step + 1}")
    return "counted"


@server.tool()
async def hang(ctx: Context) -> str:
    """Report that it runs, and wait for ever; write a line when it is cancelled."""
    await ctx.report_progress(1)
    try:
        await anyio.sleep_forever()
    finally:
        sys.stdout.write("cancelled\n")
        sys.stdout.flush()
    return ""


@server.prompt()
def greet(name: str) -> str:
    """Greet a person."""
    return f"Say hello to {name}."


@server.resource("memo://today")
def today() -> str:
    """Return the plan of the day."""
    return "nothing"


def main() -> None:
    """Serve on a free port."""
    listening = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio delays small writes
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    app = server.streamable_http_app()
    app.router.routes.extend(server.sse_app().routes)
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    main()
