"""Filters: they rewrite what passes between the reference server and its client or its model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, ClassVar, Literal

import anyio
import attrs

from tests.eca_protocol.testing.conformance.reference.chat import Turn
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.tool_call import ToolCall
from tests.eca_protocol.testing.conformance.reference.wire import Fault, Wire

Message = dict[str, Any]
Test = Callable[[Any], Any]
Rewrite = Callable[[Any], Any]
"""A function of a part of a message; it returns the part's new value, or a tuple of several."""

Channel = Literal[
    "written",
    "received",
    "model_request",
    "event",
    "config",
    "code",
    "chunk",
    "header",
    "body",
    "frame",
]
"""A place where something passes.

written, received: the messages of the server and of the client.
model_request, event: the requests to the model (`model`, `messages`, `tools`, and the `turn`, which
    is None for a title), and the events of its answers.
config: the configuration of the process. code: its exit code.
chunk, header, body: the client's bytes as they come, the lines of a header, the bytes of a body.
frame: the body that the server writes, and its header, each by itself.
"""

CALLS = ("toolCallPrepare", "toolCallRun", "toolCallRunning", "toolCalled", "toolCallRejected")
"""The types of content about tool calls."""


@attrs.frozen
class Where:
    """The part of the traffic that a filter rewrites.

    Attributes:
        fits: whether it rewrites this message of this server.
        path: the part that is rewritten; empty: the whole message.
        channel: where the messages pass.
    """

    fits: Callable[[Any, Filtered], Any]
    path: tuple[str, ...] = ()
    channel: Channel = "written"

    def when(self, test: Callable[[Any, Filtered], Any]) -> Where:
        """Narrow it by a test that sees the whole message and the server."""
        return attrs.evolve(self, fits=lambda m, server: self.fits(m, server) and test(m, server))

    def part(self, *path: str) -> Where:
        """Narrow it to a part of each message."""
        return attrs.evolve(self, path=path)

    @property
    def whole(self) -> Where:
        """The whole messages."""
        return self.part()


def always(value: Any) -> bool:
    return True


def at(channel: Channel, test: Test = always) -> Where:
    """All that passes there, or what passes a test."""
    return Where(lambda part, server: test(part), channel=channel)


def params(method: str, *path: str, test: Test = always, **fields: Any) -> Where:
    """The params of a message of the server, or a part of them."""

    def fits(message: Message, server: Filtered) -> Any:
        is_meant = message.get("method") == method
        return is_meant and message["params"].items() >= fields.items() and test(message["params"])

    return Where(fits, ("params", *path))


def content(*types: str, role: str = "", **fields: Any) -> Where:
    """Contents of chats of these types, with these values of their fields."""

    def fits(message: Message, server: Filtered) -> Any:
        if message.get("method") != "chat/contentReceived":
            return False
        written = message["params"]["content"]
        is_meant = written["type"] in types and role in ("", message["params"]["role"])
        return is_meant and written.items() >= fields.items()

    return Where(fits, ("params", "content"))


def result(method: str | Collection[str], test: Test = always) -> Where:
    """Results of requests with this method, or one of these, whose params pass a test."""

    def fits(message: Message, server: Filtered) -> Any:
        request = server.request_of(message)
        is_meant = "result" in message and is_one_of(request.get("method"), method)
        return is_meant and test(request.get("params") or {})

    return Where(fits, ("result",))


def error(code: int, text: str = "") -> Where:
    """Errors with this code, and with this in their text."""

    def fits(message: Message, server: Filtered) -> Any:
        written = message.get("error", {})
        return written.get("code") == code and text in written["message"]

    return Where(fits, ("error",))


def called(method: str | Collection[str], test: Test = always) -> Where:
    """Whole messages of the client with this method, or one of these."""
    return at("received", lambda message: is_one_of(method_of(message), method) and test(message))


def args(method: str | Collection[str], test: Test = always) -> Where:
    """The params of a message of the client."""

    def fits(message: Any) -> Any:
        return isinstance(message.get("params"), dict) and test(message["params"])

    return attrs.evolve(called(method, fits), path=("params",))


def method_of(message: Any) -> str:
    """Return the method of a message; empty if it has none that is a text."""
    method = message.get("method") if isinstance(message, dict) else None
    return method if isinstance(method, str) else ""


def is_one_of(method: Any, methods: str | Collection[str]) -> bool:
    return method in ((methods,) if isinstance(methods, str) else methods)


def drop(part: Any) -> Any:
    """Write nothing instead."""
    return ()


def twice(part: Any) -> Any:
    """Write the message a second time."""
    return part, part


def put(**fields: Any) -> Rewrite:
    """Write these fields, whatever they were."""
    return lambda part: {**part, **fields}


def without(*names: str) -> Rewrite:
    """Leave fields out."""
    return lambda part: {name: value for name, value in part.items() if name not in names}


