"""Models to JSON values, for one revision.

Written is what the revision knows, and what a ruling adds: a field outside is left out, a value
outside gives way to its stand-in, a member of a union outside raises `NotWritten`. Optional
fields are left out while they have their default; user data passes untouched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import cattrs
from cattrs.fns import identity
from cattrs.gen import make_dict_unstructure_fn, override

from eca_protocol.messages.shapes import (
    Array,
    Choice,
    Field,
    Model,
    ModelClass,
    Nullable,
    Shape,
    Tagged,
    fields_of,
    shape_of,
    window_of_class,
)
from eca_protocol.revisions import Revision

__all__ = ["NotWritten", "Write", "writer"]

Write: TypeAlias = Callable[[Any], Any]


class NotWritten(Exception):
    """The revision does not know this kind of object at all."""


@functools.cache
def writer(hint: Any, revision: Revision) -> Write:
    """The function that writes values of the type `hint` for `revision`."""
    return _writer_of(shape_of(hint), revision)


def _writer_of(shape: Shape, revision: Revision) -> Write:
    match shape:
        case Choice(values):
            stand_ins = {
                value: late.fallback
                for value, late in values.items()
                if late is not None and revision < late.since
            }
            return functools.partial(_write_choice, stand_ins) if stand_ins else identity
        case Array(item):
            return _write_array(_writer_of(item, revision))
        case Nullable(inner):
            return _write_nullable(_writer_of(inner, revision))
        case Model(cls):
            return _write_model(cls, revision)
        case Tagged():
            return _Members(shape, revision).write
        case _:
            return identity


def _write_choice(stand_ins: dict[str, str], value: str) -> str:
    return stand_ins.get(value, value)


def _write_array(write_item: Write) -> Write:
    if write_item is identity:
        return list

    def write(items: Any) -> list[Any]:
        return [write_item(item) for item in items]

    return write


def _write_nullable(write_inner: Write) -> Write:
    if write_inner is identity:
        return identity

    def write(value: Any) -> Any:
        return None if value is None else write_inner(value)

    return write


class _Members(dict[ModelClass, Write]):
    """The writers of a union by class, made when a class is first met."""

    def __init__(self, shape: Tagged, revision: Revision) -> None:
        super().__init__()
        self._shape = shape
        self._revision = revision

    def __missing__(self, cls: ModelClass) -> Write:
        self[cls] = write = self._make(cls)
        return write

    def write(self, value: Any) -> Any:
        return self[value.__class__](value)

    def _make(self, cls: ModelClass) -> Write:
        if cls is self._shape.unknown:
            return _write_raw
        tag = getattr(cls, "type", None)
        if not isinstance(tag, str) or self._shape.members.get(tag) is not cls:
            names = ", ".join(member.__name__ for member in self._shape.members.values())
            raise TypeError(f"expected one of {names}, got {cls.__name__}")
        if not window_of_class(cls).written_in(self._revision):
            return functools.partial(_refuse, cls, self._revision)
        return _write_tagged(tag, _write_model(cls, self._revision))


def _write_raw(value: Any) -> Any:
    return value.raw


def _refuse(cls: ModelClass, revision: Revision, _: Any) -> Any:
    raise NotWritten(f"{cls.__name__} does not exist in revision {revision.value}")


def _write_tagged(tag: str, write_fields: Write) -> Write:
    def write(value: Any) -> dict[str, Any]:
        return {"type": tag, **write_fields(value)}

    return write


@functools.cache
def _write_model(cls: ModelClass, revision: Revision) -> Write:
    fields = fields_of(cls)
    write_claimed: Write = make_dict_unstructure_fn(
        cls,
        _CONVERTER,
        _cattrs_use_linecache=False,
        **{field.name: _override(field, revision) for field in fields},
    )
    rest = next((field.name for field in fields if field.reading.rest), None)
    if rest is None:
        return write_claimed

    def write(value: Any) -> dict[str, Any]:
        return {**getattr(value, rest), **write_claimed(value)}

    return write


def _override(field: Field, revision: Revision) -> Any:
    reading = field.reading
    if reading.rest or not reading.written or not field.window.written_in(revision):
        return override(omit=True)
    optional = not reading.required
    shape = field.shape
    if optional and isinstance(shape, Nullable):  # None is the default and is left out
        shape = shape.inner
    return override(
        rename=field.wire, omit_if_default=optional, unstruct_hook=_writer_of(shape, revision)
    )


_CONVERTER = cattrs.Converter()
