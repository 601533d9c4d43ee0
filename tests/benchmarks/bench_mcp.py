"""Our MCP client and the official SDK's: import, start to the first tool list, a call, memory.

Run it from the repository: `python tests/benchmarks/bench_mcp.py`. Bounds: each at least 3x better.
A client is loaded when the first server is configured, into our server, which runs on trio and has
loaded its own modules: that is where the figures begin, and what a client adds to it counts. Both
speak to the same bare server over its standard streams, which answers as fast as Python can. Each
round is a process of its own; clients take turns; the best round of each counts. Times are CPU
seconds of the client; of the start, import included, also those on the clock, where the bare
server's own start is the same for all. The bounds are against the official client on trio; on
asyncio, where it is quicker, it could not run inside our server, and is shown.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from report import Row, machine, print_rows, print_table
from rig import Rig, rig

ROUNDS = 7
CALLS = 6000
BOUND = 3.0

SERVER = """
import sys
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
for line in sys.stdin.buffer:
    message = loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] in RESULTS:
            answer["result"] = RESULTS[message["method"]]
        else:
            answer["error"] = {"code": -32601, "message": "no such method"}
        sys.stdout.buffer.write(dumps(answer).encode() + b"\\n")
        sys.stdout.buffer.flush()
"""

MEASURED = """
import json, resource, sys, time

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
import os
import trio
from eca_server.agent.mcp.connection import connect
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.settings import ServerSettings

imported = cpu() - before

async def main():
    settings = ServerSettings(name="bare", command=sys.executable, args=("-S", "-c", SERVER))
    async with connect(
        settings, environment=dict(os.environ), roots=tuple, log=ServerLog("bare")
    ) as session:
        tools = await session.list_tools()
        assert len(tools) == 20
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
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

imported = cpu() - before

async def main():
    parameters = StdioServerParameters(command=sys.executable, args=["-S", "-c", SERVER])
    async with stdio_client(parameters) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            assert len(tools) == 20
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
FIGURES = {
    "import": ("ms CPU", 1e3),
    "start": ("ms CPU", 1e3),
    "start on the clock": ("ms", 1e3),
    "call": ("us CPU", 1e6),
    "memory": ("MiB", 1.0),
}


def measured(here: Rig, client: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-c", client, SERVER, str(CALLS)],
        check=True,
        capture_output=True,
        env={**here.environment, "PYTHONPATH": str(Path.cwd())},
    )
    figures: dict[str, Any] = json.loads(ended.stdout)
    return figures


def main() -> list[Row]:
    print(machine("trio", "anyio", "mcp"))
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in CLIENTS}
    with rig() as here:
        for client in CLIENTS.values():  # the first time compiles
            measured(here, client)
        for _ in range(ROUNDS):
            for name, client in CLIENTS.items():
                taken[name].append(measured(here, client))
    figures = {
        name: {what: min(row[what] for row in rows) for what in FIGURES}
        for name, rows in taken.items()
    }
    rows = []
    for what, (unit, scale) in FIGURES.items():
        ours = figures["ours"][what]
        print_table(
            f"{what} ({unit})",
            ("client", unit, "x ours"),
            [
                (name, f"{found[what] * scale:.1f}", f"{found[what] / ours:.1f}")
                for name, found in figures.items()
            ],
        )
        ratio = figures["official, trio"][what] / ours
        if what != "start on the clock":
            bound = f">= {BOUND:g}x better"
            rows.append(Row(f"MCP: {what}", bound, f"{ratio:.1f}x", ratio >= BOUND))
    print_rows(rows)
    return rows


if __name__ == "__main__":
    main()
