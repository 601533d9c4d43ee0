"""The departures of a raw message from the specification's text, each with its path.

It refuses exactly the messages that `read` refuses; a property test compares both. In addition it
lists the departures that are read, with the ruling that allows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol.endpoint import Method, Table
from eca_protocol.errors import DecodeError, LocalProtocolError
from eca_protocol.messages.marks import WireRules
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
    ScalarName,
    Shape,
    Tagged,
    fields_of,
    lacks,
    shape_of,
    tag_key_of,
    window_of_class,
)
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


@attrs.frozen(kw_only=True)
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
            path=part,
            kind="other revision",
            expected=f"no {method.name} in revision {revision.value}",
            got=method.name,
            ruling=method.window.ruling,
        )
    hint = method.params if part == "params" else method.result
    if hint is None:
        if raw not in (None, {}, []):
            yield Departure(
                path=part,
                kind="wrong type",
                expected="null",
                got=_describe(raw),
                ruling=walk.lenience,
            )
        return
    if raw is None or raw == []:
        yield Departure(
            path=part, kind="null", expected="an object", got=_describe(raw), ruling=walk.lenience
        )
        raw = {}
    yield from walk.value(shape_of(hint), raw, part, WireRules())


@attrs.frozen
class _Walk:
    revision: Revision
    lenience: str
    """The ruling by which this side's nulls and unknown keys are read."""

    def value(self, shape: Shape, raw: Any, path: str, rules: WireRules) -> Iterator[Departure]:
        match shape:
            case Scalar(names):
                if not any(_is(name, raw) for name in names):
                    refused = _refused(path, _expected(shape), raw)
                    is_read = rules.object_as_true and isinstance(raw, dict)
                    yield _read_by(rules.ruling, refused) if is_read else refused
            case JSONObject():
                yield from self._object(raw, path, rules)
            case Choice():
                yield from self._choice(shape, raw, path, rules)
            case Array(item):
                yield from self._array(item, raw, path, rules)
            case Nullable(inner):
                if raw is not None:
                    yield from self.value(inner, raw, path, rules)
            case Model(cls):
                yield from self._model(cls, raw, path)
            case Tagged():
                yield from self._tagged(shape, raw, path, rules)

    def _model(self, cls: ModelClass, raw: Any, path: str) -> Iterator[Departure]:
        if not isinstance(raw, dict):
            yield _refused(path, "an object", raw)
            return
        tag = getattr(cls, "type", None)
        if not isinstance(tag, str):
            yield from self._fields(cls, raw, path, set())
            return
        key = tag_key_of(cls)
        if raw.get(key) != tag:  # a member of a union, used outside of the union
            yield Departure(
                path=f"{path}.{key}",
                kind="unknown value" if key in raw else "missing",
                expected=_describe(tag),
                got=_describe(raw[key]) if key in raw else "nothing",
                ruling=self.lenience,
            )
        yield from self._fields(cls, raw, path, {key})

    def _object(self, raw: Any, path: str, rules: WireRules) -> Iterator[Departure]:
        if isinstance(raw, list) and rules.list_as_empty:
            yield Departure(
                path=path,
                kind="wrong type",
                expected="an object",
                got=_describe(raw),
                ruling=rules.ruling,
            )
        elif not isinstance(raw, dict):
            yield _refused(path, "an object", raw)

    def _choice(self, shape: Choice, raw: Any, path: str, rules: WireRules) -> Iterator[Departure]:
        if not isinstance(raw, str):
            yield _refused(path, "a string", raw)
            return
        within = shape.values.get(raw)
        if raw in shape.values and (within is None or within.holds(self.revision)):
            return
        known = [
            value
            for value, mark in shape.values.items()
            if mark is None or mark.holds(self.revision)
        ]
        yield Departure(
            path=path,
            kind="unknown value" if within is None else "other revision",
            expected=" or ".join(_describe(value) for value in known),
            got=_describe(raw),
            ruling=rules.ruling,
        )

    def _array(self, item: Shape, raw: Any, path: str, rules: WireRules) -> Iterator[Departure]:
        if not isinstance(raw, list):
            yield _refused(path, "an array", raw)
            return
        for index, entry in enumerate(raw):
            place = f"{path}[{index}]"
            if entry is None and rules.null_items:
                yield Departure(
                    path=place,
                    kind="null",
                    expected=_expected(item),
                    got="null",
                    ruling=rules.ruling,
                )
            else:
                yield from self.value(item, entry, place, rules)

    def _tagged(self, shape: Tagged, raw: Any, path: str, rules: WireRules) -> Iterator[Departure]:
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
                path=place,
                kind="unknown type",
                expected=" or ".join(_describe(member) for member in shape.members),
                got="nothing" if shape.key not in raw else _describe(tag),
                ruling=rules.ruling,
            )
            return
        if not window_of_class(cls).holds(self.revision):
            yield self._other_revision(place, _describe(tag), window_of_class(cls), rules)
        departures = self._fields(cls, raw, path, {shape.key})
        if rules.incomplete_items and lacks(Model(cls), raw):
            departures = (_skipped(each, rules.incomplete_items) for each in departures)
        yield from departures

    def _fields(
        self, cls: ModelClass, raw: dict[str, Any], path: str, claimed: set[str]
    ) -> Iterator[Departure]:
        fields = fields_of(cls)
        for field in fields:
            if not field.rules.rest:
                yield from self._field(field, raw, f"{path}.{field.wire}")
        if any(field.rules.rest for field in fields):
            return
        claimed = claimed | {field.wire for field in fields}
        claimed |= {field.rules.alias for field in fields if field.rules.alias}
        for key, entry in raw.items():
            if key not in claimed:
                yield Departure(
                    path=f"{path}.{key}" if key.isidentifier() else f"{path}[{_describe(key)}]",
                    kind="unknown key",
                    expected="no such key",
                    got=_describe(entry),
                    ruling=self.lenience if self.lenience == "W-3" else None,
                )

    def _field(self, field: Field, raw: dict[str, Any], path: str) -> Iterator[Departure]:
        rules = field.rules
        known = field.window.holds(self.revision) and rules.written
        key = field.wire
        if key not in raw and rules.alias in raw:
            key = rules.alias
            yield Departure(
                path=path,
                kind="missing",
                expected=_expected(field.shape),
                got=f"the key {key}",
                ruling=rules.ruling,
            )
        if key not in raw:
            if rules.required_in(self.revision) and (known or not field.has_default):
                yield Departure(
                    path=path,
                    kind="missing",
                    expected=_expected(field.shape),
                    got="nothing",
                    ruling=rules.ruling if field.has_default else None,
                    refused=not field.has_default,
                )
            return
        entry = raw[key]
        if not known:
            yield self._other_revision(path, _describe(entry), field.window, rules)
        if entry is None and field.has_default and not isinstance(field.shape, Anything):
            if not rules.nullable:
                yield Departure(
                    path=path,
                    kind="null",
                    expected=_expected(field.shape) + ("" if rules.required else ", or nothing"),
                    got="null",
                    ruling=rules.ruling or self.lenience,
                )
            return
        yield from self.value(field.shape, entry, path, rules)

    def _other_revision(self, path: str, got: str, window: Window, rules: WireRules) -> Departure:
        return Departure(
            path=path,
            kind="other revision",
            expected=f"nothing in revision {self.revision.value}",
            got=got,
            ruling=window.ruling or rules.ruling,
        )


