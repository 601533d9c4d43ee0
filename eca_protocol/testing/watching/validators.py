"""Fast validators of raw values against the schema of an edition.

A validator returns True only if `codec.explain` would list no departure. It may return False for a
value whose departures are allowed; `codec.explain` then decides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

from eca_protocol.messages.shapes import (
    Array,
    Choice,
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

Validator: TypeAlias = Callable[[Any], bool]

_TYPES: dict[ScalarName, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


@functools.cache
def validator_for(hint: Any, revision: Revision) -> Validator:
    """Return a validator of raw params or results of this type for `revision`."""
    if hint is None:
        return lambda raw: raw is None
    return _validator_of(shape_of(hint), revision)


def _validator_of(shape: Shape, revision: Revision) -> Validator:
    is_valid: Validator = _accept_anything
    match shape:
        case Scalar(names):
            is_valid = _type_validator({type_ for name in names for type_ in _TYPES[name]})
        case JSONObject():
            is_valid = _type_validator({dict})
        case Choice():
            is_valid = _choice_validator(shape, revision)
        case Array(item):
            is_valid = _array_validator(_validator_of(item, revision))
        case Nullable(inner):
            is_valid = _validator_of(inner, revision)
        case Model(cls):
            is_valid = _model_validator(cls, revision)
        case Tagged(members):
            is_valid = _tagged_validator(members, revision)
    return is_valid


def _accept_anything(_: Any) -> bool:
    return True


def _type_validator(types: Collection[type]) -> Validator:
    return lambda raw: raw.__class__ in types


def _choice_validator(shape: Choice, revision: Revision) -> Validator:
    known = {value for value, mark in shape.values.items() if mark is None or mark.holds(revision)}
    return lambda raw: raw.__class__ is str and raw in known


def _array_validator(is_valid: Validator) -> Validator:
    return lambda raw: raw.__class__ is list and all(map(is_valid, raw))


def _tagged_validator(members: Any, revision: Revision) -> Validator:
    by_tag = {
        tag: _model_validator(cls, revision)
        for tag, cls in members.items()
        if window_of_class(cls).holds(revision)
    }

    def is_valid(raw: Any) -> bool:
        if raw.__class__ is not dict:
            return False
        tag = raw.get("type")
        member = by_tag.get(tag) if tag.__class__ is str else None
        return member is not None and member(raw)

    return is_valid


def _model_validator(cls: ModelClass, revision: Revision) -> Validator:
    fields = fields_of(cls)
    if any(field.rules.rest for field in fields):
        return lambda _: False
    by_key = {
        field.wire: _validator_of(field.shape, revision)
        for field in fields
        if field.rules.written and field.window.written_in(revision)
    }
    required = {
        field.wire for field in fields if field.wire in by_key and field.rules.required_in(revision)
    }
    tag = getattr(cls, "type", None)
    if isinstance(tag, str):
        by_key["type"] = lambda raw: raw == tag
        required.add("type")

    def is_valid(raw: Any) -> bool:
        if raw.__class__ is not dict or not required <= raw.keys():
            return False
        for key, value in raw.items():
            allows = by_key.get(key)
            if allows is None or not allows(value):
                return False
        return True

    return is_valid
