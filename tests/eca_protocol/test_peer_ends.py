"""The ends of connections, and the answers to the requests that are still running."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_protocol import message_transport
from eca_protocol.errors import ConnectionClosed
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.message_transport import StreamTransport
from eca_protocol.outbox import WriteShape
from eca_protocol.peer import End, Peer
from eca_protocol.streams import memory_pair
from tests.eca_protocol.wire import (
    TABLE,
    Bare,
    Wire,
    cancel,
    code_of,
    conversation,
    notification,
    request,
    success,
)

pytestmark = pytest.mark.anyio

CANCELLED = ErrorCode.REQUEST_CANCELLED


class Odd:
    """A transport that is silent, or fails in one of its methods with an error."""

    def __init__(self, **errors: Exception) -> None:
        self._errors = errors

    async def _do(self, name: str) -> None:
        await anyio.lowlevel.checkpoint()
        if name in self._errors:
            raise self._errors[name]

    async def receive(self) -> bytes:
        await self._do("receive")
        if "close" not in self._errors:
            await anyio.sleep_forever()
        return b""

    async def send(self, data: bytes) -> None:
        await self._do("send")

    async def aclose(self) -> None:
        await self._do("close")


def peer_on(transport: Any, handlers: Any, **options: Any) -> Peer:
    options = {"side": "server", "table": TABLE, "codec": Bare(), **options}
    return Peer(StreamTransport(transport), handlers=handlers, **options)


def pair(handlers: Any, *, limit: int = 2**22, **options: Any) -> tuple[Peer, Wire]:
    near, far = memory_pair(limit=limit)
    return peer_on(near, handlers, **options), Wire(far)


async def forever() -> None:
    await anyio.sleep_forever()


WAITS = {"wait": lambda _: forever()}


def finish_writing(wire: Wire) -> None:
    wire.transport.close_writing()  # type: ignore[attr-defined]


async def serve(peer: Peer) -> End:
    async with peer:
        return await peer.serve()


async def test_the_end_of_input_ends_calls_and_answers_what_runs():
    peer, wire = pair(WAITS)
    await wire.send(request(1, "wait"), request(2, "wait"))
    finish_writing(wire)
    async with peer:
        call = peer.start_call("add")
        assert await peer.serve() == End("eof", "the other side closed the connection")
        with pytest.raises(ConnectionClosed, match="add: the other side closed"):
            await call.result()
        with pytest.raises(ConnectionClosed):
            peer.start_call("add")
        peer.notify("log", {"still": "written"})
    with pytest.raises(ConnectionClosed):
        peer.notify("log")
    assert peer.closed
    _, *rest = await wire.rest()
    assert rest[0] == notification("log", {"still": "written"})
    assert sorted(code_of(answer) for answer in rest[1:]) == [(1, CANCELLED), (2, CANCELLED)]


@pytest.mark.requirement("W-13i")
@pytest.mark.parametrize(
    ("last", "kind"),
    [(b"Content-Length: 10\r\n\r\n{", "truncated"), (b"Content-Length: x\r\n\r\n", "invalid")],
)
async def test_an_error_that_ends_the_input_is_answered_with_id_null(last, kind):
    calls: list[Any] = []
    peer, wire = pair({"log": calls.append})
    await wire.send(notification(), last)
    if kind == "invalid":
        await wire.send(notification())  # it is not read
    else:
        finish_writing(wire)
    end = await serve(peer)
    assert end.kind == kind
    assert peer.end == end
    assert code_of(*await wire.rest()) == (None, ErrorCode.PARSE_ERROR)
    assert calls == [None]


async def test_after_close_inside_a_handler_the_rest_of_the_read_is_not_dispatched():
    calls: list[Any] = []

    def leave(params: Any) -> str:
        calls.append(params)
        peer.close("enough")
        return "bye"

    peer, wire = pair({"add": leave})
    await wire.send(request(1), request(2), request(3))
    async with peer:
        assert await peer.serve() == End("closed", "enough")
    assert await wire.rest() == [success(1, "bye")]
    assert calls == [None]


async def test_close_before_serving_ends_it_at_once():
    peer, _ = pair({})
    async with peer:
        peer.close()
        assert (await peer.serve()).kind == "closed"


async def test_a_waiting_writer_fails_when_the_reader_is_gone():
    async with peer_on(Odd(send=BrokenPipeError("nobody is there")), {}) as peer:
        call = peer.start_call("add", {"text": "x" * 100_000})
        await peer.transport.drain()
        assert (await peer.serve()).kind == "broken"
        with pytest.raises(ConnectionClosed, match="nobody is there"):
            await call.result()
        assert peer.closed
        with pytest.raises(ConnectionClosed):
            peer.notify("log")


async def test_only_an_error_of_reading_is_an_end():
    end = await serve(peer_on(Odd(receive=OSError("bad device")), {}))
    assert end == End("broken", "reading failed: bad device")
    with pytest.raises(ConnectionResetError):
        await serve(peer_on(Odd(close=ConnectionResetError()), {}))
    await anyio.sleep(0)  # no cancelled scope is left behind
    peer = peer_on(Odd(send=ZeroDivisionError()), {})
    peer.notify("log")
    with pytest.raises(ExceptionGroup) as caught:
        await serve(peer)
    assert caught.group_contains(ZeroDivisionError)


@pytest.mark.parametrize("cancels", [False, True])
async def test_an_exception_of_the_body_comes_out_as_it_is_even_if_cancelled(cancels):
    peer, wire = pair(WAITS)
    await wire.send(request(1, "wait"))
    finish_writing(wire)

    async def body() -> None:
        async with peer:
            await peer.serve()
            if cancels:
                scope.cancel()
            raise ZeroDivisionError

    with anyio.CancelScope() as scope, pytest.raises(ZeroDivisionError):
        await body()
    assert code_of(*await wire.rest()) == (1, CANCELLED)


async def test_an_outer_cancellation_still_answers_and_flushes():
    started = anyio.Event()

    async def wait() -> None:
        started.set()
        await anyio.sleep_forever()

    peer, wire = pair({"wait": lambda _: wait()})
    await wire.send(request(1, "wait"))
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks, peer:
            tasks.start_soon(peer.serve)
            await started.wait()
            peer.notify("log", {"last": "words"})
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    notified, answer = await wire.rest()
    assert notified == notification("log", {"last": "words"})
    assert code_of(answer) == (1, CANCELLED)


async def test_a_cancelled_serve_ends_pending_and_later_calls():
    peer, _ = pair({})
    async with peer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.serve)
            call = peer.start_call("add")
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(5), pytest.raises(ConnectionClosed, match="add: the connection"):
            await call.result()
        with pytest.raises(ConnectionClosed):
            peer.start_call("add")


def test_a_task_cancelled_by_asyncio_itself_still_answers_and_flushes():
    async def main() -> list[Any]:
        started = asyncio.Event()

        async def wait() -> None:
            started.set()
            await asyncio.sleep(60)

        peer, wire = pair({"wait": lambda _: wait()})
        await wire.send(request(1, "wait"))
        task = asyncio.create_task(serve(peer))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await wire.rest()

    assert code_of(*asyncio.run(main())) == (1, CANCELLED)


async def test_a_handler_that_will_not_end_costs_no_answer():
    released = anyio.Event()

    async def stubborn() -> None:
        with anyio.CancelScope(shield=True):
            await released.wait()

    async def read_and_release(wire: Wire) -> None:
        assert code_of(await wire.receive()) == (1, CANCELLED)
        released.set()

    peer, wire = pair({"wait": lambda _: stubborn()})
    peer.flush_seconds = 0.02
    await wire.send(request(1, "wait"))
    finish_writing(wire)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_and_release, wire)
        await serve(peer)
    assert await wire.rest() == []


async def test_a_deaf_peer_delays_leaving_only_so_long():
    peer, wire = pair({}, limit=10)
    peer.flush_seconds = 0.02
    with anyio.fail_after(5):
        async with peer:
            peer.transport.shape = WriteShape(size=10)
            peer.notify("log", {"text": "x" * 100})
            peer.notify("log", {"text": "x" * 100})
            finish_writing(wire)
            await peer.serve()
    assert len(await wire.rest()) == 1


async def test_reading_waits_while_too_much_is_unwritten(monkeypatch):
    monkeypatch.setattr(message_transport, "CLOGGED", 1000)
    calls: list[Any] = []
    peer, wire = pair({"add": lambda n: calls.append(n) or "x" * 600}, limit=100)

    async def ask() -> None:
        for n in range(8):
            await wire.send(request(n, params={"n": n}))

    async with anyio.create_task_group() as tasks, peer:
        tasks.start_soon(peer.serve)
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert len(calls) < 6
        answers = [await wire.receive() for _ in range(8)]
    assert [answer["id"] for answer in answers] == list(range(8))


class Scripted:
    """A handler whose results the test sets one by one."""

    def __init__(self) -> None:
        self.open: list[Callable[[], None]] = []

    def __call__(self, params: Any) -> Any:
        return self._run(anyio.Event(), params)

    async def _run(self, finish: anyio.Event, how: Any) -> Any:
        self.open.append(finish.set)
        try:
            await finish.wait()
        finally:
            await anyio.lowlevel.checkpoint()
        if how == {"crash": True}:
            raise ZeroDivisionError
        return how


KINDS = ["wait", "crash", "add", "cancel", "finish", "let it run"]
steps = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 4)), max_size=30)


@pytest.mark.long(but=1)
@settings(max_examples=40)
@given(steps=steps, how=st.sampled_from(["eof", "outer cancel", "fault", "body"]))
async def test_every_request_is_answered_once_under_any_interleaving(steps, how):
    handlers = Scripted()
    sent: list[int] = []
    with anyio.CancelScope() as scope:
        async with conversation({"wait": handlers, "add": lambda _: 1}) as (peer, wire):
            for what, number in steps:
                if what in {"wait", "crash", "add"}:
                    sent.append(number)
                    method, params = ("wait", {"crash": True}) if what == "crash" else (what, None)
                    await wire.send(request(number, method, params))
                elif what == "cancel":
                    await wire.send(cancel(number))
                elif what == "finish" and number < len(handlers.open):
                    handlers.open[number]()
                for _ in range(number if what == "let it run" else 0):
                    await anyio.lowlevel.checkpoint()
            if how == "fault":
                await wire.send(b"Content-Length: x\r\n\r\n")
            elif how == "eof":
                finish_writing(wire)
            elif how == "outer cancel":
                scope.cancel()
            while how in {"fault", "eof"} and peer.end is None:
                await anyio.lowlevel.checkpoint()
    answers = [answer for answer in await wire.rest() if answer["id"] is not None]
    assert all(("result" in answer) != ("error" in answer) for answer in answers)
    answered = sorted(answer["id"] for answer in answers)
    if how in {"fault", "eof"}:
        assert answered == sorted(sent)
    else:  # an unread request is not answered; no request is answered twice
        assert Counter(answered) <= Counter(sent)


async def test_a_peer_runs_in_a_task_group_of_its_caller_and_any_task_may_close_it():
    peer, wire = pair(WAITS)

    async def open_and_leave() -> None:
        await tasks.start(peer.run)

    async def close() -> None:
        peer.close()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as opening:
                opening.start_soon(open_and_leave)
            peer.notify("log", {"n": 1})
            assert await wire.receive() == notification("log", {"n": 1})
            await wire.send(request(1, "wait"))
            call = peer.start_call("add")
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(close)
            with pytest.raises(ConnectionClosed):
                await call.result()
    assert peer.closed
    assert code_of((await wire.rest())[-1]) == (1, CANCELLED)
