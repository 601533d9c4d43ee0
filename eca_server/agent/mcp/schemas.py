"""Normalization of MCP tools' JSON Schemas for every LLM API. Pure functions.

Rules: one bad schema must not make an API refuse a whole request; a cleaned schema allows at least
all that the server's own one allows, since the server validates the arguments itself; the original
is not changed. Restrictions of a single API are handled in `models`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from eca_protocol import json
from eca_server.agent.mcp.schema_keywords import valid_keywords
from eca_server.json_members import list_in, object_in, referenced_object
from eca_server.printable import visible

_MAX_DEPTH = 12
_MAX_SCHEMAS = 1_000
"""Maximum numbers of levels and of schemas in all; anything is allowed beyond them."""

_MAX_REFERENCES = 30  # length of a chain of references
_MAX_BYTES = (
    100_000  # size of a schema as JSON; a larger one is replaced by one that allows anything
)
_MAX_INPUT = 1_000_000  # the same of a server's own schema, which may have unused definitions
_MAX_NESTING = 64  # levels of JSON

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # of a property, in the strictest API
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]")
_BRANCHES = ("anyOf", "oneOf")
_ONE = (
    *("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
_CONDITIONS = ("not", "if")  # a looser one would forbid more
_MAPS = ("properties", "patternProperties", "dependentSchemas")
_VALUES = ("enum", "const", "default", "examples", "pattern")
_DROPPED = (
    *("$schema", "$id", "$defs", "definitions", "$anchor", "$comment", "$vocabulary"),
    *("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"),
    *("dependencies", "additionalItems"),  # of older drafts
)
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

Schema = Mapping[str, Any]


@attrs.frozen(kw_only=True)
class CleanSchema:
    """A schema for models, and the mapping of its property names to the server's.

    Attributes:
        schema: the schema of an object, with `properties` and without references.
        original_names: the server's names of the renamed properties.
    """

    schema: dict[str, Any]
    original_names: Mapping[str, str] = attrs.field(factory=dict)

    def arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a model's arguments under the server's names."""
        return {self.original_names.get(name, name): value for name, value in arguments.items()}


def clean_schema(schema: Schema) -> CleanSchema:
    """Return the schema of a tool's arguments for any model."""
    if len(json.dumps(schema)) > _MAX_INPUT:
        return CleanSchema(schema={"type": "object", "properties": {}})
    cleaning = _Cleaning(schema)
    whole = cleaning.at_the_top(schema)
    properties, original_names = _renamed(whole["properties"])
    back = {own: name for name, own in original_names.items()}
    required = [back.get(name, name) for name in _names(whole, "required")]
    made = {**whole, "type": "object", "properties": properties}
    made.pop("required", None)
    known = [name for name in dict.fromkeys(required) if name in properties]
    made |= {"required": known} if known else {}
    if not is_presentable(made):
        return CleanSchema(schema={"type": "object", "properties": {}})
    return CleanSchema(schema=made, original_names=original_names)


def readable_schema(schema: Schema) -> dict[str, Any]:
    """Return a schema without invisible characters; it may allow more.

    They are removed from texts for readers. A value that must match exactly is left out with its
    keyword, and a property with its schema, since a change would alter their meaning.
    """
    made: dict[str, Any] = {}
    for name, value in schema.items():
        if not _is_readable(name) or (name in _VALUES and not _is_readable(value)):
            continue
        if name in _MAPS and isinstance(value, Mapping):
            readable = {key: each for key, each in value.items() if _is_readable(key)}
            made[name] = {key: _readable(each) for key, each in readable.items()}
        elif name == "required" and isinstance(value, list):
            made[name] = [each for each in value if _is_readable(each)]
        else:
            made[name] = value if name in _VALUES else _readable(value)
    return made


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [_readable(each) for each in value]
    return readable_schema(value) if isinstance(value, Mapping) else value


def _is_readable(value: Any) -> bool:
    """Return whether no text in a JSON value has an invisible character."""
    if isinstance(value, str):
        return visible(value) == value
    if isinstance(value, Mapping):
        return all(_is_readable(part) for member in value.items() for part in member)
    return not isinstance(value, list) or all(map(_is_readable, value))


def is_presentable(schema: Any) -> bool:
    """Return whether a schema is neither too deep nor too large for an API."""
    return _is_shallow(schema, _MAX_NESTING) and len(json.dumps(schema)) <= _MAX_BYTES


def _is_shallow(value: Any, levels: int) -> bool:
    members: Iterable[Any] = ()
    if isinstance(value, Mapping):
        members = value.values()
    elif isinstance(value, list):
        members = value
    return levels > 0 and all(_is_shallow(each, levels - 1) for each in members)


