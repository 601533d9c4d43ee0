"""Two peers in two processes over real pipes: flooded, killed, left."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from eca_protocol.errors import ConnectionClosed
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.message_transport import StreamTransport
from eca_protocol.peer import Peer
from eca_protocol.process import Child, GracePeriods, spawn
from tests.eca_protocol.wire import TABLE, Bare, Wire, code_of, request

pytestmark = [pytest.mark.anyio, pytest.mark.long(but=1)]

ROOT = Path(__file__).parents[2]
PATIENT = GracePeriods(after_stdin=10)


@contextlib.asynccontextmanager
async def server(backend: str) -> AsyncIterator[Child]:
    """Run an echo server in a process of its own, and end it."""
    command = [sys.executable, "-m", "tests.eca_protocol.echo_server", backend]
    child = spawn(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr="null")
    try:
        with anyio.fail_after(30):
            yield child
    finally:
        await child.end(PATIENT)


async def test_a_flood_waits_for_its_reader_and_loses_nothing_until_the_server_is_killed(
    anyio_backend,
):
    numbers: list[int] = []
    async with server(anyio_backend) as child:
        handlers = {"log": lambda params: numbers.append(params["n"])}
        transport = StreamTransport(child.transport)
        peer = Peer(transport, side="client", table=TABLE, codec=Bare(), handlers=handlers)
        async with anyio.create_task_group() as tasks, peer:
            tasks.start_soon(peer.serve)
            flood = peer.start_call("add", {"count": 5_000, "text": "x" * 100})
            calls = [peer.start_call("add", {"n": n}) for n in range(500)]
            assert [await call.result() for call in calls] == [{"n": n} for n in range(500)]
            large = {"text": "x" * 3_000_000}
            assert await peer.call("add", large) == large
            assert await flood.result() == 5_000
            assert numbers == list(range(5_000))
            waiting = peer.start_call("wait")
            await child.signal_group("kill")
            with pytest.raises(ConnectionClosed, match="wait"):
                await waiting.result()
            with pytest.raises(ConnectionClosed):
                await peer.call("add")
            assert peer.end is not None


@pytest.mark.long(but=2)
@pytest.mark.parametrize(
    ("last", "answers", "code"),
    [
        (b"Content-Length: minus one\r\n\r\n", [(None, ErrorCode.PARSE_ERROR)], 3),
        (b"Content-Length: 5\r\n\r\n{", [(None, ErrorCode.PARSE_ERROR)], 4),
        (b"", [], 0),
    ],
)
async def test_a_server_ends_with_its_input_after_an_answer_to_what_runs(
    anyio_backend, last, answers, code
):
    async with server(anyio_backend) as child:
        wire = Wire(child.transport)
        await wire.send(request(1, "wait"), last)
        child.transport.close_writing()  # type: ignore[attr-defined]
        cancelled = (1, ErrorCode.REQUEST_CANCELLED)
        assert [code_of(answer) for answer in await wire.rest()] == [*answers, cancelled]
        assert await child.wait() == code


async def test_a_client_that_leaves_in_a_flood_ends_the_server(anyio_backend):
    async with server(anyio_backend) as child:
        wire = Wire(child.transport)
        await wire.send(request(1, "add", {"count": 10_000_000, "text": "x" * 100}))
        await wire.receive()
        await child.transport.aclose()
        assert await child.wait() in {0, 5}