def change(**fields: Any) -> Rewrite:
    """Write other values of fields that are there: constants, or functions of the value."""

    def rewrite(part: Message) -> Message:
        new = {name: fields[name] for name in fields if part.get(name) is not None}
        new = {name: by(part[name]) if callable(by) else by for name, by in new.items()}
        return {**part, **new}

    return rewrite


def each(rewrite: Rewrite) -> Rewrite:
    """Rewrite each object of a list."""
    return lambda parts: [rewrite(part) for part in parts]


def only(test: Test) -> Rewrite:
    """Leave out of a list what does not pass a test."""
    return lambda parts: [part for part in parts if test(part)]


def granted(result: Any) -> Rewrite:
    """Turn an error into a result."""
    return lambda answer: {"jsonrpc": "2.0", "id": answer["id"], "result": result}


def refuse(text: str, code: int = -32602, *, fatal: bool = False) -> Rewrite:
    """Answer with an error."""

    def rewrite(part: Any) -> Any:
        raise Fault(code, text, fatal=fatal)

    return rewrite


@attrs.frozen
class Knowing:
    """A rewrite that sees the part and the server."""

    rewrite: Callable[[Any, Filtered], Any]


@attrs.frozen
class Out:
    """A message to the client, also in place of one that came from there."""

    message: Message


def notified(method: str, **fields: Any) -> Out:
    return Out({"jsonrpc": "2.0", "method": method, "params": fields})


def new_content(role: str, **fields: Any) -> Callable[[Any, Filtered], Out]:
    """Make a content of the chat that a message names."""
    return lambda message, server: notified(
        "chat/contentReceived", chatId=chat_id_of(message), role=role, content=fields
    )


def answered(result: Any) -> Callable[[Any, Filtered], Out]:
    """Make the answer to a request of the client."""
    return lambda message, server: Out({"jsonrpc": "2.0", "id": message["id"], "result": result})


def then(*more: Any) -> Knowing:
    """Pass a message on, and then these: messages, or functions of the message and the server."""
    return Knowing(lambda message, server: (message, *made(more, message, server)))


def first(*more: Any) -> Knowing:
    """Pass these on, and then the message."""
    return Knowing(lambda message, server: (*made(more, message, server), message))


def instead(*more: Any) -> Knowing:
    """Pass these on and not the message."""
    return Knowing(lambda message, server: made(more, message, server))


def made(more: tuple[Any, ...], message: Any, server: Filtered) -> tuple[Any, ...]:
    return tuple(each(message, server) if callable(each) else each for each in more)


def delay(seconds: float) -> Knowing:
    """Write the message later."""

    def rewrite(message: Message, server: Filtered) -> tuple[()]:
        server.tasks.start_soon(server.write_later, message, seconds)
        return ()

    return Knowing(rewrite)


def hold(until: Where, *, before: bool = False) -> Knowing:
    """Write the message after the next one of its chat that fits, or right before that."""

    def rewrite(message: Message, server: Filtered) -> tuple[()]:
        server.held.append((message, until, before))
        return ()

    return Knowing(rewrite)


@attrs.frozen
class Filter:
    """A place, what is written there instead, and perhaps a second pair of these."""

    where: Where
    rewrite: Rewrite | Knowing
    also: tuple[Where, Rewrite | Knowing] | None = None

    def passed(self, channel: Channel, part: Any, server: Filtered) -> list[Any]:
        """Return what passes on there for a part of the traffic."""
        parts = [part]
        for where, rewrite in [(self.where, self.rewrite), *([self.also] if self.also else [])]:
            if where.channel == channel:
                parts = [
                    new
                    for each in parts
                    for new in (
                        placed(each, where.path, rewrite, server)
                        if not isinstance(each, Out) and where.fits(each, server)
                        else (each,)
                    )
                ]
        return parts


def placed(
    part: Any, path: tuple[str, ...], rewrite: Rewrite | Knowing, server: Filtered
) -> tuple[Any, ...]:
    """Return messages with each new value of the part at a path, if there is such a part."""
    if not path:
        new = rewrite.rewrite(part, server) if isinstance(rewrite, Knowing) else rewrite(part)
        return new if isinstance(new, tuple) else (new,)
    name, *rest = path
    if name not in part:
        return (part,)
    return tuple({**part, name: new} for new in placed(part[name], tuple(rest), rewrite, server))


