"""The loss of a message in a different edition, computed from the models' metadata."""

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
    """Check that writing for `revision` and reading loses exactly the members of the metadata."""
    codec = Codec(ECA, revision)
    try:
        expected = left_of(shape_of(ECA[method].params), params, revision)
    except Lost:
        assert codec.outgoing(method, params) == ()
        return
    ((name, raw),) = codec.outgoing(method, params)
    assert codec.decode_params(name, raw) == expected


class Lost(Exception):
    """A required value that the other revision does not have."""


def left_of(shape: Shape, value: Any, revision: Revision) -> Any:
    """Return the part of a value that the revision can express."""
    match shape:
        case Nullable(inner):
            return None if value is None else left_of(inner, value, revision)
        case Choice(values):
            window = values.get(value)
            return value if window is None or window.holds(revision) else window.fallback
        case Array(item):
            return tuple(part for each in value for part in left_or_nothing(item, each, revision))
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
    rest: dict[str, Any] = {}
    by_key: dict[str, Any] = {}
    for field in fields_of(type(value)):
        entry = getattr(value, field.name)
        if field.window.holds(revision) or field.window.ruling:
            optional = isinstance(field.shape, Nullable)
            present = (left_or_nothing if optional else needed)(field.shape, entry, revision)
            rest[field.name] = present[0] if present else None
        elif field.rules.fallback_key and entry is not None:
            by_key[field.rules.fallback_key] = entry
    return type(value)(**{**rest, **by_key})


def needed(shape: Shape, value: Any, revision: Revision) -> list[Any]:
    return [left_of(shape, value, revision)]
