"""Dispatch, answers and calls of a peer, on trio and on asyncio."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from eca_protocol.draft import codec_for
from eca_protocol.endpoint import Dialect, Method, Table
from eca_protocol.errors import (
    ConnectionClosed,
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
from eca_protocol.peer import Peer
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


class TestDispatch:
    async def test_handlers_are_called_in_wire_order(self):
        calls: list[Any] = []
        handlers = {"add": calls.append, "log": calls.append}
        async with conversation(handlers) as (_, wire):
            await wire.send(
                notification(params={"n": 1}),
                request(1, params={"n": 2}),
                notification(params={"n": 3}),
                request(2, params={"n": 4}),
            )
            assert await wire.receive() == success(1)
            assert await wire.receive() == success(2)
        assert calls == [{"n": n} for n in (1, 2, 3, 4)]

    async def test_what_a_plain_handler_says_is_before_its_answer(self):
        def handler(_: Any) -> str:
            peer.notify("log", {"text": "first"})
            return "second"

        async with conversation({"add": handler}) as (peer, wire):
            await wire.send(request(1))
            assert await wire.receive() == notification("log", {"text": "first"})
            assert await wire.receive() == success(1, "second")

    async def test_an_answer_is_before_what_the_handler_started(self):
        async def stream() -> None:
            for n in range(3):
                peer.notify("log", {"n": n})
                await anyio.lowlevel.checkpoint()

        def handler(_: Any) -> str:
            tasks.start_soon(stream)
            return "begun"

        talk = conversation({"add": handler})
        async with anyio.create_task_group() as tasks, talk as (peer, wire):
            await wire.send(request(1))
            assert await wire.receive() == success(1, "begun")
            for n in range(3):
                assert await wire.receive() == notification("log", {"n": n})

    async def test_a_waiting_handler_delays_no_other(self):
        waiting = Waiting()
        async with conversation({"wait": waiting, "add": lambda _: 1}) as (_, wire):
            await wire.send(request("slow", "wait"), request("quick"))
            assert await wire.receive() == success("quick", 1)
            waiting.finish.set()
            assert await wire.receive() == success("slow", "done")

    async def test_a_request_without_an_id_is_run_and_not_answered(self):
        waiting = Waiting()
        calls: list[Any] = []
        handlers = {"add": calls.append, "wait": waiting}
        async with conversation(handlers) as (_, wire):
            await wire.send(notification("add"), notification("wait"), request(1))
            await waiting.started.wait()
            waiting.finish.set()
            assert await wire.receive() == success(1)
        assert await wire.rest() == []
        assert calls == [None, None]

    async def test_a_notification_with_an_id_is_run_and_answered_null(self):
        calls: list[Any] = []
        async with conversation({"log": lambda params: calls.append(params) or 7}) as (_, wire):
            await wire.send(request(1, "log", {"a": 1}))
            assert await wire.receive() == success(1, None)
        assert calls == [{"a": 1}]

    async def test_an_unknown_request_is_refused_and_an_unknown_notification_ignored(self):
        async with conversation({}) as (_, wire):
            await wire.send(
                notification("$/nothing"),
                notification("nothing"),
                notification(),
                request(1, "nothing"),
                request(2, "add"),
            )
            assert code_of(await wire.receive()) == (1, ErrorCode.METHOD_NOT_FOUND)
            assert code_of(await wire.receive()) == (2, ErrorCode.METHOD_NOT_FOUND)

    async def test_a_codec_may_make_none_or_several_of_a_notification(self):
        class Splitting(Bare):
            def incoming(self, method: str, raw: Any) -> Any:
                return [("log", n) for n in range(raw["n"])] if method == "flood" else ()

            def outgoing(self, method: str, params: Any) -> Any:
                return [("flood", {"n": n}) for n in range(params)]

        calls: list[Any] = []
        handlers = {"log": calls.append, "add": lambda _: None}
        async with conversation(handlers, codec=Splitting()) as (peer, wire):
            await wire.send(notification("flood", {"n": 2}), notification("log"), request(1))
            assert await wire.receive() == success(1)
            peer.notify("log", 0)
            peer.notify("log", 2)
            assert await wire.receive() == notification("flood", {"n": 0})
            assert await wire.receive() == notification("flood", {"n": 1})
        assert calls == [0, 1]

    async def test_the_codec_may_be_exchanged_in_the_middle_of_a_read(self):
        class Loud(Bare):
            def decode_params(self, method: str, raw: Any) -> Any:
                return str(raw).upper()

            def encode_result(self, method: str, result: Any) -> Any:
                return f"{result}!"

        def exchange(params: Any) -> Any:
            peer.codec = Loud()
            return params

        async with conversation({"log": exchange, "add": lambda params: params}) as (peer, wire):
            await wire.send(
                request(1, params={"a": "b"}), notification("log"), request(2, params={"a": "b"})
            )
            assert await wire.receive() == success(1, {"a": "b"})
            assert await wire.receive() == success(2, "{'A': 'B'}!")

    async def test_what_is_no_message_is_answered_and_the_next_one_served(self):
        async with conversation({"add": lambda _: "served"}) as (_, wire):
            await wire.send(
                b"Content-Length: 1\r\n\r\n{",
                b"Content-Length: 2\r\n\r\n[]",
                b"Content-Length: 2\r\nContent-Type: x; charset=utf-16\r\n\r\n{}",
                request(1),
            )
            assert code_of(await wire.receive()) == (None, ErrorCode.PARSE_ERROR)
            assert code_of(await wire.receive()) == (None, ErrorCode.INVALID_REQUEST)
            assert code_of(await wire.receive()) == (None, ErrorCode.PARSE_ERROR)
            assert await wire.receive() == success(1, "served")


class TestGate:
    async def test_what_comes_too_early_waits_for_the_answer_of_initialize(self):
        initialize = Waiting("welcome")
        handlers = {"initialize": initialize, "add": lambda _: "added"}
        table = Table(
            [
                Method(name="initialize", kind="request", direction="client_to_server"),
                Method(name="add", kind="request", direction="client_to_server"),
            ]
        )
        async with conversation(handlers, table=table, gate=LifecycleGate()) as (_, wire):
            await wire.send(request(0, "initialize"), request(1), request(2))
            await initialize.started.wait()
            await wire.send(request(1))
            assert code_of(await wire.receive()) == (1, ErrorCode.INVALID_REQUEST)
            initialize.finish.set()
            assert await wire.receive() == success(0, "welcome")
            assert await wire.receive() == success(1, "added")
            assert await wire.receive() == success(2, "added")

    async def test_cancelling_initialize_answers_what_waited_for_it(self):
        initialize = Waiting()
        table = Table([Method(name="initialize", kind="request", direction="client_to_server")])
        handlers = {"initialize": initialize}
        async with conversation(handlers, table=table, gate=LifecycleGate()) as (_, wire):
            await wire.send(request(0, "initialize"), request(1), cancel(0))
            assert code_of(await wire.receive()) == (0, CANCELLED)
            assert code_of(await wire.receive()) == (1, ErrorCode.SERVER_NOT_INITIALIZED)

    async def test_what_still_waits_when_the_peer_is_left_is_answered(self):
        initialize = Waiting()
        table = Table([Method(name="initialize", kind="request", direction="client_to_server")])
        handlers = {"initialize": initialize}
        async with conversation(handlers, table=table, gate=LifecycleGate()) as (_, wire):
            await wire.send(request(0, "initialize"), request(1))
            await initialize.started.wait()
        answers = [code_of(answer) for answer in await wire.rest()]
        assert answers == [(0, CANCELLED), (1, ErrorCode.SERVER_NOT_INITIALIZED)]


class TestCancel:
    async def test_a_request_cancelled_in_the_same_read_is_answered_once(self):
        waiting = Waiting()
        async with conversation({"wait": waiting, "add": lambda _: None}) as (_, wire):
            await wire.send(request(1, "wait"), cancel(1), request(2))
            assert code_of(await wire.receive()) == (1, CANCELLED)
            assert await wire.receive() == success(2)
            await waiting.cancelled.wait()
        assert await wire.rest() == []

    async def test_a_request_cancelled_in_flight_is_answered_once(self):
        waiting = Waiting()
        async with conversation({"wait": waiting}) as (_, wire):
            await wire.send(request("1", "wait"))
            await waiting.started.wait()
            await wire.send(cancel(1), cancel("1"), cancel("1"))
            assert code_of(await wire.receive()) == ("1", CANCELLED)
            await waiting.cancelled.wait()
        assert await wire.rest() == []

    async def test_a_cancel_that_comes_too_late_is_ignored(self):
        async with conversation({"add": lambda _: "served"}) as (_, wire):
            await wire.send(request(1), cancel(1), cancel(1), request(2))
            assert await wire.receive() == success(1, "served")
            assert await wire.receive() == success(2, "served")
        assert await wire.rest() == []

    async def test_the_id_of_a_cancelled_request_may_be_used_while_its_handler_ends(self):
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

    async def test_a_cancelled_handler_that_fails_with_a_group_affects_no_other(self):
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


class TestFailures:
    @pytest.mark.parametrize("waits", [False, True])
    async def test_nothing_internal_leaks_from_a_crash(self, waits, caplog):
        def crash(_: Any) -> Any:
            if waits:
                return crash_later()
            raise ValueError("the secret is 42")

        async def crash_later() -> None:
            await anyio.lowlevel.checkpoint()
            raise ValueError("the secret is 42")

        async with conversation({"wait": crash, "add": lambda _: "alive"}) as (_, wire):
            await wire.send(request(1, "wait"))
            answer = await wire.receive()
            assert code_of(answer) == (1, INTERNAL)
            assert answer["error"].keys() == {"code", "message"}
            assert "42" not in answer["error"]["message"]
            await wire.send(request(2))
            assert await wire.receive() == success(2, "alive")
        assert "the secret is 42" in caplog.text

    @pytest.mark.parametrize(
        ("raised", "code"),
        [
            (RPCError(-32001, "no", {"why": 1}), -32001),
            (RequestFailed(-32001, "theirs"), INTERNAL),
            (RemoteProtocolError("theirs"), INTERNAL),
            (ConnectionClosed("theirs"), INTERNAL),
        ],
    )
    async def test_only_what_a_handler_means_as_its_answer_is_one(self, raised, code):
        def handler(_: Any) -> Any:
            raise raised

        async with conversation({"add": handler}) as (_, wire):
            await wire.send(request(1))
            answer = await wire.receive()
        assert code_of(answer) == (1, code)
        assert "theirs" not in answer["error"]["message"]
        if code != INTERNAL:
            assert answer["error"] == {"code": code, "message": "no", "data": {"why": 1}}

    async def test_params_that_do_not_fit_are_refused_with_the_field(self):
        async with conversation({"add": lambda _: None}) as (_, wire):
            await wire.send(request(1, params=[1]))
            answer = await wire.receive()
        assert code_of(answer) == (1, ErrorCode.INVALID_PARAMS)
        assert answer["error"]["message"] == "params: expected an object, got an array"

    @pytest.mark.parametrize("result", [object(), float("nan"), {"deep": {1, 2}}])
    async def test_a_result_that_cannot_be_written_is_an_internal_error(self, result):
        async with conversation({"add": lambda _: result}) as (_, wire):
            await wire.send(request(1))
            assert code_of(await wire.receive()) == (1, INTERNAL)

    async def test_an_error_whose_data_cannot_be_written_goes_without_them(self):
        def handler(_: Any) -> Any:
            raise RPCError(-32001, "no", object())

        async with conversation({"add": handler}) as (_, wire):
            await wire.send(request(1))
            answer = await wire.receive()
        assert answer["error"] == {"code": -32001, "message": "no"}

    async def test_a_failing_notification_is_logged_and_affects_nothing_else(self, caplog):
        def fail(_: Any) -> Any:
            raise ValueError("broken handler")

        handlers = {"log": fail, "flood": lambda _: fail(None), "add": lambda _: "alive"}
        async with conversation(handlers) as (_, wire):
            await wire.send(notification(), notification(params=[1]), request(1))
            assert await wire.receive() == success(1, "alive")
        assert "broken handler" in caplog.text
        assert "params: expected an object" in caplog.text

    async def test_a_handler_that_cannot_be_looked_up_fails_only_its_request(self):
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

    async def test_a_notification_handler_that_would_wait_is_reported(self, caplog):
        waiting = Waiting()
        async with conversation({"log": waiting, "add": lambda _: None}) as (_, wire):
            await wire.send(notification(), request(1))
            assert await wire.receive() == success(1)
            assert not waiting.started.is_set()
        assert "must not be async" in caplog.text


async def test_a_protocol_of_its_own_with_lines_and_other_cancel_rules():
    dialect = Dialect(
        cancel_method="notifications/cancelled",
        cancel_key="requestId",
        answers_cancelled=False,
        answers_invalid=False,
    )
    table = Table(
        [
            Method(name="tools/call", kind="request", direction="client_to_server"),
            Method(name="ping", kind="request", direction="both"),
            Method(name="notifications/message", kind="notification", direction="both"),
        ]
    )
    waiting = Waiting()
    handlers = {"tools/call": waiting, "ping": lambda _: {}}
    options: dict[str, Any] = {"table": table, "dialect": dialect, "framing": LINES}
    async with conversation(handlers, **options) as (peer, wire):
        await wire.send(
            b"noise on the line\n", request("a", "tools/call"), cancel("a"), request("b", "ping")
        )
        assert await wire.receive() == success("b", {})
        await waiting.started.wait()
        await wire.send(notification("notifications/cancelled", {"requestId": "a"}))
        await waiting.cancelled.wait()
        call = peer.start_call("ping")
        peer.abandon(call)
        assert await wire.receive() == request(call.id, "ping")
        gone = notification("notifications/cancelled", {"requestId": call.id})
        assert await wire.receive() == gone
        peer.notify("notifications/message", {"text": "two\nlines"})
        assert (await wire.receive())["params"] == {"text": "two\nlines"}
    assert await wire.rest() == []


async def test_nothing_that_passes_is_logged(caplog):
    caplog.set_level(logging.DEBUG, logger="eca_protocol")
    async with conversation({"add": lambda params: params, "log": lambda _: None}) as (_, wire):
        await wire.send(request(1, params={"key": "a prompt"}), notification())
        await wire.receive()
    assert caplog.messages == []


async def test_a_handler_of_a_method_that_is_not_received_is_refused():
    ours, _ = memory_pair()
    for side, name in (("server", "chat/promt"), ("client", "chat/prompt")):
        with pytest.raises(LocalProtocolError, match=f"a {side} receives no method '{name}'"):
            Peer(
                StreamTransport(ours),
                side=side,
                table=ECA,
                codec=codec_for(Revision.CURRENT),
                handlers={name: lambda _: None},
            )
