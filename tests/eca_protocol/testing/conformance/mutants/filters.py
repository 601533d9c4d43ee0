"""Filters: they rewrite messages of the reference server, or the client's on their way to it."""

from collections.abc import Callable, Collection
from typing import Any, ClassVar

import attrs

from tests.eca_protocol.testing.conformance.reference.connection import Connection
from tests.eca_protocol.testing.conformance.reference.wire import Fault

Message = dict[str, Any]
Test = Callable[[Any], Any]
Rewrite = Callable[[Any], Any]
"""A function of a part of a message; it returns the part's new value, or a tuple of several."""

CALLS = ("toolCallPrepare", "toolCallRun", "toolCallRunning", "toolCalled", "toolCallRejected")
"""The types of content about tool calls."""


@attrs.frozen
class Where:
    """The messages that a filter rewrites.

    Attributes:
        fits: whether it rewrites this message, and the request that the message answers.
        path: the part that is rewritten; empty: the whole message.
        is_incoming: whether the client sends it.
    """

    fits: Callable[[Any, Message], Any]
    path: tuple[str, ...] = ()
    is_incoming: bool = False


def always(value: Any) -> bool:
    return True


def outgoing(test: Test) -> Where:
    """Whole messages of the server."""
    return Where(lambda message, request: test(message))


def params(method: str, *path: str, test: Test = always, **fields: Any) -> Where:
    """The params of a message of the server, or a part of them."""

    def fits(message: Message, request: Message) -> Any:
        is_meant = message.get("method") == method
        return is_meant and message["params"].items() >= fields.items() and test(message["params"])

    return Where(fits, ("params", *path))


def content(*types: str, role: str = "", **fields: Any) -> Where:
    """Contents of chats of these types, with these values of their fields."""

    def fits(message: Message, request: Message) -> Any:
        if message.get("method") != "chat/contentReceived":
            return False
        written = message["params"]["content"]
        is_meant = written["type"] in types and role in ("", message["params"]["role"])
        return is_meant and written.items() >= fields.items()

    return Where(fits, ("params", "content"))


def result(method: str | Collection[str], test: Test = always) -> Where:
    """Results of requests with this method, or one of these, whose params pass a test."""

    def fits(message: Message, request: Message) -> Any:
        is_meant = "result" in message and is_one_of(request.get("method"), method)
        return is_meant and test(request.get("params") or {})

    return Where(fits, ("result",))


def error(code: int, text: str = "") -> Where:
    """Errors with this code, and with this in their text."""

    def fits(message: Message, request: Message) -> Any:
        written = message.get("error", {})
        return written.get("code") == code and text in written["message"]

    return Where(fits, ("error",))


def incoming(test: Test) -> Where:
    """Whole messages of the client, of whatever type."""
    return Where(lambda message, request: test(message), is_incoming=True)


def called(method: str | Collection[str], test: Test) -> Where:
    """Whole messages of the client with this method, or one of these."""
    return incoming(lambda message: is_one_of(method_of(message), method) and test(message))


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


def refuse(text: str, code: int = -32602) -> Rewrite:
    """Answer with an error."""

    def rewrite(part: Any) -> Any:
        raise Fault(code, text)

    return rewrite


@attrs.frozen
class Filter:
    """A row of a table: what breaks which row, where, and how."""

    breaks: str
    where: Where
    rewrite: Rewrite

    def rewritten(self, message: Any, request: Message, *, is_incoming: bool) -> tuple[Any, ...]:
        """Return what is passed on for a message; `request` is the one that it answers."""
        if is_incoming is not self.where.is_incoming or not self.where.fits(message, request):
            return (message,)
        return placed(message, self.where.path, self.rewrite)


def placed(message: Any, path: tuple[str, ...], rewrite: Rewrite) -> tuple[Any, ...]:
    """Return messages with each new value of the part at a path, if there is such a part."""
    if not path:
        new = rewrite(message)
        return new if isinstance(new, tuple) else (new,)
    name, *rest = path
    if name not in message:
        return (message,)
    return tuple({**message, name: part} for part in placed(message[name], tuple(rest), rewrite))


class Filtered(Connection):
    """A server whose messages pass through a filter."""

    row: ClassVar[Filter]

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._requests: dict[str, Message] = {}  # by id

    def receive(self, message: Any) -> None:
        id_ = message.get("id") if isinstance(message, dict) else None
        if method_of(message):
            self._requests[repr(id_)] = message
        try:
            passed = self.row.rewritten(message, {}, is_incoming=True)
        except Fault as fault:
            fault.id = id_
            raise
        for each_message in passed:
            super().receive(each_message)

    def write(self, message: Message) -> None:
        request = {} if "method" in message else self._requests.get(repr(message["id"]), {})
        for each_message in self.row.rewritten(message, request, is_incoming=False):
            super().write(each_message)
