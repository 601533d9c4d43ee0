"""The letter of an edition as functions that say quickly whether a raw value keeps it.

They say yes only where `codec.explain` would list nothing, and no as well where it lists what is
allowed: the slow way decides then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

from eca_protocol.messages.shapes import (
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
    window_of_class,
)
from eca_protocol.revisions import Revision

__all__ = ["Keeps", "keeper"]

Keeps: TypeAlias = Callable[[Any], bool]

_TYPES: dict[ScalarName, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


@functools.cache
def keeper(hint: Any, revision: Revision) -> Keeps:
    """Whether raw params or results of that type keep the letter of `revision`."""
    if hint is None:
        return lambda raw: raw is None
    return _keeps(shape_of(hint), revision)


def _keeps(shape: Shape, revision: Revision) -> Keeps:
    keeps: Keeps = _keeps_anything
    match shape:
        case Scalar(names):
            keeps = _of_types({type_ for name in names for type_ in _TYPES[name]})
        case JSONObject():
            keeps = _of_types({dict})
        case Choice():
            keeps = _choice(shape, revision)
        case Array(item):
            keeps = _array(_keeps(item, revision))
        case Nullable(inner):
            keeps = _keeps(inner, revision)
        case Model(cls):
            keeps = _model(cls, revision)
        case Tagged(members):
            keeps = _tagged(members, revision)
    return keeps


def _keeps_anything(_: Any) -> bool:
    return True


def _of_types(types: Collection[type]) -> Keeps:
    return lambda raw: raw.__class__ in types


def _choice(shape: Choice, revision: Revision) -> Keeps:
    known = {value for value, mark in shape.values.items() if mark is None or mark.holds(revision)}
    return lambda raw: raw.__class__ is str and raw in known


def _array(keeps: Keeps) -> Keeps:
    return lambda raw: raw.__class__ is list and all(map(keeps, raw))


def _tagged(members: Any, revision: Revision) -> Keeps:
    by_tag = {
        tag: _model(cls, revision)
        for tag, cls in members.items()
        if window_of_class(cls).holds(revision)
    }

    def keeps(raw: Any) -> bool:
        if raw.__class__ is not dict:
            return False
        tag = raw.get("type")
        member = by_tag.get(tag) if tag.__class__ is str else None
        return member is not None and member(raw)

    return keeps


def _model(cls: ModelClass, revision: Revision) -> Keeps:
    fields = fields_of(cls)
    if any(field.reading.rest for field in fields):
        return lambda _: False
    by_key = {
        field.wire: _keeps(field.shape, revision) for field in fields if _may(field, revision)
    }
    required = {
        field.wire
        for field in fields
        if field.wire in by_key and field.reading.required_in(revision)
    }
    tag = getattr(cls, "type", None)
    if isinstance(tag, str):
        by_key["type"] = lambda raw: raw == tag
        required.add("type")

    def keeps(raw: Any) -> bool:
        if raw.__class__ is not dict or not required <= raw.keys():
            return False
        for key, value in raw.items():
            allows = by_key.get(key)
            if allows is None or not allows(value):
                return False
        return True

    return keeps


def _may(field: Field, revision: Revision) -> bool:
    return field.reading.written and field.window.written_in(revision)
