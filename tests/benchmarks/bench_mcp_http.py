"""Our MCP client over HTTP beside the official SDK's: start to the first tool list, a call, memory.

Run it from the repository: `python tests/benchmarks/bench_mcp_http.py`. Bounds: start, a call and
memory at least 3x better. A call misses its bound: it is mostly httpcore and h11, on which both
clients stand. As in `bench_mcp.py` what is measured is what a client adds to our server, in CPU
seconds, each round in a process of its own, and the best round counts. Both speak to the same bare
server in another process.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench_mcp import FIGURES, MEASURED
from report import Row, machine, print_rows, print_table
from rig import Rig, rig

ROUNDS = 3
CALLS = 1000
BOUND = 3.0
MEASURES = ("start", "memory", "call, JSON", "call, events")

SERVER = r"""
import asyncio, sys
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
        result = RESULTS[message["method"]]
        text = dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
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

OURS = (
    MEASURED
    + """
import trio
from eca_server.agent.mcp.connection import connect
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.settings import ServerSettings

imported = cpu() - before

async def main():
    async with connect(
        ServerSettings(name="bare", url=SERVER), environment={}, roots=tuple, log=ServerLog("bare")
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
from mcp.client.streamable_http import streamable_http_client

imported = cpu() - before

async def main():
    async with streamable_http_client(SERVER) as (read, write, *_):
        async with ClientSession(read, write) as session:
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


@contextmanager
def server(here: Rig, answers: str) -> Iterator[str]:
    """The URL of a bare server whose answers are JSON, or events."""
    command = [sys.executable, "-S", "-c", SERVER, answers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=here.environment) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        process.kill()


def measured(here: Rig, client: str, url: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-c", client, url, str(CALLS)],
        check=True,
        capture_output=True,
        env={**here.environment, "PYTHONPATH": str(Path.cwd())},
    )
    figures: dict[str, Any] = json.loads(ended.stdout)
    return figures


def main() -> list[Row]:
    print(machine("trio", "anyio", "httpx", "mcp"))
    best: dict[str, dict[str, float]] = {name: {} for name in CLIENTS}
    with rig() as here:
        for answers in ("JSON", "events"):
            with server(here, answers) as url:
                for _ in range(ROUNDS + 1):  # the first one compiles
                    for name, client in CLIENTS.items():
                        found = measured(here, client, url)
                        found[f"call, {answers}"] = found.pop("call")
                        for what, figure in found.items():
                            best[name][what] = min(best[name].get(what, figure), figure)
    rows = []
    for what in MEASURES:
        unit, scale = FIGURES[what.partition(",")[0]]
        ours = best["ours"][what]
        print_table(
            f"{what} ({unit})",
            ("client", unit, "x ours"),
            [
                (name, f"{found[what] * scale:.1f}", f"{found[what] / ours:.1f}")
                for name, found in best.items()
            ],
        )
        ratio = best["official, trio"][what] / ours
        rows.append(
            Row(f"MCP over HTTP: {what}", f">= {BOUND:g}x better", f"{ratio:.1f}x", ratio >= BOUND)
        )
    print_rows(rows)
    return rows


if __name__ == "__main__":
    main()
