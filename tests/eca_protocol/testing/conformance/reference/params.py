"""The params of a message, read as W-3 says: null is absent, a wrong type is a fault."""

from __future__ import annotations

from typing import Any

from tests.eca_protocol.testing.conformance.reference.wire import BAD_PARAMS, Fault

_MEMBERS = {
    "file": ("path",),
    "directory": ("path",),
    "web": ("url",),
    "cursor": ("path", "position"),
    "mcpResource": ("uri", "server"),
}


class Params:
    """An object whose members are read by type."""

    def __init__(self, value: Any, place: str = "params") -> None:
        self._place = place
        if value is None or value == []:
            value = {}
        if not isinstance(value, dict):
            raise self._fault("", "an object", value)
        self._value = value

    def _fault(self, name: str, expected: str, got: Any) -> Fault:
        place = f"{self._place}.{name}" if name else self._place
        return Fault(BAD_PARAMS, f"{place}: expected {expected}, got {type(got).__name__}")

    def value(self, name: str) -> Any:
        return self._value.get(name)

    def _typed(self, name: str, kind: type, expected: str, *, needed: bool = False) -> Any:
        value = self._value.get(name)
        if (value is None and needed) or not (value is None or isinstance(value, kind)):
            raise self._fault(name, expected, value)
        return kind() if value is None else value

    def text(self, name: str, *, needed: bool = False) -> str:
        return str(self._typed(name, str, "a text", needed=needed))

    def list(self, name: str) -> list[Any]:
        items: list[Any] = self._typed(name, list, "a list")
        return items

    def object(self, name: str) -> Params:
        return Params(self._typed(name, dict, "an object"), f"{self._place}.{name}")

    def contexts(self) -> list[dict[str, Any]]:
        """Return the contexts; an incomplete one is reduced to its type."""
        contexts = self.list("contexts")
        return [self._context(index, context) for index, context in enumerate(contexts)]

    def _context(self, index: int, context: Any) -> dict[str, Any]:
        read = Params(context, f"{self._place}.contexts[{index}]")
        members = _MEMBERS.get(read.text("type"), ())
        if any(read.value(name) is None for name in members):
            return {"type": read.text("type")}
        for name in members:
            if name == "position":
                read.object(name)
            else:
                read.text(name)
        lines = read.object("linesRange")
        for name in lines._value:
            lines._typed(name, int, "a number")
        return read._value
