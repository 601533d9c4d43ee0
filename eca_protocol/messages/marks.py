"""The metadata of the models' fields for the wire, and unknown values.

A field without a default is required. A field with a default is optional, and omitted while it has
that default. Marks of a field (`marked`) change this: `lenient`, `by_ruling`, `legacy` and `rest`.
`revisions.mark` adds the editions of a field, `ValueWindow` those of a single value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from eca_protocol.revisions import Revision, Window


class UnknownValue(str):
    """A string that no edition of the specification lists; it is written unchanged."""

    __slots__ = ()


@attrs.frozen(kw_only=True)
class Unknown:
    """The base of objects of an unknown type; `raw` is written unchanged."""

    type: str | None
    raw: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class ValueWindow(Window):
    """The editions of one value of an open literal; in other editions `fallback` is written."""

    fallback: str


@attrs.frozen(kw_only=True)
class WireRules:
    """The differences between rulings and the specification's text for one field."""

    ruling: str | None = None
    """The ruling that allows the difference."""
    required: bool = False
    """The text requires the field although it has a default here; it is always written."""
    optional_since: Revision | None = None
    """The first edition in which the text does not require the field."""
    omit_default: bool = False
    """The field is omitted with its default in editions that do not require it."""
    fallback_key: str | None = None
    """The key of the value in editions that do not have the field."""
    nullable: bool = False
    """The text allows null."""
    null_as_empty: bool = False
    """The empty string is null on the wire; None is an absent key."""
    null_items: bool = False
    """Nulls among the items of a list are ignored."""
    incomplete_items: str | None = None
    """The ruling by which items that lack a required member are read as of an unknown type."""
    list_as_empty: bool = False
    """A list in place of an object is read as the empty object."""
    object_as_true: bool = False
    """An object in place of a boolean is read as true."""
    written: bool = True
    """False: the field is read from old servers, but never written."""
    alias: str | None = None
    """A key that some clients write instead; read if the field's own key is absent."""
    rest: bool = False
    """The field contains all keys that belong to no other field."""
    wire: str | None = None
    """The key of the field, if it is not the name in camelCase."""

    def required_in(self, revision: Revision) -> bool:
        """Return True if the text of the edition requires the field."""
        return self.required and (self.optional_since is None or revision < self.optional_since)

    def always_written_in(self, revision: Revision) -> bool:
        """Return True if the field is written even with its default."""
        return self.required and (self.required_in(revision) or not self.omit_default)


_KEY = "eca_wire_rules"
_PLAIN = WireRules()


def wire_name(key: str) -> dict[str, Any]:
    """Return metadata of a field whose key is not its name in camelCase."""
    return {_KEY: WireRules(wire=key)}


def marked(marks: Mapping[str, Any], *, default: Any = None, **options: Any) -> Any:
    """Return a field that may be missing, with marks; `options` are those of `attrs.field`."""
    if "factory" not in options:
        options["default"] = default
    return attrs.field(metadata=marks, **options)


def lenient(ruling: str, **rules: Any) -> dict[str, Any]:
    """Return metadata of a required field that is read as its default if absent or null.

    The field is always written, unless `omit_default` is set and the edition does not require it.
    `rules` are further members of `WireRules`.
    """
    return {_KEY: WireRules(ruling=ruling, required=True, **rules)}


def by_ruling(ruling: str, *, fallback_key: str | None = None) -> dict[str, Any]:
    """Return metadata of a field of which a ruling allows more values or editions than the text.

    `fallback_key` is the key of the value in editions outside of the field's window.
    """
    return {_KEY: WireRules(ruling=ruling, fallback_key=fallback_key)}


def incomplete_items(ruling: str) -> dict[str, Any]:
    """Return metadata: items without a required member are read as of an unknown type."""
    return {_KEY: WireRules(incomplete_items=ruling)}


def object_as_true(ruling: str) -> dict[str, Any]:
    """Return metadata: an object in place of the boolean is read as true."""
    return {_KEY: WireRules(ruling=ruling, object_as_true=True)}


def null_as_empty(ruling: str) -> dict[str, Any]:
    """Return metadata: the empty string is null on the wire, and None an absent key."""
    return {_KEY: WireRules(ruling=ruling, nullable=True, null_as_empty=True)}


def legacy(ruling: str) -> dict[str, Any]:
    """Return metadata of a field that no edition has, but old servers write."""
    return {_KEY: WireRules(ruling=ruling, written=False)}


def rest() -> dict[str, Any]:
    """Return metadata of the field that contains all keys of no other field."""
    return {_KEY: WireRules(rest=True)}


def wire_rules_of(attribute: attrs.Attribute[Any]) -> WireRules:
    """Return the rules in a field's metadata; by default a field without a default is required."""
    rules = attribute.metadata.get(_KEY)
    if rules is not None:
        assert isinstance(rules, WireRules)
        if attribute.default is attrs.NOTHING:
            return attrs.evolve(rules, required=True)
        return rules
    return WireRules(required=True) if attribute.default is attrs.NOTHING else _PLAIN
