"""Dispatch, answers and calls of a peer, on trio and on asyncio."""

import logging
import math
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from eca_protocol.draft import codec_for
from eca_protocol.endpoint import Dialect, Method, Table
from eca_protocol.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    LocalProtocolError,
    RemoteProtocolError,
    RequestFailed,
    RPCError,
)
from eca_protocol.framing import LINES
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.lifecycle import LifecycleGate
from eca_protocol.message_transport import StreamTransport
from eca_protocol.methods import ECA
from eca_protocol.peer import End, Peer
from eca_protocol.revisions import Revision
from eca_protocol.streams import memory_pair
from tests.eca_protocol.wire import (
    Bare,
    cancel,
    code_of,
    conversation,
    notification,
    request,
    success,
)

pytestmark = pytest.mark.anyio

CANCELLED, INTERNAL = ErrorCode.REQUEST_CANCELLED, ErrorCode.INTERNAL_ERROR


class Waiting:
    """A handler whose coroutine waits for the event `finish`."""

    def __init__(self, result: Any = "done") -> None:
        self.started = anyio.Event()
        self.finish = anyio.Event()
        self.cancelled = anyio.Event()
        self._result = result

    def __call__(self, _params: Any) -> Any:
        return self._run()

    async def _run(self) -> Any:
        self.started.set()
        try:
            await self.finish.wait()
        except BaseException:
            self.cancelled.set()
            raise
        return self._result


async def test_handlers_are_called_in_wire_order_and_a_waiting_one_delays_no_other():
    calls: list[Any] = []
    waiting = Waiting()
    handlers = {"add": calls.append, "log": calls.append, "wait": waiting}
    async with conversation(handlers) as (_, wire):
        await wire.send(
            request("slow", "wait"),
            notification(params={"n": 1}),
            request(1, params={"n": 2}),
            notification(params={"n": 3}),
            request(2, params={"n": 4}),
        )
        assert await wire.receive() == success(1)
        assert await wire.receive() == success(2)
        assert calls == [{"n": n} for n in (1, 2, 3, 4)]
        waiting.finish.set()
        assert await wire.receive() == success("slow", "done")


async def test_an_answer_is_after_what_its_handler_says_and_before_what_it_started():
    async def stream() -> None:
        for n in range(3):
            peer.notify("log", {"n": n})
            await anyio.lowlevel.checkpoint()

    def handler(_: Any) -> str:
        peer.notify("log", {"text": "first"})
        tasks.start_soon(stream)
        return "second"

    talk = conversation({"add": handler})
    async with anyio.create_task_group() as tasks, talk as (peer, wire):
        await wire.send(request(1))
        assert await wire.receive() == notification("log", {"text": "first"})
        assert await wire.receive() == success(1, "second")
        for n in range(3):
            assert await wire.receive() == notification("log", {"n": n})


@pytest.mark.requirement("BASE-18", "W-4a", "W-4b")
async def test_what_has_an_id_is_answered_and_nothing_else_is():
    waiting = Waiting()
    calls: list[Any] = []
    handlers = {"log": lambda params: calls.append(params) or 7, "wait": waiting}
    async with conversation(handlers) as (_, wire):
        await wire.send(notification("log"), notification("wait"), request(1, "log", {"a": 1}))
        await waiting.started.wait()
        waiting.finish.set()
        assert await wire.receive() == success(1, None)
        await wire.send(notification("nothing"), request(2, "nothing"), request(3, "add"))
        assert code_of(await wire.receive()) == (2, ErrorCode.METHOD_NOT_FOUND)
        assert code_of(await wire.receive()) == (3, ErrorCode.METHOD_NOT_FOUND)
    assert await wire.rest() == []
    assert calls == [None, {"a": 1}]


async def test_too_many_running_requests_without_an_id_are_dropped():
    started = 0

    async def wait() -> None:
        nonlocal started
        started += 1
        await anyio.sleep_forever()

    async with conversation({"wait": lambda _: wait(), "add": lambda _: started}) as (peer, wire):
        peer._endpoint.max_running = 2
        await wire.send(*[notification("wait")] * 5, request(1, "add"))
        assert await wire.receive() == success(1, 0)
        await wire.send(*[notification("wait")] * 5, request(2, "add"))
        assert await wire.receive() == success(2, 2)