class Filtered(Server):
    """A server whose traffic passes through a filter.

    Attributes:
        row: the filter.
        receiving: the client's message that is handled; None: another task runs.
        last: the params of the last message of each method of the client.
        turns: the last turn of each chat.
        held: messages that wait, the one that they wait for, and whether they come before it.
        decided: the method by which the user has decided on a call, by the call's id.
    """

    row: ClassVar[Filter]

    def __init__(self, transport: Any, config: Any, parts: Any) -> None:
        self.receiving: Any = None
        self.last: dict[str, Any] = {}
        self.turns: dict[str, Turn] = {}
        self.held: list[tuple[Message, Where, bool]] = []
        self.decided: dict[str, str] = {}
        self.notes: dict[str, Any] = {}
        self._requests: dict[str, Message] = {}  # by id
        [config] = self.row.passed("config", config, self)
        super().__init__(transport, config, parts)
        self._wire = FilteredWire(self)

    def request_of(self, message: Message) -> Message:
        """Return the request that a message of the server answers; empty for any other message."""
        return {} if "method" in message else self._requests.get(repr(message["id"]), {})

    def receive(self, message: Any) -> None:
        id_ = message.get("id") if isinstance(message, dict) else None
        if method_of(message):
            self._requests[repr(id_)] = message
            self.last[message["method"]] = params = message.get("params")
            if isinstance(params, dict) and "toolCallId" in params:
                self.decided[params["toolCallId"]] = message["method"]
        try:
            passed = self.row.passed("received", message, self)
        except Fault as fault:
            fault.id = id_ if method_of(message) else None
            raise
        self.receiving = message
        try:
            for each in passed:
                super().write(each.message) if isinstance(each, Out) else super().receive(each)
        finally:
            self.receiving = None

    def write(self, message: Message) -> None:
        chat_id = chat_id_of(message)
        if chat_id in self.chats and (turn := self.chats[chat_id].turn):
            self.turns[chat_id] = turn
        for each in self.row.passed("written", message, self):
            self.write_now(each.message if isinstance(each, Out) else each)

    def write_now(self, message: Message) -> None:
        """Write a message, with those that waited for it."""
        id_ = chat_id_of(message)
        earlier, later, held = [], [], []
        for waiting, until, is_before in self.held:
            is_near = "" in (id_, chat_id_of(waiting)) or id_ == chat_id_of(waiting)
            if not is_near or not until.fits(message, self):
                held.append((waiting, until, is_before))
            else:
                (earlier if is_before else later).append(waiting)
        self.held = held
        for each in (*earlier, message, *later):
            super().write(each)

    async def write_later(self, message: Message, seconds: float) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(seconds)
            self.write_now(message)

    async def ask_model(self, model: Any, request: Message, take: Any) -> None:
        def passed(event: Any) -> None:
            for each in self.row.passed("event", event, self):
                take(each)

        for each in self.row.passed("model_request", {"model": model.name, **request}, self):
            await super().ask_model(self.models[each["model"]], each, passed)

    def end(self, code: int) -> None:
        for each in self.row.passed("code", code, self):
            super().end(each)


class FilteredWire(Wire):
    """Frames that pass through a server's filter."""

    def __init__(self, server: Filtered) -> None:
        super().__init__()
        self._server = server

    def passed(self, channel: Channel, part: Any) -> Any:
        return self._server.row.passed(channel, part, self._server)

    def feed(self, data: bytes) -> Iterator[Any]:
        for each in self.passed("chunk", data):
            yield from super().feed(each)

    def read_header(self, lines: list[bytes]) -> tuple[int, Fault | None]:
        return super().read_header(*self.passed("header", lines))

    def decode(self, body: bytes) -> Any:
        return super().decode(*self.passed("body", body))

    def body(self, message: Message) -> bytes:
        return b"".join(self.passed("frame", super().body(message)))

    def header(self, length: int) -> bytes:
        return b"".join(self.passed("frame", super().header(length)))


def chat_id_of(message: Any) -> str:
    """Return the id of the chat that a message names; empty: none."""
    if not isinstance(message, dict):
        return ""
    parts = (message.get("params"), message.get("result"))
    ids = [part.get("chatId") for part in parts if isinstance(part, dict)]
    return next((id_ for id_ in ids if isinstance(id_, str)), "")


def turn_of(message: Any, server: Filtered) -> Turn | None:
    """Return the last turn of the chat that a message names."""
    return server.turns.get(chat_id_of(message))


def is_busy(message: Any, server: Filtered) -> bool:
    """Return whether a turn of the message's chat runs."""
    chat = server.chats.get(chat_id_of(message))
    return chat is not None and chat.turn is not None


def is_stopped(message: Any, server: Filtered) -> bool:
    """Return whether the user has stopped the last turn of the message's chat."""
    turn = turn_of(message, server)
    is_there = server.state == "ready" and chat_id_of(message) in server.chats
    return turn is not None and turn.stopped and is_there


def is_received(*methods: str) -> Any:
    """Make a test of whether the server handles a message with one of these methods."""
    return lambda message, server: method_of(server.receiving) in methods


def call_of(part: Any, server: Filtered) -> ToolCall:
    """Return the tool call that a content, or its message, is about."""
    id_ = part.get("params", {"content": part})["content"]["id"]
    calls = (call for turn in server.turns.values() for call in turn.calls)
    return next(call for call in calls if call.id == id_)


def is_later_call(message: Any, server: Filtered) -> bool:
    """Return whether a content is about a call behind the first of an answer."""
    call = call_of(message, server)
    return call is not call.turn.calls[0]
