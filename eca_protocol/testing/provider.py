"""A scripted model: an HTTP endpoint on loopback that answers from a script.

A test waits for events, never for time. A script is a list of replies, one for each request to a
model. A reply is a list of steps (see `script`). Steps are encoded for the Messages API if the
request is one of it, else for Chat Completions; as one JSON object unless `stream` is true. For any
other API use `raw`:

    script = [reply(text("Hel"), wait("now"), text("lo"))]
    async with Provider(script) as provider:          # or: with provider_in_thread(script) as ...
        ...                                           # point a client at provider.url
        await provider.until(lambda: "now" in provider.reached)
        provider.open("now")
        await provider.until(lambda: provider.requests[0].closed_by_client)

Steps are plain JSON objects with one verb each, so a script can be a file.
`python -m eca_protocol.testing.provider --port 0 --script FILE` prints the base URL and serves
until it is terminated. FILE contains a list of `{"status", "headers", "body", "steps"}`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.abc
import attrs
from anyio.from_thread import BlockingPortal, start_blocking_portal

from eca_protocol import json
from eca_protocol.errors import DeadlineExceeded, InvalidJSON
from eca_protocol.http_server import HTTPRequest, HTTPServer, Responder, serve
from eca_protocol.testing.members import at, list_at
from eca_protocol.testing.messages_events import MessagesEvents
from eca_protocol.testing.script import (
    Reply,
    Step,
    burst,
    chunk,
    close,
    delay,
    events,
    finish,
    hang,
    raw,
    reasoning,
    reply,
    reset,
    text,
    tool_call,
    usage,
    wait,
    whole,
)

__all__ = [
    "Provider",
    "ReceivedRequest",
    "Reply",
    "ThreadedProvider",
    "burst",
    "chunk",
    "close",
    "delay",
    "finish",
    "hang",
    "provider_in_thread",
    "raw",
    "reasoning",
    "reply",
    "reset",
    "text",
    "tool_call",
    "usage",
    "wait",
]

_CHAT = "/chat/completions"
_MESSAGES = "/messages"
_MODEL_PATHS = (_CHAT, "/responses", _MESSAGES, ":streamGenerateContent", "/api/chat")
"""Ends of the paths at which APIs accept requests to a model."""

_VERBATIM = {"raw", "chunk"}  # verbs whose steps are not encoded
_TORN_SECONDS = 0.1  # between the parts of a torn text, which then are two reads
Answers = Callable[["ReceivedRequest"], Reply | Awaitable[Reply]]
Script = Iterable[Reply] | Answers


@attrs.define(kw_only=True, eq=False)
class ReceivedRequest:
    """A request and the state of its response.

    Attributes:
        target: path and query.
        headers: names in lower case.
        body: the parsed JSON; None if the body is empty or not JSON.
        is_title: whether it is a request for a title: its instructions contain that word.
        answered: whether the reply was sent completely.
        closed_by_client: whether the client disconnected before that.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: Any
    is_title: bool = False
    answered: bool = False
    closed_by_client: bool = False


