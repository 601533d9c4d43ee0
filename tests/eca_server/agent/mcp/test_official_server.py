"""Sessions over HTTP with a server that is built on the official SDK."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from eca_server.agent.mcp.messages import Progress
from tests.eca_server.agent.mcp.web import names_of_tools, session_at, text_of

pytestmark = pytest.mark.long

TRANSPORTS = {
    "handshake": ("/mcp", "auto"),
    "stateless": ("/mcp", "2026-07-28"),
    "older": ("/sse", "auto"),
}


@pytest.fixture(scope="module")
def official() -> Iterator[subprocess.Popen[str]]:
    script = Path(__file__).with_name("sdk_server.py")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def line_of(official: subprocess.Popen[str]) -> str:
    assert official.stdout is not None
    return official.stdout.readline()


@pytest.fixture(scope="module")
def url(official: subprocess.Popen[str]) -> str:
    return f"http://127.0.0.1:{int(line_of(official))}"


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_everything_is_used_stopped_and_announced(
    official: subprocess.Popen[str], url: str, name: str
):
    path, revision = TRANSPORTS[name]
    feed: list[Progress] = []
    async with session_at(url + path, revision=revision) as session:
        assert session.instructions == "Be official."
        assert {"add", "count", "grow", "hang"} <= {*await names_of_tools(session)}
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
        with trio.CancelScope() as scope:
            await session.call_tool("hang", {}, deadline=5, on_progress=lambda _: scope.cancel())
        with trio.fail_after(5):
            line = await trio.to_thread.run_sync(line_of, official, abandon_on_cancel=True)
        assert line == "cancelled\n"
        changed = trio.Event()
        session.on_update = lambda uri: changed.set() if uri == "memo://today" else None
        await session.watch({"memo://today"})
        with trio.fail_after(5):
            while not changed.is_set():  # a late subscription misses the first one
                assert text_of(await session.call_tool("change", {}, deadline=5)) == "changed"
                with trio.move_on_after(0.1):
                    await changed.wait()


async def test_a_new_tool_is_announced(url: str):
    changed = trio.Event()
    async with session_at(f"{url}/mcp") as session:
        session.on_change = lambda what: changed.set()
        with trio.fail_after(20):
            while not changed.is_set():  # a stream that is opened late misses the first one
                assert text_of(await session.call_tool("grow", {}, deadline=20)) == "grown"
                with trio.move_on_after(0.1):
                    await changed.wait()
        assert "fresh" in await names_of_tools(session)
