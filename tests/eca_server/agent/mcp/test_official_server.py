"""Sessions over HTTP with a server that is built on the official SDK."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from eca_server.agent.mcp.messages import Progress
from eca_server.agent.mcp.session import Session
from tests.eca_server.agent.mcp.web import session_at, text_of


class Official:
    """The server's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{int(self.line())}"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture(scope="module")
def official() -> Iterator[Official]:
    script = Path(__file__).with_name("sdk_server.py")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        yield Official(process)
        process.kill()


WAYS = {
    "handshake": {"path": "/mcp", "revision": "auto"},
    "stateless": {"path": "/mcp", "revision": "2026-07-28"},
    "older": {"path": "/sse", "revision": "auto"},
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> dict[str, str]:
    return dict(WAYS[request.param])


@pytest.mark.long(but=2)
async def test_all_that_it_offers_can_be_used(official: Official, way: dict[str, str]):
    path = way.pop("path")
    feed: list[Progress] = []
    async with session_at(official.url + path, **way) as session:
        assert session.info.name == "official"
        assert session.instructions == "Be official."
        assert {"add", "count", "grow", "hang"} <= {t.name for t in await session.list_tools()}
        assert text_of(await session.call_tool("add", {"a": 2, "b": 3}, deadline=5)) == "5"
        counted = await session.call_tool("count", {}, deadline=5, on_progress=feed.append)
        assert text_of(counted) == "counted"
        assert feed[0].message == "step 1"
        wrong = await session.call_tool("add", {"a": "x"}, deadline=5)
        assert wrong.is_error
        assert [prompt.name for prompt in await session.list_prompts()] == ["greet"]
        prompt = await session.get_prompt("greet", {"name": "Ada"})
        assert "Ada" in str(prompt.messages[0])
        (memo,) = await session.read_resource("memo://today")
        assert memo.text == "nothing"


@pytest.mark.long(but=1)
async def test_a_call_that_is_stopped_stops_there_too(official: Official, way: dict[str, str]):
    path = way.pop("path")
    async with session_at(official.url + path, **way) as session:
        with trio.CancelScope() as scope:
            await session.call_tool("hang", {}, deadline=5, on_progress=lambda _: scope.cancel())
        with trio.fail_after(5):
            said = await trio.to_thread.run_sync(official.line, abandon_on_cancel=True)
        assert said == "cancelled\n"
        await _can_still_add(session)


async def _can_still_add(session: Session) -> None:
    assert text_of(await session.call_tool("add", {"a": 1, "b": 1}, deadline=5)) == "2"


async def test_a_new_tool_is_announced(official: Official):
    changed = trio.Event()
    async with session_at(f"{official.url}/mcp") as session:
        session.on_change = lambda what: changed.set()
        with trio.fail_after(20):
            while not changed.is_set():  # a stream that is opened late misses the first one
                assert text_of(await session.call_tool("grow", {}, deadline=20)) == "grown"
                with trio.move_on_after(0.1):
                    await changed.wait()
        assert "fresh" in {tool.name for tool in await session.list_tools()}


@pytest.mark.long(but=1)
async def test_a_changed_resource_is_announced(official: Official, way: dict[str, str]):
    path = way.pop("path")
    told = trio.Event()
    async with session_at(official.url + path, **way) as session:
        session.on_update = lambda uri: told.set() if uri == "memo://today" else None
        await session.watch({"memo://today"})
        with trio.fail_after(5):
            while not told.is_set():  # a late subscription misses the first one
                assert text_of(await session.call_tool("change", {}, deadline=5)) == "changed"
                with trio.move_on_after(0.1):
                    await told.wait()
