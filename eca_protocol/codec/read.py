"""JSON values to models, on one strict cattrs converter.

Nothing is converted: a string is never read as a number, nor null as text. Unknown keys are
passed over, unknown strings and types kept. Hooks are made when a type is first met. On a value
that does not fit they raise `Mismatch` (or KeyError for an absent key) and say no more: the words
are found by `explain`, which must refuse exactly what is refused here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import cattrs
from cattrs.gen import make_dict_structure_fn, override

from eca_protocol.messages.marks import UnknownValue
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
    shape_of,
)

__all__ = ["Mismatch", "Read", "reader"]

Read: TypeAlias = Callable[[Any, Any], Any]
"""A cattrs structure hook: the JSON value and its type, which ours do not need."""


class Mismatch(Exception):
    """A value does not fit its type."""


def reader(hint: Any) -> Read:
    """The function that reads values of the type `hint`; the same one each time."""
    return _CONVERTER.get_structure_hook(hint)


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


_SCALARS: dict[ScalarName, Read] = {
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
    """The readers of a union by tag, made when a tag is first met."""

    def __init__(self, shape: Tagged) -> None:
        super().__init__()
        self._members = shape.members
        self._unknown = shape.unknown

    def __missing__(self, tag: Any) -> Read:
        if tag is not None and not isinstance(tag, str):
            raise Mismatch
        cls = self._members.get(tag) if tag is not None else None
        if cls is None:
            return self._read_unknown
        self[tag] = read = _read_fields(cls)
        return read

    def _read_unknown(self, value: dict[str, Any], _: Any) -> Any:
        return self._unknown(type=value.get("type"), raw=value)


def _read_tagged(shape: Tagged) -> Read:
    members = _Members(shape)

    def read(value: Any, _: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch
        try:
            read_member = members[value.get("type")]
        except TypeError:  # a list or an object as the tag
            raise Mismatch from None
        return read_member(value, None)

    return read


def _read_model(cls: ModelClass) -> Read:
    read_fields = _read_fields(cls)

    def read(value: Any, _: Any) -> Any:
        if isinstance(value, dict):
            return read_fields(value, None)
        raise Mismatch

    return read


@functools.cache
def _read_fields(cls: ModelClass) -> Read:
    """The reader of a model, given a dict; cattrs writes it field by field."""
    fields = fields_of(cls)
    overrides = {
        field.name: override(rename=field.wire, struct_hook=_read_field(field)) for field in fields
    }
    read_claimed: Read = make_dict_structure_fn(
        cls,
        _CONVERTER,
        _cattrs_detailed_validation=False,
        _cattrs_use_linecache=False,
        **overrides,  # type: ignore[arg-type]  # mypy tries the overrides on the named options
    )
    rest = next((field.name for field in fields if field.reading.rest), None)
    if rest is None:
        return read_claimed
    claimed = {field.wire for field in fields if not field.reading.rest}

    def read(value: dict[str, Any], _: Any) -> Any:
        unclaimed = {key: entry for key, entry in value.items() if key not in claimed}
        return read_claimed(value | {rest: unclaimed}, cls)

    return read


def _read_field(field: Field) -> Read:
    shape, reading = field.shape, field.reading
    if isinstance(shape, Array) and reading.null_items:
        read = _read_array(_reader_of(shape.item), null_items=True)
    else:
        read = _reader_of(shape)
    if reading.list_as_empty:
        read = _read_list_as_empty(read)
    if field.has_default and not isinstance(shape, Nullable | Anything):
        return _read_null_as_default(read, field)
    return read


def _read_null_as_default(read_value: Read, field: Field) -> Read:
    def read(value: Any, _: Any) -> Any:
        return field.read_default() if value is None else read_value(value, None)

    return read


def _read_list_as_empty(read_value: Read) -> Read:
    def read(value: Any, _: Any) -> Any:
        return {} if isinstance(value, list) else read_value(value, None)

    return read


def _reader_of(shape: Shape) -> Read:
    match shape:
        case Scalar(names):
            read = _read_one_of([_SCALARS[name] for name in names])
        case Anything():
            read = _read_anything
        case JSONObject():
            read = _read_object
        case Choice(values):
            read = _read_choice(frozenset(values))
        case Array(item):
            read = _read_array(_reader_of(item))
        case Nullable(inner):
            read = _read_nullable(_reader_of(inner))
        case Model(cls):
            read = _read_model(cls)
        case Tagged():
            read = _read_tagged(shape)
    return read


def _is_ours(hint: Any) -> bool:
    try:
        shape_of(hint)
    except TypeError:
        return False
    return True


_CONVERTER = cattrs.Converter(detailed_validation=False)
_CONVERTER.register_structure_hook_factory(_is_ours, lambda hint: _reader_of(shape_of(hint)))