_TYPE_NAMES: dict[ScalarName, str] = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
}


def _is(name: ScalarName, raw: Any) -> bool:
    match name:
        case "string":
            return isinstance(raw, str)
        case "boolean":
            return isinstance(raw, bool)
        case "number":
            return isinstance(raw, int | float) and not isinstance(raw, bool)
        case "integer":
            return (isinstance(raw, int) and not isinstance(raw, bool)) or (
                isinstance(raw, float) and raw.is_integer()
            )


def _expected(shape: Shape) -> str:
    match shape:
        case Scalar(names):
            return " or ".join(_TYPE_NAMES[name] for name in names)
        case Choice():
            return "a string"
        case Array():
            return "an array"
        case Nullable(inner):
            return _expected(inner)
        case Anything():
            return "any value"
        case _:
            return "an object"


def _refused(path: str, expected: str, raw: Any) -> Departure:
    return Departure(
        path=path, kind="wrong type", expected=expected, got=_describe(raw), refused=True
    )


def _skipped(departure: Departure, ruling: str) -> Departure:
    """Return a departure of an item that is read as of an unknown type (see `lacks`)."""
    if not departure.refused:
        return departure
    is_lack = departure.kind == "missing" or departure.got == "null"
    return _read_by(ruling if is_lack else None, departure)


def _read_by(ruling: str | None, departure: Departure) -> Departure:
    return attrs.evolve(departure, refused=False, ruling=ruling)


_MAX_TEXT = 60


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