def _renamed(properties: Schema) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the properties under legal names, and the original names of the renamed ones."""
    legal = {name: each for name, each in properties.items() if _NAME.fullmatch(name)}
    made, original_names = dict(legal), {}
    variants: dict[str, Iterator[str]] = {}  # those that were not tried yet
    for own, each in properties.items():
        if own not in legal:
            stem = _ILLEGAL.sub("_", own)[:60] or "_"
            untried = variants.setdefault(stem, _variants(stem))
            name = next(name for name in untried if name not in made)
            made[name], original_names[name] = each, own
    return made, original_names


def _variants(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}{number}"[-64:]
        number += 1


class _Cleaning:
    """Cleans one schema; references are replaced by their targets."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._budget = _MAX_SCHEMAS

    def at_the_top(self, schema: Schema) -> dict[str, Any]:
        """Return the cleaned schema of the arguments, an object; its alternatives are merged."""
        whole = self._opened(schema, frozenset())[0]
        branches = [
            self._opened(each, frozenset())[0] if isinstance(each, Mapping) else {}
            for name in _BRANCHES
            for each in list_in(whole, name)
            if isinstance(each, Mapping) or each is True
        ]
        if len(branches) > _MAX_SCHEMAS:
            branches = [{}]  # an alternative that allows anything
        says_all = all("properties" in branch for branch in branches)
        merged = {
            name: value
            for name, value in whole.items()
            if name not in (*_BRANCHES, "not", "enum", "const", "if", "then", "else")
        }
        properties: dict[str, list[Any]] = {}
        for each in (
            whole,
            *(branches if says_all else ()),
        ):  # a branch without `properties` allows other ones
            for name, member in object_in(each, "properties").items():
                if member not in properties.setdefault(name, []):
                    properties[name].append(member)
        merged["properties"] = {
            name: members[0] if len(members) == 1 else {"anyOf": members}
            for name, members in properties.items()
        }
        shared = [set(_names(branch, "required")) for branch in branches]
        own = _names(whole, "required")
        more = set.intersection(*shared) - set(own) if shared else set()
        merged["required"] = [*own, *sorted(more)]
        if any(branch.get("additionalProperties") is not False for branch in branches):
            merged.pop("additionalProperties", None)
        merged["type"] = "object"
        return self._clean(merged, frozenset(), 0)

    def _schema(self, schema: Any, opened: frozenset[str], depth: int) -> Any:
        """Return any schema cleaned; `opened` are the references that led to it."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._budget <= 0:
            return {}
        reference = _reference(schema)
        if reference in opened:
            is_object = referenced_object(self._root, reference or "").get("type") == "object"
            return {"type": "object"} if is_object else {}
        self._budget -= 1
        merged, opened = self._opened(schema, opened)
        return self._clean(merged, opened, depth)

    def _clean(self, schema: Schema, opened: frozenset[str], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        schema = valid_keywords(schema)
        for name, value in schema.items():
            if name in _DROPPED:
                continue
            if name in _ONE:
                if isinstance(value, bool | Mapping):
                    member = self._schema(value, opened, depth + 1)
                    if member == value or name not in _CONDITIONS:
                        made[name] = member
            elif name in _MAPS:
                made[name] = {
                    key: self._schema(each, opened, depth + 1)
                    for key, each in object_in(schema, name).items()
                    if isinstance(each, bool | Mapping)
                }
            elif name in _BRANCHES or name == "prefixItems":
                members = [self._schema(each, opened, depth + 1) for each in list_in(schema, name)]
                if members:
                    made[name] = members
            elif name not in ("$ref", "allOf", "type", "required", "enum"):
                made[name] = value
        return made | _checked(schema, made)

    def _opened(self, schema: Schema, opened: frozenset[str]) -> tuple[Schema, frozenset[str]]:
        """Resolve `$ref` and `allOf` at a schema's top; return it with the references used."""
        while (reference := _reference(schema)) and len(opened) < _MAX_REFERENCES:
            beside = {name: value for name, value in schema.items() if name != "$ref"}
            if reference not in opened:
                _merge(beside, referenced_object(self._root, reference))
            schema, opened = beside, opened | {reference}
        merged = {name: value for name, value in schema.items() if name != "allOf"}
        for each in list_in(schema, "allOf"):
            is_new = isinstance(each, Mapping) and _reference(each) not in opened
            if is_new and len(opened) < _MAX_REFERENCES and self._budget > 0:
                self._budget -= 1
                part, opened = self._opened(each, opened)
                _merge(merged, part)
        return merged, opened


def _checked(schema: Schema, made: Schema) -> dict[str, Any]:
    """Return the valid values of keywords that must have a certain type."""
    checked: dict[str, Any] = {}
    kind = schema.get("type")
    named = kind if isinstance(kind, list) else [kind]
    kinds = list(dict.fromkeys(each for each in named if each in _TYPES))
    if kinds:
        checked["type"] = kinds if isinstance(kind, list) and len(kinds) > 1 else kinds[0]
    if "object" in kinds or "properties" in made:
        checked["properties"] = made.get("properties", {})
    if "array" in kinds and "items" not in made:
        checked["items"] = {}
    values = list_in(schema, "enum")
    if values:
        checked["enum"] = values
    known = checked.get("properties", {})
    required = [name for name in dict.fromkeys(_names(schema, "required")) if name in known]
    if required:
        checked["required"] = required
    return checked


def _merge(merged: dict[str, Any], part: Schema) -> None:
    """Merge a further schema into one; where both conflict, keep the first."""
    for name, value in part.items():
        ours = merged.get(name)
        if isinstance(ours, Mapping) and isinstance(value, Mapping) and name in _MAPS:
            merged[name] = {**ours, **value}
        elif isinstance(ours, list) and isinstance(value, list) and name in ("required", "allOf"):
            merged[name] = [*ours, *value]
        elif name not in ("if", "then", "else"):
            merged.setdefault(name, value)


def _reference(schema: Schema) -> str | None:
    value = schema.get("$ref")
    return value if isinstance(value, str) else None


def _names(schema: Schema, name: str) -> list[str]:
    return [each for each in list_in(schema, name) if isinstance(each, str)]