async def test_the_codec_may_be_exchanged_in_the_middle_of_a_read():
    class Loud(Bare):
        def decode_params(self, method: str, raw: Any) -> Any:
            return str(raw).upper()

        def encode_result(self, method: str, result: Any) -> Any:
            return f"{result}!"

    def exchange(params: Any) -> Any:
        peer.codec = Loud()
        return params

    async with conversation({"log": exchange, "add": lambda params: params}) as (peer, wire):
        first, second = (request(number, params={"a": "b"}) for number in (1, 2))
        await wire.send(first, notification("log"), second)
        assert await wire.receive() == success(1, {"a": "b"})
        assert await wire.receive() == success(2, "{'A': 'B'}!")


@pytest.mark.parametrize("cancels", [True, False])
async def test_what_waits_for_initialize_is_answered_if_it_is_cancelled_or_the_peer_left(cancels):
    initialize = Waiting()
    table = Table([Method(name="initialize", kind="request", direction="client_to_server")])
    options: dict[str, Any] = {"table": table, "gate": LifecycleGate()}
    async with conversation({"initialize": initialize}, **options) as (_, wire):
        await wire.send(request(0, "initialize"), request(1))
        await initialize.started.wait()
        if cancels:
            await wire.send(cancel(0))
            await initialize.cancelled.wait()
    answers = [code_of(answer) for answer in await wire.rest()]
    assert answers == [(0, CANCELLED), (1, ErrorCode.SERVER_NOT_INITIALIZED)]


async def test_a_cancelled_request_is_answered_once_at_whatever_time_its_cancel_comes():
    waiting, later = Waiting(), Waiting()
    handlers = {"wait": lambda n: (later if n else waiting)(n), "add": lambda _: "served"}
    async with conversation(handlers) as (_, wire):
        await wire.send(request(1, "wait"), cancel(1), request(2), cancel(2), cancel(2))
        assert code_of(await wire.receive()) == (1, CANCELLED)
        assert await wire.receive() == success(2, "served")
        await waiting.cancelled.wait()
        await wire.send(request("1", "wait", {"n": 2}))
        await later.started.wait()
        await wire.send(cancel(1), cancel("1"), cancel("1"))
        assert code_of(await wire.receive()) == ("1", CANCELLED)
        await later.cancelled.wait()
    assert await wire.rest() == []


async def test_the_id_of_a_cancelled_request_may_be_used_while_its_handler_ends():
    ended = anyio.Event()

    async def stubborn() -> str:
        with anyio.CancelScope(shield=True):
            await ended.wait()
        return "too late"

    async def second() -> str:
        await anyio.lowlevel.checkpoint()
        return "second"

    handlers = {"wait": lambda _: stubborn(), "add": lambda _: second()}
    async with conversation(handlers) as (_, wire):
        await wire.send(request(1, "wait"))
        await wire.send(cancel(1))
        assert code_of(await wire.receive()) == (1, CANCELLED)
        await wire.send(request(1, "add"))
        ended.set()
        assert await wire.receive() == success(1, "second")
    assert await wire.rest() == []


async def test_a_cancelled_handler_that_fails_with_a_group_affects_no_other():
    started = anyio.Event()

    async def fail_at_the_end() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("in the clean-up")

    async def handler() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(fail_at_the_end)
            await anyio.sleep_forever()

    handlers = {"wait": lambda _: handler(), "add": lambda _: "alive"}
    async with conversation(handlers) as (_, wire):
        await wire.send(request(1, "wait"))
        await started.wait()
        await wire.send(cancel(1), request(2))
        assert code_of(await wire.receive()) == (1, CANCELLED)
        assert await wire.receive() == success(2, "alive")
    assert await wire.rest() == []


