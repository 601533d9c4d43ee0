"""The conversion of models to JSON values, for one revision.

The output contains only names that the revision or a ruling has. Any other field is omitted (or
written under its fallback key), any other value is replaced by its fallback. A union's member that
the revision lacks is omitted from lists and optional fields; in a required field it raises
`NotInRevision`. Optional fields with their default are omitted. User data is not changed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from cattrs.fns import identity

from eca_protocol.codec.unrolled import compile_function
from eca_protocol.messages import shapes
from eca_protocol.messages.marks import UnknownValue
from eca_protocol.revisions import Revision

Write: TypeAlias = Callable[[Any], Any]

_STATES: Final = frozenset({"state", "status"})
"""Fields whose values are the protocol's own; the names of agents, for example, are the user's."""


class NotInRevision(Exception):
    """An object of a kind that the revision does not have."""


def writer(shape: shapes.Shape, revision: Revision) -> Write:
    """Return the function that writes values of `shape` for `revision`."""
    match shape:
        case shapes.Choice(values):
            fallbacks = {
                value: window.fallback
                for value, window in values.items()
                if window is not None and not window.holds(revision)
            }
            write: Write = functools.partial(_write_choice, fallbacks) if fallbacks else identity
        case shapes.Array(shapes.Tagged() as item):
            write = _write_array_of_tagged(writer(item, revision))
        case shapes.Array(item):
            write = _write_array(writer(item, revision))
        case shapes.Nullable(inner):
            write = _write_nullable(writer(inner, revision))
        case shapes.Model(cls):
            write = _write_model(cls, revision)
        case shapes.Tagged():
            write = _write_tagged(_Members(shape, revision))
        case _:
            write = identity
    return write


def _write_choice(fallbacks: dict[str, str], value: str) -> str:
    return fallbacks.get(value, value)


def _write_state(name: str, values: Mapping[str, Any], write: Write, value: Any) -> Any:
    """Write a state, unless it is misspelt: a text of no edition that is no `UnknownValue`."""
    if value not in values and not isinstance(value, UnknownValue):
        import difflib  # noqa: PLC0415 - only for an error

        near = difflib.get_close_matches(value, values, n=1) if isinstance(value, str) else []
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise TypeError(
            f"{name}: unknown value {value!r}: {hint}UnknownValue({value!r}) is written as it is"
        )
    return write(value)


def _write_array(write_item: Write) -> Write:
    if write_item is identity:
        return list

    def write(items: Any) -> list[Any]:
        return [write_item(item) for item in items]

    return write


def _write_array_of_tagged(write_item: Write) -> Write:
    def write(items: Any) -> list[Any]:
        raw = []
        for item in items:
            with contextlib.suppress(NotInRevision):
                raw.append(write_item(item))
        return raw

    return write


def _write_nullable(write_inner: Write) -> Write:
    if write_inner is identity:
        return identity

    def write(value: Any) -> Any:
        return None if value is None else write_inner(value)

    return write


class _Members(dict[shapes.ModelClass, Write]):
    """The writers of a union by class, each made at its first use."""

    def __init__(self, shape: shapes.Tagged, revision: Revision) -> None:
        super().__init__()
        self._shape = shape
        self._revision = revision

    def __missing__(self, cls: shapes.ModelClass) -> Write:
        self[cls] = write = self._make(cls)
        return write

    def _make(self, cls: shapes.ModelClass) -> Write:
        if cls is self._shape.unknown:
            return _write_raw
        tag = getattr(cls, "type", None)
        if not isinstance(tag, str) or self._shape.members.get(tag) is not cls:
            names = ", ".join(member.__name__ for member in self._shape.members.values())
            raise TypeError(f"expected one of {names}, got a {cls.__name__}")
        if not shapes.window_of_class(cls).written_in(self._revision):
            return functools.partial(_refuse, cls, self._revision)
        return _write_model(cls, self._revision)


def _write_tagged(members: _Members) -> Write:
    def write(value: Any) -> Any:
        return members[value.__class__](value)

    return write


def _write_raw(value: Any) -> Any:
    return value.raw


def _refuse(cls: shapes.ModelClass, revision: Revision, _: Any) -> Any:
    raise NotInRevision(f"{cls.__name__} does not exist in revision {revision.value}")


@functools.cache
def _write_model(cls: shapes.ModelClass, revision: Revision) -> Write:
    tag = getattr(cls, "type", None)  # only members of a union have one
    names: dict[str, Any] = {"cls": cls, "reject": _reject}
    head = ["if value.__class__ is not cls: reject(value, cls)"]
    entries = [f"{shapes.tag_key_of(cls)!r}: {tag!r}"] if isinstance(tag, str) else []
    tail: list[str] = []
    for field in shapes.fields_of(cls):
        if field.rules.rest:
            entries.append(f"**value.{field.name}")
        elif not field.window.written_in(revision):
            if field.rules.fallback_key:
                tail += _optional_source(field, field.rules.fallback_key, revision, names)
        elif field.rules.written:
            if field.rules.always_written_in(revision):
                entries.append(f"{field.wire!r}: {_entry_source(field, revision, names)}")
            else:
                tail += _optional_source(field, field.wire, revision, names)
    return compile_function(
        "write(value)", [*head, f"raw = {{{', '.join(entries)}}}", *tail, "return raw"], names
    )


def _reject(value: Any, cls: shapes.ModelClass) -> None:
    raise TypeError(f"expected a {cls.__name__}, got a {type(value).__name__}")


def _optional_source(
    field: shapes.Field, key: str, revision: Revision, names: dict[str, Any]
) -> list[str]:
    """Return source lines that write a field unless it has its default or `NotInRevision`."""
    names[f"default_{field.name}"] = field.default
    comparison = "is not" if field.default is None else "!="
    test = f"if value.{field.name} {comparison} default_{field.name}:"
    line = f"    raw[{key!r}] = {_entry_source(field, revision, names)}"
    if not isinstance(_plain(field.shape), shapes.Tagged):
        return [test, line]
    names["NotInRevision"] = NotInRevision
    return [test, "    try:", f"    {line}", "    except NotInRevision: pass"]


def _plain(shape: shapes.Shape) -> shapes.Shape:
    return shape.inner if isinstance(shape, shapes.Nullable) else shape


def _entry_source(field: shapes.Field, revision: Revision, names: dict[str, Any]) -> str:
    if field.rules.null_as_empty:
        return f"value.{field.name} or None"
    always = field.rules.always_written_in(revision)
    shape = field.shape if always else _plain(field.shape)  # None was omitted
    if isinstance(shape, shapes.Tagged):
        names[f"write_{field.name}"] = _Members(shape, revision)
        return f"write_{field.name}[value.{field.name}.__class__](value.{field.name})"
    write = writer(shape, revision)
    if field.name in _STATES and isinstance(shape, shapes.Choice):
        write = functools.partial(_write_state, field.name, shape.values, write)
    if write is identity:
        return f"value.{field.name}"
    names[f"write_{field.name}"] = write
    return f"write_{field.name}(value.{field.name})"
