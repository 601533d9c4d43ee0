"""The models of every edition as data, by which the page decodes a message.

A shape is a list that begins with its kind: `["is", "string"]`, `["any"]`, `["object"]`,
`["one of", {VALUE: EDITIONS}]`, `["list", SHAPE]`, `["model", NAME]`, `["tagged", {TYPE: NAME}]`,
`["or null", SHAPE]`. EDITIONS are the first and the last edition of an item, as indices into
`editions`. Null means all editions of the table; an empty list means that the item is only read,
since old servers send it.
"""

from __future__ import annotations

from typing import Any, Final

from eca_protocol.draft import DRAFT
from eca_protocol.endpoint import Method, Table
from eca_protocol.messages.marks import ValueWindow
from eca_protocol.messages.shapes import (
    Anything,
    Array,
    Choice,
    Field,
    JSONObject,
    Model,
    ModelClass,
    Nullable,
    Scalar,
    Shape,
    Tagged,
    fields_of,
    shape_of,
    window_of_class,
)
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision, Window

_EDITIONS: Final = list(Revision)
_ALL: Final = list(range(len(_EDITIONS)))


def make_shapes() -> dict[str, Any]:
    """Return the draft's table and the table of later editions, as a JSON value."""
    return {
        "editions": [revision.value for revision in _EDITIONS],
        "draft": _Models().table(DRAFT),
        "since": _Models().table(ECA),
    }


class _Models:
    """The models of a table's messages, collected recursively."""

    def __init__(self) -> None:
        self._models: dict[str, dict[str, Any]] = {}

    def table(self, table: Table) -> dict[str, Any]:
        methods = {row.name: self._method(row) for row in table}
        return {"methods": methods, "models": self._models}

    def _method(self, row: Method) -> dict[str, Any]:
        return {
            "kind": row.kind,
            "in": _editions(row.window),
            "params": None if row.params is None else self._shape(shape_of(row.params)),
            "result": None if row.result is None else self._shape(shape_of(row.result)),
        }

    def _shape(self, shape: Shape) -> list[Any]:
        match shape:
            case Scalar(names):
                return ["is", *names]
            case Anything() | JSONObject():
                return ["any" if isinstance(shape, Anything) else "object"]
            case Choice(values):
                return ["one of", {value: _editions(mark) for value, mark in values.items()}]
            case Array(inner) | Nullable(inner):
                return ["list" if isinstance(shape, Array) else "or null", self._shape(inner)]
            case Model(cls):
                return ["model", self._model(cls)]
            case Tagged(members):
                return ["tagged", {tag: self._model(cls) for tag, cls in members.items()}]

    def _model(self, cls: ModelClass) -> str:
        name: str = cls.__name__
        if name in self._models:
            return name
        fields: dict[str, Any] = {}
        self._models[name] = {
            "fields": fields,
            "in": _editions(window_of_class(cls)),
            "open": any(field.rules.rest for field in fields_of(cls)),
        }
        tag = getattr(cls, "type", None)
        if isinstance(tag, str):
            fields["type"] = {"shape": ["one of", {tag: None}], "in": None, "needed": _ALL}
        for field in fields_of(cls):
            if not field.rules.rest:
                fields[field.wire] = self._field(field)
        return name

    def _field(self, field: Field) -> dict[str, Any]:
        reading, window = field.rules, field.window
        needed = [
            place
            for place, revision in enumerate(_EDITIONS)
            if reading.required_in(revision)
            and (not field.has_default or (window.holds(revision) and reading.written))
        ]
        allows_null = field.has_default and not isinstance(field.shape, Anything)
        return {
            "shape": self._shape(field.shape),
            "in": _editions(window) if reading.written else [],
            "needed": needed,
            "null": None if not allows_null else "fine" if reading.nullable else "odd",
            "ruling": window.ruling or reading.ruling,
        }


def _editions(window: Window | ValueWindow | None) -> list[int] | None:
    if window is None:
        return None
    ends = [_EDITIONS.index(window.since), _EDITIONS.index(window.until)]
    return None if ends == [1, 3] else ends
