"""The conversion of JSON values to models: the strict hooks of the cattrs converter.

No value changes its type: a string is never read as a number, nor null as text. Unknown keys are
ignored; unknown strings and types are retained. A hook is made at the first use of its type. The
models have no validators, so a hook only fills their slots. For a value that does not fit it raises
`Mismatch` (or KeyError for an absent key) without a message; `explain`, which refuses the same
values, describes the error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

from eca_protocol.codec.unrolled import compile_function
from eca_protocol.messages import shapes
from eca_protocol.messages.marks import UnknownValue

Read: TypeAlias = Callable[[Any, Any], Any]
"""A cattrs structure hook; it takes the JSON value and its type, which our hooks ignore."""


class Mismatch(ValueError):
    """A value that does not fit its type."""


def reader(shape: shapes.Shape) -> Read:
    """Return the function that reads values of `shape`."""
    match shape:
        case shapes.Scalar(names):
            read = _read_one_of([_SCALARS[name] for name in names])
        case shapes.Anything():
            read = _read_anything
        case shapes.JSONObject():
            read = _read_object
        case shapes.Choice(values):
            read = _read_choice(frozenset(values))
        case shapes.Array(item):
            read = _read_array(reader(item))
        case shapes.Nullable(inner):
            read = _read_nullable(reader(inner))
        case shapes.Model(cls):
            read = _read_model(cls)
        case shapes.Tagged():
            read = _read_tagged(shape)
    return read


def _read_string(value: Any, _: Any) -> str:
    if isinstance(value, str):
        return value
    raise Mismatch


def _read_integer(value: Any, _: Any) -> int:
    if value.__class__ is int:
        return value
    if isinstance(value, float) and value.is_integer():  # 5.0 is the same JSON number as 5
        return int(value)
    raise Mismatch


def _read_number(value: Any, _: Any) -> float:
    if value.__class__ is int or value.__class__ is float:
        return value
    raise Mismatch


def _read_boolean(value: Any, _: Any) -> bool:
    if value is True or value is False:
        return value
    raise Mismatch


def _read_object(value: Any, _: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise Mismatch


def _read_anything(value: Any, _: Any) -> Any:
    return value


_SCALARS: dict[shapes.ScalarName, Read] = {
    "string": _read_string,
    "integer": _read_integer,
    "number": _read_number,
    "boolean": _read_boolean,
}


def _read_one_of(reads: list[Read]) -> Read:
    if len(reads) == 1:
        return reads[0]

    def read(value: Any, _: Any) -> Any:
        for attempt in reads:
            try:
                return attempt(value, None)
            except Mismatch:
                continue
        raise Mismatch

    return read


def _read_choice(values: frozenset[str]) -> Read:
    def read(value: Any, _: Any) -> str:
        if isinstance(value, str):
            return value if value in values else UnknownValue(value)
        raise Mismatch

    return read


def _read_array(item: Read, *, null_items: bool = False) -> Read:
    def read(value: Any, _: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Mismatch
        if null_items:
            return tuple([item(entry, None) for entry in value if entry is not None])
        return tuple([item(entry, None) for entry in value])

    return read


def _read_nullable(inner: Read) -> Read:
    def read(value: Any, _: Any) -> Any:
        return None if value is None else inner(value, None)

    return read


class _Members(dict[Any, Read]):
    """The readers of a union by tag, each made at its first use."""

    def __init__(self, shape: shapes.Tagged, *, incomplete: bool) -> None:
        super().__init__()
        self._members = shape.members
        self._unknown = shape.unknown
        self._key = shape.key
        self._incomplete = incomplete

    def __missing__(self, tag: Any) -> Read:
        if tag is not None and not isinstance(tag, str):
            raise Mismatch
        cls = None if tag is None else self._members.get(tag)
        if cls is None:
            return self._read_unknown
        read = _read_model(cls)
        self[tag] = read = self._read_incomplete(cls, read) if self._incomplete else read
        return read

    def _read_incomplete(self, cls: shapes.ModelClass, read: Read) -> Read:
        def attempt(value: dict[str, Any], _: Any) -> Any:
            try:
                return read(value, None)
            except (Mismatch, KeyError):
                if shapes.lacks(shapes.Model(cls), value):
                    return self._read_unknown(value, None)
                raise

        return attempt

    def _read_unknown(self, value: dict[str, Any], _: Any) -> Any:
        return self._unknown(type=value.get(self._key), raw=value)


def _read_tagged(shape: shapes.Tagged, *, incomplete: bool = False) -> Read:
    members, key = _Members(shape, incomplete=incomplete), shape.key

    def read(value: Any, _: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch
        try:
            read_member = members[value.get(key)]
        except TypeError:  # a list or an object as the tag
            raise Mismatch from None
        return read_member(value, None)

    return read


@functools.cache
def _read_model(cls: shapes.ModelClass) -> Read:
    """Return the unrolled reader of a model; like unpickling it fills the slots directly."""
    names = {"cls": cls, "new": object.__new__, "Mismatch": Mismatch}
    body = ["if not isinstance(value, dict): raise Mismatch", "self = new(cls)"]
    fields = shapes.fields_of(cls)
    for field in fields:
        names[f"set_{field.name}"] = getattr(cls, field.name).__set__
        if field.rules.rest:
            claimed = {other.wire for other in fields if not other.rules.rest}
            names[f"read_{field.name}"] = functools.partial(_read_rest, claimed)
            body.append(f"set_{field.name}(self, read_{field.name}(value))")
        else:
            body += _field_source(field, names)
    return compile_function("read(value, _)", [*body, "return self"], names)


def _field_source(field: shapes.Field, names: dict[str, Any]) -> list[str]:
    """Return source lines that read one field; absent and null values give its default."""
    key, other = field.wire, field.rules.alias
    key_source = f"{key!r}" if other is None else f"{key!r} if {key!r} in value else {other!r}"
    if field.has_default:
        names[f"default_{field.name}"] = field.default_factory or field.default
        default = f"default_{field.name}" + ("()" if field.default_factory else "")
        if field.rules.null_as_empty:
            default = f"'' if {key!r} in value else {default}"
        lines = [f"entry = value.get({key_source})", f"if entry is None: entry = {default}"]
        otherwise = "elif"
    else:
        lines = [f"entry = value[{key_source}]"]
        otherwise = "if"
    names[f"read_{field.name}"] = _read_field(field)
    test = "entry.__class__ is not str" if _plain(field.shape) == _STRING else "True"
    lines.append(f"{otherwise} {test}: entry = read_{field.name}(entry, None)")
    return [*lines, f"set_{field.name}(self, entry)"]


_STRING = shapes.Scalar(("string",))


def _plain(shape: shapes.Shape) -> shapes.Shape:
    return shape.inner if isinstance(shape, shapes.Nullable) else shape


def _read_field(field: shapes.Field) -> Read:
    shape = _plain(field.shape) if field.has_default else field.shape
    if isinstance(shape, shapes.Array) and field.rules.null_items:
        return _read_array(reader(shape.item), null_items=True)
    if field.rules.incomplete_items:
        assert isinstance(shape, shapes.Array)
        assert isinstance(shape.item, shapes.Tagged)
        return _read_array(_read_tagged(shape.item, incomplete=True))
    if field.rules.object_as_true:
        return _read_object_as_true(reader(shape))
    if field.rules.list_as_empty:
        return _read_list_as_empty(reader(shape))
    return reader(shape)


def _read_rest(claimed: set[str], value: dict[str, Any]) -> dict[str, Any]:
    return {key: entry for key, entry in value.items() if key not in claimed}


def _read_object_as_true(read_value: Read) -> Read:
    def read(value: Any, _: Any) -> Any:
        return True if isinstance(value, dict) else read_value(value, None)

    return read


def _read_list_as_empty(read_value: Read) -> Read:
    def read(value: Any, _: Any) -> Any:
        return {} if isinstance(value, list) else read_value(value, None)

    return read