class Provider:
    """The endpoint: an async context manager for trio and asyncio. See the module for an example.

    Attributes:
        requests: the chat requests in order of arrival, without requests for a title.
        other_requests: all other requests (`GET /models`, unknown paths).
        reached: the names of the gates that replies have reached.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        models: Iterable[str] = ("scripted",),
        title: Reply | Answers | None = None,
        otherwise: Reply | None = None,
        others: Mapping[str, Reply] | None = None,
        port: int = 0,
    ) -> None:
        """Prepare the endpoint.

        Args:
            script: the replies in order, or a function, sync or async, from a request to a reply.
            models: the models that `GET /models` lists.
            title: the reply to every request for a title, or a function that returns it.
            otherwise: the reply after the end of the script; by default an error 500.
            others: replies to requests that are not for a model, by the end of the path.
            port: the port; 0 selects a free one.
        """
        self.requests: list[ReceivedRequest] = []
        self.title_requests: list[ReceivedRequest] = []
        self.other_requests: list[ReceivedRequest] = []
        self.reached: set[str] = set()
        self._script = script if callable(script) else _in_order(script, otherwise)
        self._models = tuple(models)
        self._title = title if callable(title) else _always(title or reply("A title"))
        self._others = others if others is not None else {}
        self._port = port
        self._gates: dict[str, anyio.Event] = {}
        self._changed = anyio.Event()
        self._server: HTTPServer | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        serving = serve(
            self._handle, port=self._port, allowed_hosts=None, on_change=self._note_change
        )
        self._server = await self._stack.enter_async_context(serving)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """The base URL to configure, with `/v1`."""
        assert self._server is not None
        return f"{self._server.url}/v1"

    @property
    def open_connections(self) -> int:
        """The number of open connections."""
        return self._server.connections if self._server else 0

    def open(self, gate: str) -> None:
        """Release every reply that waits, or will wait, at `gate`."""
        self._gate(gate).set()

    async def until(
        self, condition: Callable[[], bool], *, seconds: float = 5, what: str = "the provider"
    ) -> None:
        """Wait until `condition()` is true; it is evaluated after each event of the endpoint.

        Raises:
            DeadlineExceeded: if it is not true within `seconds`.
        """
        with anyio.move_on_after(seconds):
            while not condition():
                await self._changed.wait()
            return
        raise DeadlineExceeded(what, seconds)

    def _gate(self, name: str) -> anyio.Event:
        return self._gates.setdefault(name, anyio.Event())

    def _note_change(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _handle(self, request: HTTPRequest, responder: Responder) -> None:
        received = _received(request)
        try:
            other = next((end for end in self._others if request.path.endswith(end)), None)
            if other is not None:
                self.other_requests.append(received)
                await _Response(self, received, responder).play(self._others[other])
            elif request.method == "GET" and request.path.endswith("/models"):
                self.other_requests.append(received)
                models = [{"id": name, "object": "model"} for name in self._models]
                await responder.respond(200, json.dumps({"object": "list", "data": models}))
            elif request.method == "POST" and request.path.endswith(_MODEL_PATHS):
                (self.title_requests if received.is_title else self.requests).append(received)
                answer = (self._title if received.is_title else self._script)(received)
                if not isinstance(answer, Reply):
                    answer = await answer
                self._note_change()
                await _Response(self, received, responder).play(answer)
            else:
                self.other_requests.append(received)
                expected = f"no model answers here, only at ...{', ...'.join(_MODEL_PATHS)}"
                await responder.respond(404, json.dumps({"error": {"message": expected}}))
            received.answered = True
        finally:
            received.closed_by_client = not received.answered
            self._note_change()


class _Response:
    def __init__(self, provider: Provider, request: ReceivedRequest, responder: Responder) -> None:
        self._provider = provider
        self._responder = responder
        self._send: Callable[..., Awaitable[None]] = responder.send_raw
        path, _, _ = request.target.partition("?")
        body = request.body if isinstance(request.body, dict) else {}
        model, number = body.get("model", "scripted"), len(provider.requests)
        self._events: Callable[[Step], list[bytes]]
        self._end: Callable[[], list[bytes]]
        self._whole: Callable[[list[Step]], Mapping[str, Any]]
        self._is_unstreamed = (
            path.endswith((_CHAT, _MESSAGES)) and "messages" in body and not body.get("stream")
        )
        if path.endswith(_MESSAGES):
            encoder = MessagesEvents(model=model, number=number)
            self._events, self._end, self._whole = encoder.of, encoder.end, encoder.whole
        else:
            head = {
                "id": f"chatcmpl-{number}",
                "object": "chat.completion.chunk",
                "created": 1_700_000_000,
                "model": model,
            }
            done = [b"data: [DONE]\n\n"] if path.endswith(_CHAT) else []
            self._events, self._end = partial(events, head=head), lambda: done
            self._whole = partial(whole, head=head)

    async def play(self, answer: Reply) -> None:
        headers = {"content-type": "text/event-stream", "x-request-id": "req_scripted"}
        if answer.body is not None:
            headers["content-type"] = "application/json"
        headers |= {name.lower(): value for name, value in answer.headers.items()}
        if not await self._run(answer.before_headers):
            return
        if answer.body is not None or not answer.steps:
            await self._responder.respond(answer.status, _body(answer.body), headers)
            return
        if self._is_unstreamed and not any(step.keys() & _VERBATIM for step in answer.steps):
            await self._play_whole(answer, headers)
            return
        if answer.close_delimited:
            lines = [f"HTTP/1.1 {answer.status} Scripted", "connection: close"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            await self._responder.send_raw("\r\n".join([*lines, "", ""]).encode())
        else:
            await self._responder.start(answer.status, headers)
            self._send = self._responder.send
        if await self._run(answer.steps):
            for event in self._end():
                await self._send(event)
            await (self._responder.close() if answer.close_delimited else self._responder.end())

    async def _play_whole(self, answer: Reply, headers: dict[str, str]) -> None:
        """Run the steps that write nothing, then send the others as one JSON object."""
        collected: list[Step] = []

        def collect(step: Step) -> list[bytes]:
            collected.append(step)
            return []

        self._events = collect
        steps = [text(s["piece"] * s["burst"]) if "burst" in s else s for s in answer.steps]
        if await self._run(steps):
            headers = {**headers, "content-type": "application/json"}
            body = json.dumps(self._whole(collected))
            await self._responder.respond(answer.status, body, headers)

    async def _run(self, steps: Iterable[Step]) -> bool:
        for step in steps:
            match step:
                case {"delay": seconds}:
                    await anyio.sleep(seconds)
                case {"wait": gate}:
                    self._provider.reached.add(gate)
                    self._provider._note_change()
                    await self._provider._gate(gate).wait()
                case {"hang": _}:
                    await anyio.sleep_forever()
                case {"reset": _}:
                    await self._responder.reset()
                    return False
                case {"close": _}:
                    await self._responder.close()
                    return False
                case {"burst": count, "piece": piece}:
                    await self._send(*self._events(text(piece)))
                    [event] = self._events(text(piece))
                    for start in range(1, count, 100):
                        await self._send(*[event] * min(100, count - start))
                case {"torn": True}:
                    data = b"".join(self._events(step))
                    within = next((at for at, byte in enumerate(data) if byte >= 0xC0), 0) + 1
                    await self._send(data[:within])
                    await anyio.sleep(_TORN_SECONDS)
                    await self._send(data[within:])
                case _:
                    for event in self._events(step):
                        await self._send(event)
        return True


class ThreadedProvider:
    """A `Provider` in a thread of its own, for tests without an async library."""

    def __init__(self, provider: Provider, portal: BlockingPortal) -> None:
        self.provider = provider
        self._portal = portal

    @property
    def url(self) -> str:
        """The base URL; see `Provider.url`."""
        return self.provider.url

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The chat requests; read them after `until` has returned."""
        return self.provider.requests

    def open(self, gate: str) -> None:
        """Release the replies at a gate; see `Provider.open`."""
        self._portal.call(self.provider.open, gate)

    def until(self, condition: Callable[[], bool], *, seconds: float = 5) -> None:
        """Block until the condition is true; see `Provider.until`."""
        self._portal.call(lambda: self.provider.until(condition, seconds=seconds))


