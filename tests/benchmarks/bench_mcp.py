"""Our MCP client and the official SDK's: import, start to the first tool list, a call, memory.

Bounds: each at least 3x better. A client is loaded when the first server is configured, into our
server, which runs on trio and has loaded its own modules: that is where the figures begin, and what
a client adds to it counts. Both speak to the same bare server, which answers as fast as Python can:
over its standard streams, and over HTTP with JSON and with events. Each round is a process of its
own; clients take turns; the best round of each counts. Times are CPU seconds of the client; of the
start, import included, also those on the clock, where the bare server's own start is the same for
all. The bounds are against the official client on trio; on asyncio, where it is quicker, it could
not run inside our server, and is shown.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from report import Row, at_least, machine, print_table
from rig import Rig, rig

BOUND = 3.0

ANSWERS = """
from json import dumps, loads

TOOLS = [
    {"name": f"tool_{n}", "description": "One of the tools of a server.", "inputSchema": {
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}
    for n in range(20)
]
RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "bare", "version": "1"}},
    "tools/list": {"tools": TOOLS},
    "tools/call": {"content": [{"type": "text", "text": "called"}], "isError": False},
    "ping": {},
}

def answer_to(message):
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] in RESULTS:
        answer["result"] = RESULTS[message["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    return dumps(answer).encode()
"""

STDIO_SERVER = (
    ANSWERS
    + r"""
import sys

for line in sys.stdin.buffer:
    message = loads(line)
    if "id" in message:
        sys.stdout.buffer.write(answer_to(message) + b"\n")
        sys.stdout.buffer.flush()
"""
)

HTTP_SERVER = (
    ANSWERS
    + r"""
import asyncio, sys

OK = b"HTTP/1.1 200 OK\r\ncontent-type: "

class Bare(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.received = transport, b""

    def data_received(self, data):
        self.received += data
        while b"\r\n\r\n" in self.received:
            head, _, rest = self.received.partition(b"\r\n\r\n")
            _, _, length = head.lower().partition(b"content-length: ")
            size = int(length.partition(b"\r\n")[0] or 0)
            if len(rest) < size:
                return
            body, self.received = rest[:size], rest[size:]
            self.transport.write(self.answer(head, body))

    def answer(self, head, body):
        message = loads(body or "{}")
        if "id" not in message:
            status = b"202 Accepted" if head.startswith(b"POST") else b"405 Method Not Allowed"
            return b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n"
        text = answer_to(message)
        if sys.argv[1] == "JSON":
            return OK + b"application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text)
        event = b"event: message\r\ndata: " + text + b"\r\n\r\n"
        return OK + (
            b"text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event)
        )

async def main():
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
)

MEASURED = """
import json, os, resource, sys, time

def cpu():
    return time.process_time()

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20

def report(imported, listed, listed_at, called, calls):
    print(json.dumps({
        "import": imported,
        "start": listed,
        "start on the clock": listed_at - begun,
        "call": (called - listed) / calls,
        "memory": resident() - resident_before,
    }))

SERVER, CALLS = sys.argv[1], int(sys.argv[2])

import anyio._backends._trio
import eca_server.agent.chat
import eca_server.connection.features.tool_sets
import eca_server.connection.server

resident_before = resident()
before = cpu()
begun = time.perf_counter()
"""

OURS = (
    MEASURED
    + """
import trio
from eca_server.agent.mcp.connection import connect
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.config.mcp_settings import MCPServer

imported = cpu() - before

async def main():
    if SERVER.startswith("http"):
        settings = MCPServer(url=SERVER)
    else:
        settings = MCPServer(command=sys.executable, args=("-S", "-c", SERVER))
    async with connect(
        settings, environment=dict(os.environ), roots=tuple, log=ServerLog("bare")
    ) as session:
        assert len(await session.list_tools()) == 20
        listed, listed_at = cpu() - before, time.perf_counter()
        for _ in range(CALLS):
            result = await session.call_tool("tool_0", {"text": "a"}, deadline=60)
        assert not result.is_error
        report(imported, listed, listed_at, cpu() - before, CALLS)

trio.run(main)
"""
)

OFFICIAL = (
    MEASURED
    + """
import anyio
from mcp import ClientSession

if SERVER.startswith("http"):
    from mcp.client.streamable_http import streamable_http_client
    connection = streamable_http_client(SERVER)
else:
    from mcp.client.stdio import StdioServerParameters, stdio_client
    command = StdioServerParameters(command=sys.executable, args=["-S", "-c", SERVER])
    connection = stdio_client(command)

imported = cpu() - before

async def main():
    async with connection as (read, write, *_), ClientSession(read, write) as session:
        await session.initialize()
        assert len((await session.list_tools()).tools) == 20
        listed, listed_at = cpu() - before, time.perf_counter()
        for _ in range(CALLS):
            result = await session.call_tool("tool_0", {"text": "a"})
        assert not result.is_error
        report(imported, listed, listed_at, cpu() - before, CALLS)

anyio.run(main, backend="BACKEND")
"""
)

CLIENTS = {
    "ours": OURS,
    "official, asyncio": OFFICIAL.replace("BACKEND", "asyncio"),
    "official, trio": OFFICIAL.replace("BACKEND", "trio"),
}
UNITS = {
    "import": ("ms CPU", 1e3),
    "start": ("ms CPU", 1e3),
    "start on the clock": ("ms", 1e3),
    "call": ("us CPU", 1e6),
    "memory": ("MiB", 1.0),
}
TRANSPORTS = {"stdio": (7, 6000), "HTTP, JSON": (3, 1000), "HTTP, events": (3, 1000)}
"""The rounds and the calls of each transport."""


@contextmanager
def server(here: Rig, transport: str) -> Iterator[str]:
    """The URL of a bare server, or the program of one that the client starts."""
    if transport == "stdio":
        yield STDIO_SERVER
        return
    command = [sys.executable, "-S", "-c", HTTP_SERVER, transport.removeprefix("HTTP, ")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=here.environment) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        process.kill()


def measured(here: Rig, client: str, server: str, calls: int) -> dict[str, float]:
    """The figures of one process of a client."""
    ended = subprocess.run(
        [sys.executable, "-c", client, server, str(calls)],
        check=True,
        capture_output=True,
        env={**here.environment, "PYTHONPATH": str(Path.cwd())},
    )
    figures: dict[str, float] = json.loads(ended.stdout)
    return figures


def rows_of(here: Rig, transport: str) -> Iterator[Row]:
    """Measure one transport, print its tables, and yield its rows."""
    rounds, calls = TRANSPORTS[transport]
    best: dict[str, dict[str, float]] = {name: {} for name in CLIENTS}
    with server(here, transport) as url:
        for _ in range(rounds + 1):  # the first one compiles
            for name, client in CLIENTS.items():
                for what, figure in measured(here, client, url, calls).items():
                    best[name][what] = min(best[name].get(what, figure), figure)
    for what, (unit, scale) in UNITS.items():
        ours = best["ours"][what]
        print_table(
            f"{transport}: {what} ({unit})",
            ("client", unit, "x ours"),
            [
                (name, f"{figures[what] * scale:.1f}", f"{figures[what] / ours:.1f}")
                for name, figures in best.items()
            ],
        )
        ratio = best["official, trio"][what] / ours
        if what != "start on the clock" and (what != "import" or transport == "stdio"):
            yield at_least(f"MCP, {transport}: {what}", ratio, BOUND, "x better")


def main() -> list[Row]:
    print(machine("trio", "anyio", "httpx", "mcp"))
    with rig() as here:
        return [row for transport in TRANSPORTS for row in rows_of(here, transport)]
