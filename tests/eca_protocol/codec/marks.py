"""What the marks of the models let one edition be told of another's message, worked out slowly."""

from __future__ import annotations

from typing import Any

from eca_protocol.codec import Codec
from eca_protocol.messages.shapes import (
    Array,
    Choice,
    Model,
    Nullable,
    Shape,
    Tagged,
    fields_of,
    shape_of,
    window_of_class,
)
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision


def assert_told_but_for_the_marks(method: str, params: Any, revision: Revision) -> None:
    """What is written for `revision` and read again has lost just what the marks name."""
    codec = Codec(ECA, revision)
    try:
        expected = left_of(shape_of(ECA[method].params), params, revision)
    except Lost:
        assert codec.outgoing(method, params) == ()
        return
    ((name, raw),) = codec.outgoing(method, params)
    assert codec.decode_params(name, raw) == expected


class Lost(Exception):
    """The other revision knows no such thing, and something is needed in its place."""


def left_of(shape: Shape, value: Any, revision: Revision) -> Any:
    """What the marks let a revision tell of a value."""
    match shape:
        case Nullable(inner):
            return None if value is None else left_of(inner, value, revision)
        case Choice(values):
            within = values.get(value)
            return value if within is None or within.holds(revision) else within.fallback
        case Array(item):
            return tuple(left for each in value for left in left_or_nothing(item, each, revision))
        case Tagged(_, unknown):
            if not isinstance(value, unknown) and not window_of_class(type(value)).holds(revision):
                raise Lost
            return value if isinstance(value, unknown) else left_of_model(value, revision)
        case Model():
            return left_of_model(value, revision)
        case _:
            return value


def left_or_nothing(shape: Shape, value: Any, revision: Revision) -> list[Any]:
    try:
        return [left_of(shape, value, revision)]
    except Lost:
        return []


def left_of_model(value: Any, revision: Revision) -> Any:
    left: dict[str, Any] = {}
    told: dict[str, Any] = {}
    for field in fields_of(type(value)):
        entry = getattr(value, field.name)
        if field.window.holds(revision) or field.window.ruling:
            optional = isinstance(field.shape, Nullable)
            found = (left_or_nothing if optional else needed)(field.shape, entry, revision)
            left[field.name] = found[0] if found else None
        elif field.rules.fallback_key and entry is not None:
            told[field.rules.fallback_key] = entry
    return type(value)(**{**left, **told})


def needed(shape: Shape, value: Any, revision: Revision) -> list[Any]:
    return [left_of(shape, value, revision)]