@contextmanager
def provider_in_thread(script: Script = (), **options: Any) -> Iterator[ThreadedProvider]:
    """Run a `Provider` with these arguments in a thread while the block runs."""
    provider = Provider(script, **options)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(provider):
        yield ThreadedProvider(provider, portal)


def _always(answer: Reply) -> Callable[[ReceivedRequest], Reply]:
    return lambda _request: answer


def _in_order(
    script: Iterable[Reply], otherwise: Reply | None
) -> Callable[[ReceivedRequest], Reply]:
    replies = iter(script)
    exhausted = Reply(status=500, body={"error": {"message": "the script has no reply left"}})

    def next_reply(_request: ReceivedRequest) -> Reply:
        return next(replies, otherwise or exhausted)

    return next_reply


def _received(request: HTTPRequest) -> ReceivedRequest:
    try:
        body = json.loads(request.body) if request.body else None
    except InvalidJSON:
        body = None
    return ReceivedRequest(
        method=request.method,
        target=request.target,
        headers=request.headers,
        body=body,
        is_title=isinstance(body, dict) and "title" in str(_instructions(body)).lower(),
    )


def _instructions(body: Mapping[str, Any]) -> list[Any]:
    instructions = [
        message.get("content")
        for message in list_at(body, "messages")
        if at(message, "role") in ("system", "developer")
    ]
    fields = ("instructions", "system", "systemInstruction")
    return [*instructions, *(body.get(name) for name in fields)]


def _body(value: Any) -> bytes:
    match value:
        case None:
            return b""
        case bytes():
            return value
        case str():
            return value.encode()
    return json.dumps(value)


def main(arguments: list[str] | None = None) -> None:
    """Serve a script from a file until the process is terminated."""
    parser = argparse.ArgumentParser(
        prog="python -m eca_protocol.testing.provider",
        description="A scripted OpenAI-compatible endpoint on loopback; prints its base URL.",
    )
    port = "the port to listen on; 0, the default, selects a free one"
    parser.add_argument("--port", type=int, default=0, help=port)
    parser.add_argument("--script", type=Path, help="a JSON file with a list of replies")
    options = parser.parse_args(arguments)
    replies = json.loads(options.script.read_bytes()) if options.script else []
    script = [Reply(**fields) for fields in replies]

    async def run() -> None:
        async with Provider(script, port=options.port, otherwise=reply("Hello!")) as provider:
            sys.stdout.write(provider.url + "\n")
            sys.stdout.flush()
            await anyio.sleep_forever()

    anyio.run(run)


if __name__ == "__main__":
    main()
