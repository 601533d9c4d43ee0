"""Our calls: their answers, deadlines and cancellations, on trio and on asyncio."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from eca_protocol.errors import DeadlineExceeded, LocalProtocolError, RequestFailed
from tests.eca_protocol.wire import cancel, conversation, request, success

pytestmark = pytest.mark.anyio


class TestCalls:
    async def test_a_call_gets_its_result(self) -> None:
        async with conversation({}) as (peer, wire):
            first = peer.start_call("add", {"a": 1})
            second = peer.start_call("add")
            assert await wire.receive() == request(first.id, "add", {"a": 1})
            assert await wire.receive() == request(second.id, "add")
            await wire.send(success(second.id, [2]), success(first.id, [1]))
            assert await first.result() == [1]
            assert await second.result(deadline=5) == [2]
            assert not peer.pending_calls

    async def test_a_call_that_fails_raises_the_error_of_the_other_side(self) -> None:
        async with conversation({}) as (peer, wire):
            call = peer.start_call("add")
            error = {"code": 5, "message": "no", "data": [1]}
            await wire.send({"jsonrpc": "2.0", "id": call.id, "error": error})
            with pytest.raises(RequestFailed) as caught:
                await call.result()
        assert (caught.value.code, caught.value.data, caught.value.method) == (5, [1], "add")

    async def test_a_deadline_says_so_to_the_other_side_and_a_late_answer_is_ignored(self) -> None:
        async with conversation({"add": lambda _: "alive"}) as (peer, wire):
            with pytest.raises(DeadlineExceeded, match="add"):
                await peer.call("add", deadline=0.001)
            sent = await wire.receive()
            assert await wire.receive() == cancel(sent["id"])
            await wire.send(success(sent["id"], "late"), request(9))
            assert await wire.receive() == success(9, "alive")
            assert not peer.pending_calls

    async def test_a_caller_that_is_cancelled_says_so_to_the_other_side(self) -> None:
        async with conversation({}) as (peer, wire):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(peer.call, "add")
                sent = await wire.receive()
                tasks.cancel_scope.cancel()
            assert await wire.receive() == cancel(sent["id"])
            assert not peer.pending_calls

    async def test_an_abandoned_call_is_cancelled_once(self) -> None:
        async with conversation({}) as (peer, wire):
            call = peer.start_call("add")
            peer.abandon(call)
            peer.abandon(call)
            assert await wire.receive() == request(call.id, "add")
            assert await wire.receive() == cancel(call.id)
        assert await wire.rest() == []

    async def test_what_cannot_be_written_is_refused_and_leaves_no_call_behind(self) -> None:
        async with conversation({}) as (peer, wire):
            with pytest.raises(LocalProtocolError):
                peer.start_call("add", {"x": float("inf")})
            with pytest.raises(LocalProtocolError):
                peer.notify("log", object())
            assert not peer.pending_calls
            assert not peer._endpoint.pending_calls
        assert await wire.rest() == []

    async def test_a_handler_may_call_back_while_its_request_runs(self) -> None:
        async def ask_back() -> Any:
            return await peer.call("add", {"back": True})

        async with conversation({"wait": lambda _: ask_back()}) as (peer, wire):
            await wire.send(request(1, "wait"))
            question = await wire.receive()
            await wire.send(success(question["id"], "yes"))
            assert await wire.receive() == success(1, "yes")

    async def test_ten_thousand_requests_at_once_are_answered_once_each(self) -> None:
        handlers = {"add": lambda params: params["n"], "wait": lambda params: later(params["n"])}

        async def later(n: int) -> int:
            await anyio.lowlevel.checkpoint()
            return n

        async with conversation(handlers) as (_, wire):
            await wire.send(
                *(request(n, "wait" if n % 2 else "add", {"n": n}) for n in range(10_000))
            )
            answers = [await wire.receive() for _ in range(10_000)]
        assert await wire.rest() == []
        assert sorted(answer["id"] for answer in answers) == list(range(10_000))
        assert all(answer["id"] == answer["result"] for answer in answers)
