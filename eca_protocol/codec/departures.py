"""The departures of a raw message from the specification's text, each with its path.

It refuses exactly the messages that `read` refuses; a property test compares both. In addition it
lists the departures that are read, with the ruling that allows them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_protocol.endpoint import Method, Table
from eca_protocol.errors import DecodeError, LocalProtocolError
from eca_protocol.messages import shapes
from eca_protocol.messages.marks import WireRules
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision, Window

DepartureKind: TypeAlias = Literal[
    "missing",
    "null",
    "wrong type",
    "unknown key",
    "unknown value",
    "unknown type",
    "other revision",
]

_ABSENT: Final = object()
"""An absent entry; no value of JSON has its type."""

_TYPES: Final[dict[shapes.ScalarName, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_TYPE_NAMES: Final[dict[shapes.ScalarName, str]] = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
}
_MAX_TEXT: Final = 60


@attrs.frozen
class Departure:
    """One place where a message differs from the specification's text."""

    path: str
    """The place, as in `params.contexts[2].linesRange.start`."""
    kind: DepartureKind
    expected: str
    got: str
    ruling: str | None = None
    """The ruling that allows it, if any."""
    refused: bool = False
    """Reading the message fails because of it."""

    def __str__(self) -> str:
        allowed = f" (allowed by {self.ruling})" if self.ruling else ""
        return f"{self.path}: {self.kind}: expected {self.expected}, got {self.got}{allowed}"


def explain(
    method: str,
    raw: Any,
    revision: Revision,
    *,
    part: Literal["params", "result"] = "params",
    table: Table = ECA,
) -> tuple[Departure, ...]:
    """Return the departures of raw params or a raw result from the text of `revision`.

    Raises:
        LocalProtocolError: the table has no such method.
    """
    row = table.get(method)
    if row is None:
        raise LocalProtocolError(f"the table has no method {method}")
    return tuple(_message(row, raw, revision, part))


def explain_failure(
    method: Method, raw: Any, revision: Revision, part: Literal["params", "result"]
) -> DecodeError | None:
    """Return the first departure that reading refuses, as the error to raise."""
    foreign: list[str] = []
    for departure in _message(method, raw, revision, part):
        if departure.kind == "other revision":
            foreign.append(departure.path.removesuffix(".type"))
        if departure.refused:
            inside = any(_is_inside(departure.path, path) for path in foreign)
            return DecodeError(
                path=departure.path,
                expected=departure.expected,
                got=departure.got,
                revision=revision.value if inside else None,
            )
    return None


