"""Many servers at once, some deaf, some flooding: none of them holds up the loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import trio
import trio.testing

from eca_protocol import process
from eca_server.agent.mcp.connection import connect
from eca_server.agent.mcp.manager import Manager
from eca_server.agent.mcp.server import Connect, Server
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.settings import ServerSettings
from eca_server.agent.mcp.states import State
from eca_server.agent.mcp.stdio import StdioTransport, start_stdio
from eca_server.config.mcp_settings import MCPServer
from tests.eca_server.agent.mcp.scripted import SERVER

DEAF: dict[str, Any] = {"at_start": [["hang"]]}
LINE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}\n'
FLOODING = """
import os, sys, threading
def flood(fd, line):
    while True:
        os.write(fd, line * 1000)
for fd, line in ((1, sys.argv[1].encode()), (2, b"x\\n")):
    threading.Thread(target=flood, args=(fd, line), daemon=True).start()
threading.Event().wait()
"""
MOST_BYTES = 8192
"""Bytes of a server that may be dealt with in one step of the loop."""


class Steps(trio.abc.Instrument):
    """Counts the processes that are started in one step of the event loop."""

    def __init__(self) -> None:
        self.spawned = 0
        self.most_spawned = 0

    def before_io_wait(self, timeout: float) -> None:
        self.most_spawned = max(self.most_spawned, self.spawned)
        self.spawned = 0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """The steps of the loop, with the processes that are started in them."""
    found = Steps()

    class Counted(subprocess.Popen[bytes]):
        def __init__(self, *given: Any, **named: Any) -> None:
            found.spawned += 1
            super().__init__(*given, **named)

    monkeypatch.setattr(process.subprocess, "Popen", Counted)
    return found


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Record the bytes that are read in one step, of stdout and of stderr."""
    found: dict[str, list[int]] = {"output": [], "errors": []}
    receive, feed = StdioTransport.receive, ServerLog.feed

    async def counted(self: StdioTransport) -> bytes:
        data = await receive(self)
        found["output"].append(len(data))
        return data

    def counted_too(self: ServerLog, data: bytes) -> None:
        found["errors"].append(len(data))
        feed(self, data)

    monkeypatch.setattr(StdioTransport, "receive", counted)
    monkeypatch.setattr(ServerLog, "feed", counted_too)
    return found


def _flooding() -> ServerSettings:
    arguments = ("-S", "-E", "-c", FLOODING, LINE)
    return ServerSettings(name="flood", command=sys.executable, args=arguments)


@pytest.mark.long
async def test_many_servers_are_started_one_in_a_step_and_floods_are_read_in_slices(steps, sizes):
    kinds = {"good": 16, "deaf": 6, "flood": 2}

    def connect_to(name: str, settings: MCPServer) -> Connect:
        script = DEAF if name.startswith("deaf") else {}
        plain = ("-S", "-E", str(SERVER), json.dumps(script))
        given = ServerSettings(name=name, command=sys.executable, args=plain)
        if name.startswith("flood"):
            given = _flooding()
        log = ServerLog(name)
        return lambda: connect(given, environment=dict(os.environ), roots=tuple, log=log)

    def on_change(server: Server) -> None:
        if all(each.state is State.RUNNING for each in manager if each.name.startswith("good")):
            all_good.set()

    all_good = trio.Event()
    trio.lowlevel.add_instrument(steps)
    async with trio.open_nursery() as nursery:
        manager = Manager(nursery=nursery, connect_to=connect_to, on_change=on_change)
        servers = [f"{kind}{n}" for kind, count in kinds.items() for n in range(count)]
        manager.configure({name: MCPServer(command=name) for name in servers})
        with trio.fail_after(60):
            await all_good.wait()
            while sum(sizes["output"]) < 10 * 65_536 or sum(sizes["errors"]) < 10 * 65_536:
                await trio.lowlevel.checkpoint()
        late = await manager.settled(0)
        await manager.close()
        nursery.cancel_scope.cancel()
    assert sorted(late) == [name for name in sorted(servers) if not name.startswith("good")]
    assert steps.most_spawned <= 2  # a server and its guard
    assert max(sizes["output"]) <= MOST_BYTES
    assert max(sizes["errors"]) <= MOST_BYTES


async def test_a_flood_comes_in_slices_with_a_checkpoint_before_each_and_nothing_is_lost():
    flood = LINE * 800
    script = json.dumps({"at_start": [["raw", flood], ["hang"]]})
    arguments = ("-S", "-E", str(SERVER), script)
    settings = ServerSettings(name="bad", command=sys.executable, args=arguments)
    transport = start_stdio(
        settings, environment=dict(os.environ), directory=SERVER.parent, log=ServerLog("bad")
    )
    slices: list[bytes] = []
    with trio.fail_after(30):
        while sum(map(len, slices)) < len(flood):
            with trio.testing.assert_checkpoints():
                slices.append(await transport.receive())
    await transport.aclose()
    assert b"".join(slices) == flood.encode()
    assert max(map(len, slices)) <= MOST_BYTES