async def test_nothing_internal_leaks_from_a_crash(caplog):
    def crash(_: Any) -> Any:
        raise ValueError("the secret is 42")

    async def crash_later() -> None:
        await anyio.lowlevel.checkpoint()
        crash(None)

    async with conversation({"add": crash, "wait": lambda _: crash_later()}) as (_, wire):
        for number, method in enumerate(("add", "wait", "add")):
            await wire.send(request(number, method))
            answer = await wire.receive()
            assert code_of(answer) == (number, INTERNAL)
            assert answer["error"].keys() == {"code", "message"}
            assert "42" not in answer["error"]["message"]
    assert caplog.text.count("ValueError: the secret is 42") == 3


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (RPCError(-32001, "no", {"why": 1}), {"code": -32001, "message": "no", "data": {"why": 1}}),
        (RPCError(-32001, "no", object()), {"code": -32001, "message": "no"}),
        (RequestFailed(-32001, "theirs"), None),
        (RemoteProtocolError("theirs"), None),
        (ConnectionClosed("theirs"), None),
        (object(), None),
        (float("nan"), None),
        ({"deep": {1, 2}}, None),
    ],
)
async def test_only_what_a_handler_means_as_its_answer_is_one(outcome, error):
    def handler(_: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with conversation({"add": handler}) as (_, wire):
        await wire.send(request(1))
        answer = await wire.receive()
    if error is not None:
        assert answer["error"] == error
    else:
        assert code_of(answer) == (1, INTERNAL)
        assert "theirs" not in answer["error"]["message"]


async def test_a_handler_that_cannot_be_looked_up_fails_only_its_request():
    class Broken(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            if name == "log":
                raise OSError("no descriptor is free")
            return super().get(name, default)

    handlers = Broken(add=lambda _: "alive", log=lambda _: None)
    async with conversation(handlers) as (_, wire):
        await wire.send(notification(), request(1))
        assert await wire.receive() == success(1, "alive")
        handlers.get = None  # type: ignore[method-assign]
        await wire.send(request(2))
        assert code_of(await wire.receive()) == (2, INTERNAL)


async def test_a_failing_notification_is_logged_and_wrong_params_of_a_request_are_refused(caplog):
    def fail(_: Any) -> Any:
        raise ValueError("broken handler")

    waiting = Waiting()
    async with conversation({"log": fail, "flood": waiting, "add": str}) as (_, wire):
        await wire.send(notification(), notification(params=[1]), notification("flood"))
        await wire.send(request(1, params=[1]))
        answer = await wire.receive()
        assert code_of(answer) == (1, ErrorCode.INVALID_PARAMS)
        assert answer["error"]["message"] == "params: expected an object, got an array"
        assert not waiting.started.is_set()
    assert "broken handler" in caplog.text
    assert "params: expected an object" in caplog.text
    assert "must not be async" in caplog.text


async def test_a_protocol_of_its_own_with_lines_and_other_cancel_rules():
    dialect = Dialect(
        cancel_method="notifications/cancelled",
        cancel_key="requestId",
        answers_cancelled=False,
        answers_invalid=False,
    )
    waiting = Waiting()
    handlers = {"wait": waiting, "add": lambda _: {}}
    async with conversation(handlers, dialect=dialect, framing=LINES) as (peer, wire):
        await wire.send(b"noise\n", request("a", "wait"), cancel("a"), request("b"))
        assert await wire.receive() == success("b", {})
        await waiting.started.wait()
        await wire.send(notification("notifications/cancelled", {"requestId": "a"}))
        await waiting.cancelled.wait()
        call = peer.start_call("add")
        peer.abandon(call)
        assert await wire.receive() == request(call.id)
        gone = notification("notifications/cancelled", {"requestId": call.id})
        assert await wire.receive() == gone
        peer.notify("log", {"text": "two\nlines"})
        assert (await wire.receive())["params"] == {"text": "two\nlines"}
    assert await wire.rest() == []


async def test_nothing_that_passes_is_logged(caplog):
    caplog.set_level(logging.DEBUG, logger="eca_protocol")
    async with conversation({"add": lambda params: params, "log": lambda _: None}) as (_, wire):
        await wire.send(request(1, params={"key": "a prompt"}), notification())
        await wire.receive()
    assert caplog.messages == []


async def test_a_handler_of_a_method_that_is_not_received_is_refused():
    transport, codec = StreamTransport(memory_pair()[0]), codec_for(Revision.CURRENT)
    for side, name in (("server", "chat/promt"), ("client", "chat/prompt")):
        handlers = {name: lambda _: None}
        with pytest.raises(LocalProtocolError, match=f"a {side} receives no method '{name}'"):
            Peer(transport, side=side, table=ECA, codec=codec, handlers=handlers)


@pytest.mark.requirement("BASE-29")
async def test_what_is_behind_a_message_that_closes_the_peer_is_not_dispatched():
    calls: list[Any] = []

    def close(params: Any) -> None:
        calls.append(params)
        peer.close("enough")

    async with conversation({"log": close}) as (peer, _):
        assert peer.take([notification(params={"n": n}) for n in (1, 2)]) == peer.end
        assert peer.take([notification(params={"n": 3})]) == End("closed", "enough")
    assert calls == [{"n": 1}]


async def test_a_call_gets_its_result_or_raises_the_error_of_the_other_side():
    async with conversation({}) as (peer, wire):
        first = peer.start_call("add", {"a": 1})
        second, third = peer.start_call("add"), peer.start_call("add")
        assert await wire.receive() == request(first.id, "add", {"a": 1})
        assert await wire.receive() == request(second.id, "add")
        error = {"code": 5, "message": "no", "data": [1]}
        await wire.send(success(second.id, [2]), success(first.id, [1]))
        await wire.send({"jsonrpc": "2.0", "id": third.id, "error": error})
        assert await first.result() == [1]
        assert await second.result(deadline=5) == [2]
        with pytest.raises(RequestFailed) as caught:
            await third.result()
        assert not peer.pending_calls
    assert (caught.value.code, caught.value.data, caught.value.method) == (5, [1], "add")


async def test_each_call_ends_at_its_own_deadline_which_can_be_moved():
    async with conversation({}) as (peer, wire):
        waits = {"late": 30, "moved": 0.2, "second": 0.3, "first": 0.001, "none": None}
        calls = {name: peer.start_call("add") for name in waits}
        outcomes: dict[str, Any] = {}

        async def run(name: str, seconds: float | None) -> None:
            try:
                outcomes[name] = await calls[name].result(deadline=seconds)
            except DeadlineExceeded as error:
                outcomes[name] = error.seconds

        async with anyio.create_task_group() as tasks:
            for name, seconds in waits.items():
                tasks.start_soon(run, name, seconds)
            while calls["moved"].expires_at == math.inf:
                await anyio.lowlevel.checkpoint()
            calls["moved"].expires_at += 30
            for _ in calls:
                await wire.receive()
            cancelled = {(await wire.receive())["params"]["id"] for _ in range(2)}
            assert cancelled == {calls["first"].id, calls["second"].id}
            answered = ("late", "moved", "none")
            await wire.send(*(success(calls[name].id, "answer") for name in answered))
        assert outcomes == {"first": 0.001, "second": 0.3} | dict.fromkeys(answered, "answer")


async def test_a_call_that_is_given_up_says_so_once_and_its_late_answer_is_ignored():
    async with conversation({"add": lambda _: "alive"}) as (peer, wire):
        with pytest.raises(DeadlineExceeded, match="add"):
            await peer.call("add", deadline=0.001)
        sent = await wire.receive()
        assert await wire.receive() == cancel(sent["id"])
        await wire.send(success(sent["id"], "late"), request(9))
        assert await wire.receive() == success(9, "alive")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.call, "add")
            sent = await wire.receive()
            tasks.cancel_scope.cancel()
        assert await wire.receive() == cancel(sent["id"])
        call = peer.start_call("add")
        peer.abandon(call)
        peer.abandon(call)
        assert await wire.receive() == request(call.id, "add")
        assert await wire.receive() == cancel(call.id)
        assert not peer.pending_calls
    assert await wire.rest() == []


async def test_what_cannot_be_written_is_refused_and_leaves_no_call_behind():
    async with conversation({}) as (peer, wire):
        with pytest.raises(LocalProtocolError):
            peer.start_call("add", {"x": float("inf")})
        with pytest.raises(LocalProtocolError):
            peer.notify("log", object())
        assert not peer.pending_calls
        assert not peer._endpoint.pending_calls
    assert await wire.rest() == []


async def test_a_handler_may_call_back_while_its_request_runs():
    async def ask_back() -> Any:
        return await peer.call("add", {"back": True})

    async with conversation({"wait": lambda _: ask_back()}) as (peer, wire):
        await wire.send(request(1, "wait"))
        question = await wire.receive()
        await wire.send(success(question["id"], "yes"))
        assert await wire.receive() == success(1, "yes")


async def test_a_task_that_is_started_while_the_peer_is_left_is_cancelled():
    started = anyio.Event()
    with anyio.fail_after(10):
        async with conversation({}) as (peer, _):

            async def start_a_late_one() -> None:
                try:
                    started.set()
                    await anyio.sleep_forever()
                finally:
                    peer.start_soon(anyio.sleep_forever)

            peer.start_soon(start_a_late_one)
            await started.wait()