def _is_inside(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


def _message(
    method: Method, raw: Any, revision: Revision, part: Literal["params", "result"]
) -> Iterator[Departure]:
    from_client = (method.direction == "client_to_server") == (part == "params")
    walk = _Walk(revision, "W-3" if from_client else "W-60")
    if not method.window.holds(revision):
        yield Departure(
            part,
            "other revision",
            f"no {method.name} in revision {revision.value}",
            method.name,
            method.window.ruling,
        )
    hint = method.params if part == "params" else method.result
    if hint is None:
        if raw not in (None, {}, []):
            yield Departure(part, "wrong type", "null", _describe(raw), walk.lenience)
        return
    if raw is None or raw == []:
        yield Departure(part, "null", "an object", _describe(raw), walk.lenience)
        raw = {}
    yield from walk.value(shapes.shape_of(hint), raw, part, WireRules())


@attrs.frozen
class _Walk:
    revision: Revision
    lenience: str
    """The ruling by which this side's nulls and unknown keys are read."""

    def value(
        self, shape: shapes.Shape, raw: Any, path: str, rules: WireRules
    ) -> Iterator[Departure]:
        match shape:
            case shapes.Scalar(names):
                if not any(_is(name, raw) for name in names):
                    refused = _refused(path, _expected(shape), raw)
                    is_read = rules.object_as_true and isinstance(raw, dict)
                    yield _read_by(rules.ruling, refused) if is_read else refused
            case shapes.JSONObject():
                yield from self._object(raw, path, rules)
            case shapes.Choice():
                yield from self._choice(shape, raw, path, rules)
            case shapes.Array(item):
                yield from self._array(item, raw, path, rules)
            case shapes.Nullable(inner):
                if raw is not None:
                    yield from self.value(inner, raw, path, rules)
            case shapes.Model(cls):
                yield from self._model(cls, raw, path)
            case shapes.Tagged():
                yield from self._tagged(shape, raw, path, rules)

    def _model(self, cls: shapes.ModelClass, raw: Any, path: str) -> Iterator[Departure]:
        if not isinstance(raw, dict):
            yield _refused(path, "an object", raw)
            return
        tag = getattr(cls, "type", None)
        if not isinstance(tag, str):
            yield from self._fields(cls, raw, path, set())
            return
        key = shapes.tag_key_of(cls)
        if raw.get(key) != tag:  # a member of a union, used outside of the union
            yield Departure(
                f"{path}.{key}",
                "unknown value" if key in raw else "missing",
                _describe(tag),
                _describe(raw[key]) if key in raw else "nothing",
                self.lenience,
            )
        yield from self._fields(cls, raw, path, {key})

    def _object(self, raw: Any, path: str, rules: WireRules) -> Iterator[Departure]:
        if isinstance(raw, list) and rules.list_as_empty:
            yield Departure(path, "wrong type", "an object", _describe(raw), rules.ruling)
        elif not isinstance(raw, dict):
            yield _refused(path, "an object", raw)

    def _choice(
        self, shape: shapes.Choice, raw: Any, path: str, rules: WireRules
    ) -> Iterator[Departure]:
        if not isinstance(raw, str):
            yield _refused(path, "a string", raw)
            return
        if shape.has_in(self.revision, raw):
            return
        known = shape.known_in(self.revision)
        yield Departure(
            path,
            "other revision" if raw in shape.values else "unknown value",
            " or ".join(_describe(value) for value in known),
            _describe(raw),
            rules.ruling,
        )

    def _array(
        self, item: shapes.Shape, raw: Any, path: str, rules: WireRules
    ) -> Iterator[Departure]:
        if not isinstance(raw, list):
            yield _refused(path, "an array", raw)
            return
        for index, entry in enumerate(raw):
            place = f"{path}[{index}]"
            if entry is None and rules.null_items:
                yield Departure(place, "null", _expected(item), "null", rules.ruling)
            else:
                yield from self.value(item, entry, place, rules)

    def _tagged(
        self, shape: shapes.Tagged, raw: Any, path: str, rules: WireRules
    ) -> Iterator[Departure]:
        if not isinstance(raw, dict):
            yield _refused(path, "an object", raw)
            return
        tag = raw.get(shape.key)
        place = f"{path}.{shape.key}"
        if tag is not None and not isinstance(tag, str):
            yield _refused(place, "a string", tag)
            return
        cls = None if tag is None else shape.members.get(tag)
        if cls is None:
            yield Departure(
                place,
                "unknown type",
                " or ".join(_describe(member) for member in shape.members),
                "nothing" if shape.key not in raw else _describe(tag),
                rules.ruling,
            )
            return
        if not shapes.window_of_class(cls).holds(self.revision):
            yield self._other_revision(place, _describe(tag), shapes.window_of_class(cls), rules)
        departures = self._fields(cls, raw, path, {shape.key})
        if rules.incomplete_items and shapes.lacks(shapes.Model(cls), raw):
            departures = (_skipped(each, rules.incomplete_items) for each in departures)
        yield from departures

    def _fields(
        self, cls: shapes.ModelClass, raw: dict[str, Any], path: str, claimed: set[str]
    ) -> Iterator[Departure]:
        fields, known = _plan(cls, self.revision)
        for field, fitting in fields:
            if raw.get(field.wire, _ABSENT).__class__ not in fitting:
                yield from self._field(field, raw, f"{path}.{field.wire}")
        if known is None:
            return
        for key, entry in raw.items():
            if key not in known and key not in claimed:
                yield Departure(
                    f"{path}.{key}" if key.isidentifier() else f"{path}[{_describe(key)}]",
                    "unknown key",
                    "no such key",
                    _describe(entry),
                    self.lenience if self.lenience == "W-3" else None,
                )

    def _field(self, field: shapes.Field, raw: dict[str, Any], path: str) -> Iterator[Departure]:
        rules = field.rules
        known = field.window.holds(self.revision) and rules.written
        key = field.wire
        if key not in raw and rules.alias in raw:
            key = rules.alias
            yield Departure(path, "missing", _expected(field.shape), f"the key {key}", rules.ruling)
        if key not in raw:
            if rules.required_in(self.revision) and (known or not field.has_default):
                yield Departure(
                    path,
                    "missing",
                    _expected(field.shape),
                    "nothing",
                    rules.ruling if field.has_default else None,
                    not field.has_default,
                )
            return
        entry = raw[key]
        if not known:
            yield self._other_revision(path, _describe(entry), field.window, rules)
        if entry is None and field.has_default and not isinstance(field.shape, shapes.Anything):
            if not rules.nullable:
                yield Departure(
                    path,
                    "null",
                    _expected(field.shape) + ("" if rules.required else ", or nothing"),
                    "null",
                    rules.ruling or self.lenience,
                )
            return
        yield from self.value(field.shape, entry, path, rules)

    def _other_revision(self, path: str, got: str, window: Window, rules: WireRules) -> Departure:
        return Departure(
            path,
            "other revision",
            f"nothing in revision {self.revision.value}",
            got,
            window.ruling or rules.ruling,
        )


@functools.cache
def _plan(
    cls: shapes.ModelClass, revision: Revision
) -> tuple[list[tuple[shapes.Field, frozenset[type]]], frozenset[str] | None]:
    """Return the fields of a model and its known keys; None if any key may come.

    With each field come the types of entries that depart in no way: most need no further look.
    """
    fields, plan, known = shapes.fields_of(cls), [], set[str]()
    for field in fields:
        rules, fitting = field.rules, set[type]()
        shape = field.shape.inner if isinstance(field.shape, shapes.Nullable) else field.shape
        is_known = field.window.holds(revision) and rules.written
        if is_known and isinstance(shape, shapes.Scalar):
            fitting.update(*(_TYPES[name] for name in shape.names))
        if not rules.alias and not (
            rules.required_in(revision) and (is_known or not field.has_default)
        ):
            fitting.add(object)
        if not rules.rest:
            plan.append((field, frozenset(fitting)))
            known |= {field.wire, rules.alias or field.wire}
    return plan, frozenset(known) if len(plan) == len(fields) else None


def _is(name: shapes.ScalarName, raw: Any) -> bool:
    if isinstance(raw, bool):
        return name == "boolean"
    is_whole = name == "integer" and isinstance(raw, float) and raw.is_integer()
    return is_whole or isinstance(raw, _TYPES[name])


def _expected(shape: shapes.Shape) -> str:
    match shape:
        case shapes.Scalar(names):
            return " or ".join(_TYPE_NAMES[name] for name in names)
        case shapes.Choice():
            return "a string"
        case shapes.Array():
            return "an array"
        case shapes.Nullable(inner):
            return _expected(inner)
        case shapes.Anything():
            return "any value"
        case _:
            return "an object"


def _refused(path: str, expected: str, raw: Any) -> Departure:
    return Departure(path, "wrong type", expected, _describe(raw), refused=True)


def _skipped(departure: Departure, ruling: str) -> Departure:
    """Return a departure of an item that is read as of an unknown type (see `lacks`)."""
    if not departure.refused:
        return departure
    is_lack = departure.kind == "missing" or departure.got == "null"
    return _read_by(ruling if is_lack else None, departure)


def _read_by(ruling: str | None, departure: Departure) -> Departure:
    return attrs.evolve(departure, refused=False, ruling=ruling)


def _describe(raw: Any) -> str:
    """Describe a value for an error: as JSON if it is short, otherwise shortened or its kind."""
    if isinstance(raw, str):
        text = json.dumps(raw[:_MAX_TEXT], ensure_ascii=False)
        return text if len(raw) <= _MAX_TEXT else f"{text}... ({len(raw)} characters)"
    if isinstance(raw, dict):
        return "{}" if not raw else f"an object with {len(raw)} keys"
    if isinstance(raw, list):
        return "[]" if not raw else f"an array of {len(raw)}"
    if isinstance(raw, int) and not isinstance(raw, bool) and raw.bit_length() > 3 * _MAX_TEXT:
        return "a very long integer"
    if raw is None or isinstance(raw, bool | int | float):
        return json.dumps(raw)
    return f"a {type(raw).__name__}"
