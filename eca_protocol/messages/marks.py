"""What the models say about the wire beyond their types, and the values they keep unread.

A field without a default is required. A field with a default is optional and not written while
it has that default. Marks in a field's metadata change this: `lenient`, `by_ruling`, `legacy` and
`rest`; `revisions.mark` adds the editions a field exists in, `ValueWindow` those of a single value.
"""

from __future__ import annotations

from typing import Any

import attrs

from eca_protocol.revisions import Revision

__all__ = [
    "UnknownValue",
    "ValueWindow",
    "WireRules",
    "by_ruling",
    "incomplete_items",
    "legacy",
    "lenient",
    "null_as_empty",
    "object_as_true",
    "rest",
    "wire_rules_of",
    "with_alias",
]


class UnknownValue(str):
    """A string that no edition of the specification lists; kept and written as it came."""

    __slots__ = ()


@attrs.frozen(kw_only=True)
class ValueWindow:
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
class WireRules:
    """How a field is read and written where rulings and the specification's letter differ."""

    ruling: str | None = None
    """The ruling that allows what the letter does not."""
    required: bool = False
    """The letter requires the field although it has a default here; it is always written."""
    optional_since: Revision | None = None
    """From this edition on the letter requires it no more."""
    omit_default: bool = False
    """Where the letter requires it no more, it is not written while it has its default."""
    fallback_key: str | None = None
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
    alias: str | None = None
    """Another key under which it is written by some; read where the field's own is absent."""
    rest: bool = False
    """The field is no key of its own: it holds every key that no other field claims."""

    def required_in(self, revision: Revision) -> bool:
        """Whether the letter of that edition requires the field."""
        return self.required and (self.optional_since is None or revision < self.optional_since)

    def always_written_in(self, revision: Revision) -> bool:
        """Whether the field is written even while it has its default."""
        return self.required and (self.required_in(revision) or not self.omit_default)


_KEY = "eca_wire_rules"
_PLAIN = WireRules()


def lenient(
    ruling: str,
    *,
    nullable: bool = False,
    null_items: bool = False,
    incomplete: bool = False,
    list_as_empty: bool = False,
    optional_since: Revision | None = None,
    omit_default: bool = False,
    alias: str | None = None,
) -> dict[str, Any]:
    """Metadata: required and always written; absent or null is read as the default.

    `optional_since` is the edition from which on the letter requires it no more; with `omit_default`
    it is not always written then. `alias` is how some spell it.
    """
    rules = WireRules(
        ruling=ruling,
        required=True,
        nullable=nullable,
        null_items=null_items,
        incomplete_items=ruling if incomplete else None,
        list_as_empty=list_as_empty,
        optional_since=optional_since,
        omit_default=omit_default,
        alias=alias,
    )
    return {_KEY: rules}


def by_ruling(ruling: str, *, fallback_key: str | None = None) -> dict[str, Any]:
    """Metadata: `ruling` allows reading values or editions which the letter does not.

    `fallback_key` is the key under which editions outside the field's window are told its value.
    """
    return {_KEY: WireRules(ruling=ruling, fallback_key=fallback_key)}


def incomplete_items(ruling: str) -> dict[str, Any]:
    """Metadata: by `ruling`, items that lack a required member are read as of an unknown type."""
    return {_KEY: WireRules(incomplete_items=ruling)}


def object_as_true(ruling: str) -> dict[str, Any]:
    """Metadata: by `ruling`, an object where the boolean belongs is read as true."""
    return {_KEY: WireRules(ruling=ruling, object_as_true=True)}


def null_as_empty(ruling: str) -> dict[str, Any]:
    """Metadata: by `ruling`, the empty string is null on the wire, and None an absent key."""
    return {_KEY: WireRules(ruling=ruling, nullable=True, null_as_empty=True)}


def legacy(ruling: str) -> dict[str, Any]:
    """Metadata: in no edition of the specification; read because old servers send it."""
    return {_KEY: WireRules(ruling=ruling, written=False)}


def with_alias(key: str, ruling: str) -> dict[str, Any]:
    """Metadata: the letter's key, or by `ruling` that other one."""
    return {_KEY: WireRules(ruling=ruling, required=True, alias=key)}


def rest() -> dict[str, Any]:
    """Metadata: the field holds the keys that no other field claims, untouched."""
    return {_KEY: WireRules(rest=True)}


def wire_rules_of(attribute: attrs.Attribute[Any]) -> WireRules:
    """The mark in a field's metadata; without one, a field with no default is required."""
    rules = attribute.metadata.get(_KEY)
    if rules is not None:
        assert isinstance(rules, WireRules)
        if attribute.default is attrs.NOTHING:
            return attrs.evolve(rules, required=True)
        return rules
    return WireRules(required=True) if attribute.default is attrs.NOTHING else _PLAIN
