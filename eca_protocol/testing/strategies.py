"""Hypothesis strategies for every message, derived from the models and the method table.

    from eca_protocol.testing import strategies as eca

    @given(eca.params("chat/prompt"))
    def test_my_client_writes_what_my_server_reads(params): ...

A typed value contains only what `revision` writes, so a round trip returns an equal value. Values
shrink towards absent options, empty texts and the first member of a union.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from eca_protocol.codec import Codec
from eca_protocol.endpoint import Method, Table
from eca_protocol.messages import ChatContent, ChatContext
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
    window_of_class,
)
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

__all__ = [
    "broken",
    "contents",
    "contexts",
    "from_model",
    "json_objects",
    "json_values",
    "messages",
    "params",
    "raw_params",
    "raw_results",
    "results",
]

_SAFE_INTEGER = 2**53 - 1
_SCALARS: dict[ScalarName, st.SearchStrategy[Any]] = {
    "string": st.text(),
    "integer": st.integers(-_SAFE_INTEGER, _SAFE_INTEGER),
    "number": st.integers(-_SAFE_INTEGER, _SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
}


@functools.cache
def json_values() -> st.SearchStrategy[Any]:
    """Generate JSON values: null, booleans, numbers, text, and lists and objects of them."""
    leaves = st.none() | st.booleans() | _SCALARS["number"] | st.text()
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    )


@functools.cache
def json_objects() -> st.SearchStrategy[dict[str, Any]]:
    """Generate JSON objects."""
    return st.dictionaries(st.text(), json_values(), max_size=3)


def from_model(
    cls: ModelClass, *, revision: Revision = Revision.CURRENT, unknown: bool = True
) -> st.SearchStrategy[Any]:
    """Generate instances of a message class, limited to what `revision` writes.

    Args:
        cls: the class, for example `ChatPromptParams`.
        revision: the edition; fields, values and types outside it keep their defaults.
        unknown: whether strings and types that no edition lists may appear.
    """
    return _from_hint(cls, revision, unknown=unknown)


def contents(
    *, revision: Revision = Revision.CURRENT, unknown: bool = True
) -> st.SearchStrategy[ChatContent]:
    """Generate `ChatContent` objects of any type."""
    return _from_hint(ChatContent, revision, unknown=unknown)


def contexts(
    *, revision: Revision = Revision.CURRENT, unknown: bool = True
) -> st.SearchStrategy[ChatContext]:
    """Generate `ChatContext` objects of any type."""
    return _from_hint(ChatContext, revision, unknown=unknown)


def params(
    method: str,
    *,
    revision: Revision = Revision.CURRENT,
    unknown: bool = True,
    table: Table = ECA,
) -> st.SearchStrategy[Any]:
    """Generate typed params of a method; None for a method without params."""
    return _from_hint(_row(table, method).params, revision, unknown=unknown)


def results(
    method: str,
    *,
    revision: Revision = Revision.CURRENT,
    unknown: bool = True,
    table: Table = ECA,
) -> st.SearchStrategy[Any]:
    """Generate typed results of a request; None for a request without a result."""
    return _from_hint(_row(table, method).result, revision, unknown=unknown)


@st.composite
def messages(
    draw: st.DrawFn,
    *,
    direction: Literal["client_to_server", "server_to_client"] | None = None,
    kind: Literal["request", "notification"] | None = None,
    revision: Revision = Revision.CURRENT,
    table: Table = ECA,
) -> tuple[str, Any]:
    """Generate a method that `revision` writes, with typed params.

    Args:
        draw: supplied by hypothesis.
        direction: `client_to_server` or `server_to_client`; by default both.
        kind: `request` or `notification`; by default both.
        revision: the edition to write.
        table: the methods to choose from.
    """
    names = [
        row.name
        for row in table
        if row.window.written_in(revision)
        and kind in (None, row.kind)
        and (direction is None or row.direction in (direction, "both"))
    ]
    if not names:
        raise InvalidArgument(f"the table has no {direction} {kind}")
    method = draw(st.sampled_from(names))
    return method, draw(params(method, revision=revision, table=table))


def raw_params(
    method: str, *, revision: Revision = Revision.CURRENT, table: Table = ECA
) -> st.SearchStrategy[Any]:
    """Generate params as JSON that a reader must accept, with noise that the rulings allow.

    The noise is unknown keys, null for absent fields, and missing required fields where a ruling
    tolerates that.
    """
    hint = _row(table, method).params
    encode = functools.partial(Codec(table, revision).encode_params, method)
    return _raw(hint, params(method, revision=revision, table=table), encode)


def raw_results(
    method: str, *, revision: Revision = Revision.CURRENT, table: Table = ECA
) -> st.SearchStrategy[Any]:
    """Generate results as JSON that a reader must accept; see `raw_params`."""
    hint = _row(table, method).result
    encode = functools.partial(Codec(table, revision).encode_result, method)
    return _raw(hint, results(method, revision=revision, table=table), encode)


@st.composite
def broken(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> Any:
    """Generate values of `values` in which one place is replaced or removed."""
    return _with_one_place_replaced(draw, draw(values))


def _row(table: Table, method: str) -> Method:
    row = table.get(method)
    if row is None:
        raise InvalidArgument(f"the table has no method {method!r}")
    return row


@functools.cache
def _from_hint(hint: Any, revision: Revision, *, unknown: bool) -> st.SearchStrategy[Any]:
    if hint is None:
        return st.none()
    return _from_shape(shape_of(hint), revision, unknown=unknown)


def _from_shape(shape: Shape, revision: Revision, *, unknown: bool) -> st.SearchStrategy[Any]:
    match shape:
        case Scalar(names):
            made = st.one_of([_SCALARS[name] for name in names])
        case Anything():
            made = json_values()
        case JSONObject():
            made = json_objects()
        case Choice():
            made = _choices(shape, revision, unknown=unknown)
        case Array(item):
            items = _from_shape(item, revision, unknown=unknown)
            made = st.lists(items, max_size=3).map(tuple)
        case Nullable(inner):
            made = st.none() | _from_shape(inner, revision, unknown=unknown)
        case Model(cls):
            made = _instances(cls, revision, unknown=unknown)
        case Tagged():
            made = _members(shape, revision, unknown=unknown)
    return made


def _choices(shape: Choice, revision: Revision, *, unknown: bool) -> st.SearchStrategy[str]:
    known = st.sampled_from(shape.known_in(revision))
    if not unknown:
        return known
    others = st.text().filter(lambda text: text not in shape.values)
    return known | others.map(UnknownValue)


@functools.cache
def _instances(cls: ModelClass, revision: Revision, *, unknown: bool) -> st.SearchStrategy[Any]:
    fields = [
        field
        for field in fields_of(cls)
        if field.rules.written and field.window.written_in(revision)
    ]
    claimed = {field.wire for field in fields_of(cls)}
    strategies = {
        field.name: st.dictionaries(
            st.text().filter(lambda key: key not in claimed), json_values(), max_size=3
        )
        if field.rules.rest
        else _from_shape(field.shape, revision, unknown=unknown)
        for field in fields
    }
    return st.builds(cls, **strategies)


def _members(shape: Tagged, revision: Revision, *, unknown: bool) -> st.SearchStrategy[Any]:
    members = [
        _instances(cls, revision, unknown=unknown)
        for cls in shape.members.values()
        if window_of_class(cls).written_in(revision)
    ]
    if unknown:
        raws = _unknown_objects(shape)
        members.append(raws.map(lambda raw: shape.unknown(type=raw.get(shape.key), raw=raw)))
    return st.one_of(members)


def _unknown_objects(shape: Tagged) -> st.SearchStrategy[dict[str, Any]]:
    tags = st.text().filter(lambda text: text not in shape.members)
    typed = st.builds(lambda tag, rest: {**rest, shape.key: tag}, st.none() | tags, json_objects())
    untyped = json_objects().filter(lambda raw: shape.key not in raw)
    return untyped | typed


@st.composite
def _raw(draw: st.DrawFn, hint: Any, typed: st.SearchStrategy[Any], encode: Any) -> Any:
    if hint is None:
        return draw(st.sampled_from([None, {}, []]))
    return _with_noise(draw, shape_of(hint), encode(draw(typed)))


def _with_noise(draw: st.DrawFn, shape: Shape, raw: Any) -> Any:
    """Return `raw`, written from `shape`, with noise that a reader must ignore."""
    match shape:
        case Array(item):
            return [_with_noise(draw, item, entry) for entry in raw]
        case Nullable(inner):
            return None if raw is None else _with_noise(draw, inner, raw)
        case Model(cls):
            return _object_with_noise(draw, cls, raw)
        case Tagged(members, _, key) if raw.get(key) in members:
            return _object_with_noise(draw, members[raw[key]], raw)
        case _:
            return raw


_DISTURBANCES = st.sampled_from(["none", "null", "absent", "strange key"])


def _object_with_noise(draw: st.DrawFn, cls: ModelClass, raw: dict[str, Any]) -> dict[str, Any]:
    fields = [field for field in fields_of(cls) if not field.rules.rest]
    noisy = {
        field.wire: _with_noise(draw, field.shape, raw[field.wire])
        for field in fields
        if field.wire in raw
    }
    noisy = raw | noisy
    for field in fields:
        _disturb(draw, field, noisy)
    return noisy


def _disturb(draw: st.DrawFn, field: Field, raw: dict[str, Any]) -> None:
    disturbance = draw(_DISTURBANCES)
    if disturbance == "strange key":
        raw[f"{field.wire}-{draw(st.integers(0, 9))}"] = draw(json_values())
    elif field.has_default and not isinstance(field.shape, Anything):
        if disturbance == "null":
            raw[field.wire] = None
        elif disturbance == "absent":
            raw.pop(field.wire, None)


def _with_one_place_replaced(draw: st.DrawFn, value: Any) -> Any:
    if not isinstance(value, dict | list) or not value or draw(st.booleans()):
        return draw(json_values().filter(lambda other: other != value))
    if isinstance(value, dict):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.booleans()):
            return {name: entry for name, entry in value.items() if name != key}
        return value | {key: _with_one_place_replaced(draw, value[key])}
    index = draw(st.integers(0, len(value) - 1))
    return [*value[:index], _with_one_place_replaced(draw, value[index]), *value[index + 1 :]]
