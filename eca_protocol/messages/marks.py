"""What the models say about the wire beyond their types, and the values they keep unread.

A field without a default is required. A field with a default is optional and not written while
it has that default. Marks in a field's metadata change this: `forgiven`, `allowed`, `legacy` and
`rest`; `revisions.mark` adds the editions a field exists in, `Within` those of a single value.
"""

from __future__ import annotations

from typing import Any

import attrs

from eca_protocol.revisions import Revision

__all__ = [
    "Reading",
    "UnknownValue",
    "Within",
    "allowed",
    "also_read_as",
    "forgiven",
    "incomplete_items",
    "legacy",
    "null_as_empty",
    "object_as_true",
    "reading_of",
    "rest",
]


class UnknownValue(str):
    """A string that no edition of the specification lists; kept and written as it came."""

    __slots__ = ()


@attrs.frozen(kw_only=True)
class Within:
    """Annotates one value of an open literal: the editions that know it, and its stand-in.

    To a connection of any other edition `fallback` is written in its place.
    """

    since: Revision = Revision.R2025_09
    until: Revision = Revision.CURRENT
    fallback: str

    def holds(self, revision: Revision) -> bool:
        """Whether the edition's text knows the value."""
        return self.since <= revision <= self.until


@attrs.frozen(kw_only=True)
class Reading:
    """How a field is read and written where rulings and the specification's letter differ."""

    ruling: str | None = None
    """The ruling that allows what the letter does not."""
    required: bool = False
    """The letter requires the field although it has a default here; it is always written."""
    optional_since: Revision | None = None
    """From this edition on the letter requires it no more."""
    left_out: bool = False
    """Where the letter requires it no more, it is not written while it has its default."""
    told_as: str | None = None
    """The key under which editions that do not know the field are told its value."""
    nullable: bool = False
    """The letter itself allows null."""
    null_as_empty: bool = False
    """The empty string is written as null, and read from it; None is an absent key."""
    null_items: bool = False
    """Nulls among the items of a list are passed over."""
    incomplete_items: str | None = None
    """The ruling by which items that lack a required member are read as of an unknown type."""
    list_as_empty: bool = False
    """A list where an object belongs is read as the empty object."""
    object_as_true: bool = False
    """An object where a boolean belongs is read as true."""
    written: bool = True
    """False: read from old servers, never written."""
    other_key: str | None = None
    """Another key under which it is written by some; read where the field's own is absent."""
    rest: bool = False
    """The field is no key of its own: it holds every key that no other field claims."""

    def required_in(self, revision: Revision) -> bool:
        """Whether the letter of that edition requires the field."""
        return self.required and (self.optional_since is None or revision < self.optional_since)

    def always_written_in(self, revision: Revision) -> bool:
        """Whether the field is written even while it has its default."""
        return self.required and (self.required_in(revision) or not self.left_out)


_KEY = "eca_reading"
_PLAIN = Reading()


def forgiven(
    ruling: str,
    *,
    nullable: bool = False,
    null_items: bool = False,
    incomplete: bool = False,
    list_as_empty: bool = False,
    optional_since: Revision | None = None,
    left_out: bool = False,
    other_key: str | None = None,
) -> dict[str, Any]:
    """Metadata: required and always written; absent or null is read as the default.

    `optional_since` is the edition from which on the letter requires it no more; with `left_out`
    it is not always written then. `other_key` is how some spell it.
    """
    reading = Reading(
        ruling=ruling,
        required=True,
        nullable=nullable,
        null_items=null_items,
        incomplete_items=ruling if incomplete else None,
        list_as_empty=list_as_empty,
        optional_since=optional_since,
        left_out=left_out,
        other_key=other_key,
    )
    return {_KEY: reading}


def allowed(ruling: str, *, told_as: str | None = None) -> dict[str, Any]:
    """Metadata: `ruling` allows reading values or editions which the letter does not.

    `told_as` is the key under which editions outside the field's window are told its value.
    """
    return {_KEY: Reading(ruling=ruling, told_as=told_as)}


def incomplete_items(ruling: str) -> dict[str, Any]:
    """Metadata: by `ruling`, items that lack a required member are read as of an unknown type."""
    return {_KEY: Reading(incomplete_items=ruling)}


def object_as_true(ruling: str) -> dict[str, Any]:
    """Metadata: by `ruling`, an object where the boolean belongs is read as true."""
    return {_KEY: Reading(ruling=ruling, object_as_true=True)}


def null_as_empty(ruling: str) -> dict[str, Any]:
    """Metadata: by `ruling`, the empty string is null on the wire, and None an absent key."""
    return {_KEY: Reading(ruling=ruling, nullable=True, null_as_empty=True)}


def legacy(ruling: str) -> dict[str, Any]:
    """Metadata: in no edition of the specification; read because old servers send it."""
    return {_KEY: Reading(ruling=ruling, written=False)}


def also_read_as(key: str, ruling: str) -> dict[str, Any]:
    """Metadata: the letter's key, or by `ruling` that other one."""
    return {_KEY: Reading(ruling=ruling, required=True, other_key=key)}


def rest() -> dict[str, Any]:
    """Metadata: the field holds the keys that no other field claims, untouched."""
    return {_KEY: Reading(rest=True)}


def reading_of(attribute: attrs.Attribute[Any]) -> Reading:
    """The mark in a field's metadata; without one, a field with no default is required."""
    reading = attribute.metadata.get(_KEY)
    if reading is not None:
        assert isinstance(reading, Reading)
        if attribute.default is attrs.NOTHING:
            return attrs.evolve(reading, required=True)
        return reading
    return Reading(required=True) if attribute.default is attrs.NOTHING else _PLAIN
