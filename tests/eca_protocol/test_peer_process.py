"""Two peers in two processes over real pipes: killed, closed, flooded, not reading."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from eca_protocol.errors import ConnectionClosed, RequestFailed
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.message_transport import StreamTransport
from eca_protocol.peer import Peer
from eca_protocol.process import Child, GracePeriods, spawn
from tests.eca_protocol.wire import TABLE, Bare, Wire, code_of, request, success

pytestmark = [pytest.mark.anyio, pytest.mark.long(but=1)]

ROOT = Path(__file__).parents[2]
PATIENT = GracePeriods(after_stdin=10)


@contextlib.asynccontextmanager
async def server(backend: str) -> AsyncIterator[Child]:
    """Run an echo server in a process of its own, and end it."""
    command = [sys.executable, "-m", "tests.eca_protocol.echo_server", backend]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = spawn(command, cwd=ROOT, env=env, stderr="null")
    try:
        with anyio.fail_after(30):
            yield child
    finally:
        await child.end(PATIENT)


@contextlib.asynccontextmanager
async def client(child: Child, handlers: Any = None) -> AsyncIterator[Peer]:
    peer = Peer(
        StreamTransport(child.transport),
        side="client",
        table=TABLE,
        codec=Bare(),
        handlers=handlers or {},
    )
    async with anyio.create_task_group() as tasks, peer:
        tasks.start_soon(peer.serve)
        yield peer


@pytest.mark.long(but=2)
async def test_many_calls_are_answered_and_the_end_of_input_ends_the_server(anyio_backend):
    async with server(anyio_backend) as child:
        async with client(child) as peer:
            calls = [peer.start_call("add", {"n": n}) for n in range(2000)]
            assert [await call.result() for call in calls] == [{"n": n} for n in range(2000)]
            large = {"text": "x" * 3_000_000}
            assert await peer.call("add", large) == large
        assert await child.wait() == 0


async def test_a_server_that_is_killed_is_a_closed_connection(anyio_backend):
    async with server(anyio_backend) as child, client(child) as peer:
        assert await peer.call("add", {"up": True}) == {"up": True}
        waiting = peer.start_call("wait")
        await child.signal_group("kill")
        with pytest.raises(ConnectionClosed, match="wait"):
            await waiting.result()
        with pytest.raises(ConnectionClosed):
            await peer.call("add")
        assert peer.end is not None


async def test_a_flood_waits_for_its_reader_and_loses_nothing(anyio_backend):
    numbers: list[int] = []
    async with server(anyio_backend) as child:
        handlers = {"log": lambda params: numbers.append(params["n"])}
        async with client(child, handlers) as peer:
            flood = peer.start_call("add", {"count": 20_000, "text": "x" * 100})
            assert await peer.call("add", {"still": "there"}) == {"still": "there"}
            assert await flood.result() == 20_000
            assert numbers == list(range(20_000))


async def test_a_client_that_leaves_in_a_flood_ends_the_server(anyio_backend):
    async with server(anyio_backend) as child:
        wire = Wire(child.transport)
        await wire.send(request(1, "add", {"count": 10_000_000, "text": "x" * 100}))
        await wire.receive()
        await child.transport.aclose()
        assert await child.wait() in {0, 5}


async def test_a_fatal_error_is_answered_and_ends_the_server(anyio_backend):
    async with server(anyio_backend) as child:
        wire = Wire(child.transport)
        await wire.send(request(1, "wait"), b"Content-Length: minus one\r\n\r\n")
        answers = [code_of(answer) for answer in await wire.rest()]
        assert answers == [(None, ErrorCode.PARSE_ERROR), (1, ErrorCode.REQUEST_CANCELLED)]
        assert await child.wait() == 3


async def test_input_that_ends_in_a_message_ends_the_server(anyio_backend):
    async with server(anyio_backend) as child:
        wire = Wire(child.transport)
        await wire.send(request(1, "add", {"n": 1}), b"Content-Length: 5\r\n\r\n{")
        assert await wire.receive() == success(1, {"n": 1})
        child.transport.close_writing()  # type: ignore[attr-defined]
        assert code_of(*await wire.rest()) == (None, ErrorCode.PARSE_ERROR)
        assert await child.wait() == 4


async def test_a_cancelled_call_is_cancelled_on_the_other_side(anyio_backend):
    async with server(anyio_backend) as child:
        wire = Wire(child.transport)
        await wire.send(request("a", "wait"), request("b", "wait"))
        await wire.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "a"}})
        assert code_of(await wire.receive()) == ("a", ErrorCode.REQUEST_CANCELLED)


async def test_an_unknown_method_fails_the_call_only(anyio_backend):
    async with server(anyio_backend) as child, client(child) as peer:
        with pytest.raises(RequestFailed) as caught:
            await peer.call("nothing")
        assert caught.value.code == ErrorCode.METHOD_NOT_FOUND
        assert await peer.call("add") is None
