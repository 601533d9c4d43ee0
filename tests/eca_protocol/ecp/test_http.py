"""Agents over HTTP: our endpoint and client, answers of other servers; agents of every kind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from eca_protocol import http_server, json
from eca_protocol.ecp import (
    AgentError,
    AgentLimits,
    Result,
    agent,
    as_agent,
    connect_agent,
    on_reset,
    on_step,
    run_conversation,
    serving_http,
)
from eca_protocol.ecp.connection import AgentConnection
from eca_protocol.framing import LINES
from eca_protocol.http import HTTPClient
from eca_protocol.http_server import HTTPRequest, Responder
from eca_protocol.streams import memory_pair
from tests.eca_protocol.wire import Wire, request

pytestmark = pytest.mark.anyio


class Counter:
    """An agent that counts the inputs of its conversation."""

    def __init__(self) -> None:
        self.steps = 0

    @on_step
    async def count(self, text: str) -> Result:
        self.steps += 1
        return Result(public_output=f"{self.steps} {text}")


def call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def test_two_evaluators_have_a_conversation_each_and_a_reset_forgets_it() -> None:
    async with serving_http(Counter) as server:
        url = f"{server.url}/ecp"
        async with connect_agent(url) as one, connect_agent(url) as two:
            assert (await one.initialize(deadline=20)).name == "Counter"
            await two.initialize(deadline=20)
            assert (await one.step("é\u2028", deadline=20)).public_output == "1 é\u2028"
            assert (await one.step("b", deadline=20)).public_output == "2 b"
            assert (await two.step("c", deadline=20)).public_output == "1 c"
            await one.reset(deadline=20)
            assert (await one.step("d", deadline=20)).public_output == "1 d"


async def test_without_a_session_header_a_step_goes_to_the_conversation_begun_last() -> None:
    async with serving_http(Counter) as server, HTTPClient() as client:

        async def post(method: str, **params: Any) -> Any:
            content = json.dumps(call(method, **params))
            async with client.stream("POST", f"{server.url}/ecp", content=content) as response:
                answer = json.loads(await response.read())
            return answer.get("result", {}).get("public_output", answer)

        await post("agent/initialize")
        assert await post("agent/step", input="a") == "1 a"
        refused = await post("agent/initialize", protocol_version="99.0")
        assert refused["error"]["code"] == -32001
        assert await post("agent/step", input="b") == "2 b"
        await post("agent/initialize")
        assert await post("agent/step", input="c") == "1 c"


async def test_an_evaluator_that_hangs_up_frees_the_conversation_for_the_next() -> None:
    async def answer(text: str) -> str:
        if text == "hang":
            await anyio.sleep_forever()
        return text

    async with serving_http(answer) as server, connect_agent(f"{server.url}/ecp") as agent:
        with pytest.raises(AgentError, match="no complete answer"):
            await agent.step("hang", deadline=0.1)
        assert (await agent.step("fine", deadline=20)).public_output == "fine"


async def test_a_long_step_is_answered_by_events_and_stays_alive() -> None:
    kept_alive = anyio.Event()

    async def think(text: str) -> str:
        await kept_alive.wait()
        return f"at last {text}"

    body = b""
    async with (
        serving_http(think, keep_alive=0.01) as server,
        HTTPClient() as client,
        client.stream(
            "POST",
            f"{server.url}/ecp",
            headers={"accept": "application/json, text/event-stream"},
            content=json.dumps(call("agent/step", input="x")),
        ) as response,
    ):
        assert response.headers["content-type"] == "text/event-stream"
        async for chunk in response.chunks():
            body += chunk
            if body.count(b": working") > 1:
                kept_alive.set()
    assert b"at last x" in body


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_the_endpoint_answers_each_kind_of_request_as_the_protocol_says() -> None:
    step = json.dumps(call("agent/step", input="x"))
    notification = json.dumps({"jsonrpc": "2.0", "method": "agent/reset"})
    json_only = {"accept": "application/json"}
    future = json.dumps(call("agent/initialize", protocol_version="2.0"))
    rows: list[tuple[str, str, dict[str, str], bytes, int, bytes]] = [
        ("POST", "/ecp", json_only, step, 200, b'"public_output"'),
        ("POST", "/ecp?a=b", {}, step, 200, b'"public_output"'),
        ("POST", "/ecp", {}, notification, 202, b""),
        ("POST", "/ecp", {}, json.dumps([call("agent/step", input="y")]), 200, b"["),
        ("POST", "/ecp", {}, b"{", 400, b"-32700"),
        ("POST", "/ecp", {}, b'{"a": 1, "a": 2}', 400, b"-32700"),
        ("POST", "/ecp", {}, b'"\xff"', 400, b"-32700"),
        ("POST", "/ecp", {}, b"[]", 200, b"-32600"),
        ("POST", "/ecp", {}, json.dumps(call("agent/think")), 200, b"-32601"),
        ("POST", "/ecp", {}, json.dumps(call("agent/step", input=3)), 200, b"-32602"),
        ("POST", "/ecp", {}, future, 200, b"-32001"),
        ("POST", "/ecp", {"accept": "text/html"}, step, 406, b""),
        ("POST", "/ecp", {"accept": "text/event-stream"}, step, 200, b"event: message"),
        ("POST", "/ecp", {"content-type": "text/plain"}, step, 415, b""),
        ("POST", "/ecp", {"origin": "http://evil.example"}, step, 403, b""),
        ("POST", "/ecp", {"host": "evil.example"}, step, 403, b""),
        ("POST", "/ecp", {"ecp-session-id": "unknown"}, step, 404, b""),
        ("POST", "/other", {}, step, 404, b""),
        ("GET", "/ecp", {}, b"", 405, b""),
        ("DELETE", "/ecp", {}, b"", 405, b""),
        ("POST", "/ecp", {}, b" " * 2_000_000, 413, b""),
    ]
    limits = http_server.ServerLimits(max_body=1_000_000)
    async with serving_http(Counter, limits=limits) as server, HTTPClient() as client:
        for method, path, headers, content, status, expected in rows:
            async with client.stream(
                method, server.url + path, headers=headers, content=content
            ) as response:
                body = await response.read()
            where = (method, path, headers, content[:60])
            assert response.status == status, where
            assert expected in body, where
            assert status != 405 or response.headers["allow"] == "POST"


Answer = Callable[[Responder, int], Awaitable[None]]


def whole(status: int, body: bytes, **headers: str) -> Answer:
    async def answer(responder: Responder, request_id: int) -> None:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        await responder.respond(status, body.replace(b"$ID", str(request_id).encode()), fields)

    return answer


def events(*pieces: bytes) -> Answer:
    """Return an answer whose stream stays open after its pieces."""

    async def answer(responder: Responder, request_id: int) -> None:
        await responder.start(200, {"content-type": "Text/Event-Stream; charset=utf-8"})
        for piece in pieces:
            await responder.send(piece.replace(b"$ID", str(request_id).encode()))
        await anyio.sleep_forever()

    return answer


OK = b'{"jsonrpc": "2.0", "id": $ID, "result": {"status": "done", "public_output": "ok"}}'
ERROR = b'{"jsonrpc": "2.0", "id": $ID, "error": {"code": 7, "message": "busy"}}'
PROTOCOL, TRANSPORT = "protocol_error", "transport_error"
LOG = b'data: {"jsonrpc": "2.0", "method": "log"}\n\n'
OTHER = b'{"jsonrpc": "2.0", "id": 77, "result": 1}'


def in_json(body: bytes, status: int = 200) -> Answer:
    return whole(status, body, content_type="Application/JSON")


GOOD: dict[str, Answer] = {
    "json": in_json(OK),
    "an event, and no end": events(b"data: " + OK + b"\n\n"),
    "carriage returns": events(b"\xef\xbb\xbf: hi\r\n\r\ndata: " + OK + b"\r\n\r\n"),
    "two lines of data": events(b"data: " + OK.replace(b'2.0",', b'2.0",\ndata: ') + b"\n\n"),
    "a notification before it": events(LOG + b"data: " + OK + b"\n\n"),
    "in pieces": events(b"data: ", OK[:20], OK[20:40], OK[40:], b"\n", b"\n"),
}
MOVED = "status 302 to http://elsewhere.example/; redirects are not followed"
NOT_SERVED = "status 404; the path tried was /; most agents listen at http://127.0.0.1:"
BAD: dict[str, tuple[Answer, str, str]] = {
    "a redirect": (whole(302, b"", location="http://elsewhere.example/"), TRANSPORT, MOVED),
    "an error of its own": (in_json(ERROR, 503), "agent_error", "busy (7)"),
    "an error in a success": (in_json(ERROR), "agent_error", "busy (7)"),
    "a status": (whole(500, b"oops"), TRANSPORT, "status 500: oops"),
    "a path that is not served": (whole(404, b""), TRANSPORT, NOT_SERVED),
    "nothing": (whole(202, b""), PROTOCOL, "status 202 without an answer"),
    "a page": (whole(200, b"<html>", content_type="text/html"), PROTOCOL, "got text/html"),
    "no json": (in_json(b"{"), PROTOCOL, "not strict JSON"),
    "another id": (in_json(OTHER), PROTOCOL, "an answer with the id 77"),
    "too long": (in_json(b" " * 70_000), PROTOCOL, "more than 65536 bytes"),
    "a long event": (events(b"data: " + b"x" * 70_000), PROTOCOL, "more than 65536"),
    "comments for ever": (events(b": a\n", b": b\n"), "timeout", "no complete answer in 0.2 s"),
    "another id in an event": (events(b"data: " + OTHER + b"\n\n"), PROTOCOL, "with the id 77"),
}


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_what_a_server_may_answer_is_read_and_what_it_may_not_is_named() -> None:
    current: list[Answer] = []

    async def handle(request: HTTPRequest, responder: Responder) -> None:
        await current[0](responder, json.loads(request.body)["id"])

    limits = AgentLimits(max_message=65536)
    async with http_server.serve(handle) as server:
        async with connect_agent(server.url, limits=limits) as agent:
            for name, answer in GOOD.items():
                current[:] = [answer]
                assert (await agent.step("x", deadline=20)).public_output == "ok", name
            for name, (answer, kind, why) in BAD.items():
                current[:] = [answer]
                with pytest.raises(AgentError) as caught:
                    await agent.step("x", deadline=0.2 if kind == "timeout" else 20)
                assert (caught.value.kind, why in caught.value.message) == (kind, True), name
        current[:] = [whole(404, b"")]
        async with connect_agent(f"{server.url}/ecp", limits=limits) as agent:
            with pytest.raises(AgentError, match=r"status 404$"):
                await agent.step("x", deadline=20)
        gone = server.url
    for url, why in [
        (gone, "agent/step"),
        ("http://user:word@127.0.0.1/ecp", "a user or a password"),
        ("ftp://127.0.0.1/ecp", "expected an http or https URL, or a command as a list of"),
    ]:
        with pytest.raises(AgentError, match=why) as caught:
            async with connect_agent(url) as agent:
                await agent.step("x", deadline=20)
        assert caught.value.kind == "transport_error"
        assert "word" not in str(caught.value).replace("password", "")


async def test_a_step_whose_connection_breaks_is_not_sent_again() -> None:
    methods: list[str] = []

    async def handle(request: HTTPRequest, responder: Responder) -> None:
        message = json.loads(request.body)
        methods.append(message["method"])
        if methods.count("agent/step") == 2:
            await responder.reset()
        else:
            await in_json(OK)(responder, message["id"])

    async with http_server.serve(handle) as server, connect_agent(server.url) as agent:
        await agent.step("one", deadline=20)
        with pytest.raises(AgentError) as caught:
            await agent.step("two", deadline=20)
    assert caught.value.kind == TRANSPORT
    assert methods == ["agent/step"] * 2


def shout(text: str) -> str:
    return text.upper()


async def whisper(text: str) -> Result:
    return Result(public_output=text.lower())


@agent(name="named", capabilities={"multi_turn": {}})
def named(text: str) -> str:
    return text


class Plain:
    def step(self, text: str) -> dict[str, Any]:
        return {"public_output": f"plain {text}"}


@agent(name="first", capabilities={"multi_turn": {}})
class First:
    @on_step
    def answer(self, text: str) -> str:
        return f"first {text}"


class Second(First):
    @on_step
    def answer(self, text: str) -> str:
        return f"second {text}"


class Clearing:
    def __init__(self) -> None:
        self.inputs: list[str] = []

    @on_step
    def answer(self, text: str) -> str:
        self.inputs.append(text)
        return " ".join(self.inputs)

    @on_reset
    async def clear(self) -> None:
        self.inputs.clear()


class Titling:
    async def __call__(self, text: str) -> str:
        return text.title()


@asynccontextmanager
async def evaluated(target: Any) -> AsyncIterator[AgentConnection]:
    async with serving_http(target) as server, connect_agent(f"{server.url}/ecp") as connection:
        yield connection


@pytest.mark.parametrize(
    ("target", "name", "output"),
    [
        (shout, "shout", "HELLO"),
        (whisper, "whisper", "hello"),
        (Plain, "Plain", "plain Hello"),
        (Plain(), "Plain", "plain Hello"),
        (First, "first", "first Hello"),
        (Second, "first", "second Hello"),
        (Titling(), "Titling", "Hello"),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_functions_classes_and_objects_answer(target: Any, name: str, output: str) -> None:
    async with evaluated(target) as connection:
        assert (await connection.initialize(deadline=20)).name == name
        assert (await connection.step("Hello", deadline=20)).public_output == output


async def test_an_object_keeps_its_state_until_its_reset_hook_clears_it() -> None:
    async with evaluated(Clearing()) as connection:
        initialized = await connection.initialize(deadline=20)
        assert "reset" in initialized.capabilities
        await connection.step("a", deadline=20)
        assert (await connection.step("b", deadline=20)).public_output == "a b"
        await connection.initialize(deadline=20)
        assert (await connection.step("c", deadline=20)).public_output == "c"


async def test_steps_of_one_conversation_take_place_one_after_the_other() -> None:
    running = most = 0

    async def count(text: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.01)
        running -= 1
        return text

    async with (
        serving_http(count) as server,
        connect_agent(f"{server.url}/ecp") as one,
        connect_agent(f"{server.url}/ecp") as two,
        anyio.create_task_group() as tasks,
    ):
        for connection in (one, two):
            for text in "ab":
                tasks.start_soon(lambda c=connection, t=text: c.step(t, deadline=20))
    assert most == 1


async def test_simultaneous_requests_are_answered_in_the_order_of_arrival() -> None:
    ours, theirs = memory_pair()
    texts = [str(number) for number in range(20)]
    wire = Wire(ours, LINES)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_conversation, Clearing(), theirs)
        await wire.send(
            *(request(n, "agent/step", {"input": each}) for n, each in enumerate(texts))
        )
        answers = [await wire.receive() for _ in texts]
        await ours.aclose()
    assert [answer["id"] for answer in answers] == [*range(20)]
    assert answers[-1]["result"]["public_output"] == " ".join(texts)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_agent_whose_own_task_was_cancelled_has_failed_and_says_so() -> None:
    async def answer(text: str) -> str:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task
        return text

    async with evaluated(answer) as connection:
        with pytest.raises(AgentError, match="CancelledError"):
            await connection.step("Hello", deadline=5)


def test_a_function_is_named_and_what_cannot_answer_a_step_is_refused() -> None:
    class Silent:
        pass

    class Twice:
        answer = again = on_step(shout)

    made = as_agent(named)
    assert (made.name, made.capabilities) == ("named", {"multi_turn": {}})
    assert as_agent(named, name="other").name == "other"
    assert as_agent(agent()(shout)).name == "shout"
    with pytest.raises(TypeError, match=r"Silent: expected a method"):
        as_agent(Silent)
    with pytest.raises(TypeError, match=r"Twice: expected one method .* got again and answer"):
        as_agent(Twice)
    with pytest.raises(TypeError, match=r"agent: expected a name, .* `@agent\(\)`"):
        agent(Silent)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match=r"capabilities[.]usage: expected a mapping"):
        agent(capabilities={"usage": True})  # type: ignore[dict-item]  # on purpose
    with pytest.raises(TypeError, match=r"capabilities: expected a mapping of names"):
        agent(capabilities=["usage"])  # type: ignore[arg-type]  # on purpose
