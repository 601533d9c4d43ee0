"""The JSON Schemas of MCP tools, made such that every LLM API takes them. Pure functions.

The rule they keep: one bad schema must not make an API refuse a whole request, and a cleaned
schema allows what the server's own did, or more: the server itself checks what it is given. (Of
alternatives for all arguments together each says what it knows of its own.) Only a copy is changed;
what one API alone does not take is that API's business (`llm`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from eca_protocol import json
from eca_server.printable import visible

__all__ = ["Cleaned", "cleaned", "is_presentable", "readable_schema"]

_DEPTH = 12
_MOST = 1_000
"""Levels, and schemas in all, after which anything is allowed."""

_LONGEST_WAY = 30  # references that lead from one to the next
_LARGEST = 100_000  # bytes of a schema as JSON; of a larger one anything is allowed
_DEEPEST = 64  # levels of JSON that can be shown

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # of a property, at the strictest of the APIs
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]")
_BRANCHES = ("anyOf", "oneOf")
_ONE = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_MAPS = ("properties", "patternProperties", "dependentSchemas")
_VALUES = ("enum", "const", "default", "examples", "pattern")
_LEFT_OUT = ("$schema", "$id", "$defs", "definitions", "$anchor", "$comment", "$vocabulary")
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

Schema = Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Cleaned:
    """A schema for models, and the way back from the arguments they write.

    Attributes:
        schema: of an object, with `properties`; it refers to nothing.
        renamed: by the property's name in it, the server's own where that is another one.
    """

    schema: dict[str, Any]
    renamed: Mapping[str, str] = attrs.field(factory=dict)

    def arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a model wrote, under the server's names."""
        return {self.renamed.get(name, name): value for name, value in arguments.items()}


def cleaned(schema: Schema) -> Cleaned:
    """The schema of a tool's arguments for any model."""
    cleaning = _Cleaning(schema)
    whole = cleaning.at_the_top(schema)
    properties, renamed = _renamed(whole["properties"])
    back = {own: name for name, own in renamed.items()}
    required = [back.get(name, name) for name in _names(whole, "required")]
    made = {**whole, "type": "object", "properties": properties}
    made.pop("required", None)
    known = [name for name in dict.fromkeys(required) if name in properties]
    made |= {"required": known} if known else {}
    if not is_presentable(made):
        return Cleaned(schema={"type": "object", "properties": {}})
    return Cleaned(schema=made, renamed=renamed)


def readable_schema(schema: Schema) -> dict[str, Any]:
    """Return a schema without unseen characters, which may allow more.

    They are removed from texts for a reader. A value that has to match is left out with its
    keyword, and a property with its schema: changed, they would not mean the same any more.
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
    """Return whether no text in a JSON value has an unseen character."""
    if isinstance(value, str):
        return visible(value) == value
    if isinstance(value, Mapping):
        return all(_is_readable(part) for member in value.items() for part in member)
    return not isinstance(value, list) or all(map(_is_readable, value))


def is_presentable(schema: Any) -> bool:
    """Whether a schema is neither too deep nor too large to be passed on."""
    return _is_shallow(schema, _DEEPEST) and len(json.dumps(schema)) <= _LARGEST


def _is_shallow(value: Any, levels: int) -> bool:
    members: Iterable[Any] = ()
    if isinstance(value, Mapping):
        members = value.values()
    elif isinstance(value, list):
        members = value
    return levels > 0 and all(_is_shallow(each, levels - 1) for each in members)


def _renamed(properties: Schema) -> tuple[dict[str, Any], dict[str, str]]:
    """The properties under legal names, and their own names by those that are new."""
    legal = {name: each for name, each in properties.items() if _NAME.fullmatch(name)}
    made, renamed = dict(legal), {}
    for own, each in properties.items():
        if own not in legal:
            stem = _ILLEGAL.sub("_", own)[:60] or "_"
            name = next(name for name in _variants(stem) if name not in made)
            made[name], renamed[name] = each, own
    return made, renamed


def _variants(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}{number}"[-64:]
        number += 1


class _Cleaning:
    """One schema being cleaned; what it refers to is put in the place of the reference."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _MOST

    def at_the_top(self, schema: Schema) -> dict[str, Any]:
        """The arguments' own schema, an object: alternatives of it are put together."""
        whole = self._opened(schema, frozenset())[0]
        branches = [
            self._opened(each, frozenset())[0] if isinstance(each, Mapping) else {}
            for name in _BRANCHES
            for each in _list(whole, name)
            if isinstance(each, Mapping) or each is True
        ]
        says_all = all("properties" in branch for branch in branches)
        merged = {
            name: value
            for name, value in whole.items()
            if name not in (*_BRANCHES, "not", "enum", "const", "if", "then", "else")
        }
        found: dict[str, list[Any]] = {}
        for each in (
            whole,
            *(branches if says_all else ()),
        ):  # else the others are not all there is
            for name, member in _mapping(each, "properties").items():
                if member not in found.setdefault(name, []):
                    found[name].append(member)
        merged["properties"] = {
            name: members[0] if len(members) == 1 else {"anyOf": members}
            for name, members in found.items()
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
        """Any schema; `opened` are the references that led to it."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping) or depth > _DEPTH or self._left <= 0:
            return {}
        reference = _reference(schema)
        if reference in opened:
            is_object = (self._found(reference or "") or {}).get("type") == "object"
            return {"type": "object"} if is_object else {}
        self._left -= 1
        merged, opened = self._opened(schema, opened)
        return self._clean(merged, opened, depth)

    def _clean(self, schema: Schema, opened: frozenset[str], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in schema.items():
            if name in _LEFT_OUT:
                continue
            if name in _ONE:
                if isinstance(value, bool | Mapping):
                    made[name] = self._schema(value, opened, depth + 1)
            elif name in _MAPS:
                made[name] = {
                    key: self._schema(each, opened, depth + 1)
                    for key, each in _mapping(schema, name).items()
                    if isinstance(each, bool | Mapping)
                }
            elif name in _BRANCHES or name == "prefixItems":
                members = [self._schema(each, opened, depth + 1) for each in _list(schema, name)]
                if members:
                    made[name] = members
            elif name not in ("$ref", "allOf", "type", "required", "enum"):
                made[name] = value
        return made | _checked(schema, made)

    def _opened(self, schema: Schema, opened: frozenset[str]) -> tuple[Schema, frozenset[str]]:
        """A schema without references at its top, as one, and the references that led to it."""
        while (reference := _reference(schema)) and len(opened) < _LONGEST_WAY:
            beside = {name: value for name, value in schema.items() if name != "$ref"}
            if reference not in opened:
                _merge(beside, self._found(reference) or {})
            schema, opened = beside, opened | {reference}
        merged = {name: value for name, value in schema.items() if name != "allOf"}
        for each in _list(schema, "allOf"):
            is_new = isinstance(each, Mapping) and _reference(each) not in opened
            if is_new and len(opened) < _LONGEST_WAY and self._left > 0:
                self._left -= 1
                part, opened = self._opened(each, opened)
                _merge(merged, part)
        return merged, opened

    def _found(self, reference: str) -> Schema | None:
        """What a reference inside the schema leads to; nothing is ever fetched."""
        if not reference.startswith("#"):
            return None
        found: Any = self._root
        for step in reference.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else None


def _checked(schema: Schema, made: Schema) -> dict[str, Any]:
    """The keywords whose values have to be of a kind, as far as they are."""
    found: dict[str, Any] = {}
    kind = schema.get("type")
    kinds = [each for each in (kind if isinstance(kind, list) else [kind]) if each in _TYPES]
    if kinds:
        found["type"] = kinds if isinstance(kind, list) and len(kinds) > 1 else kinds[0]
    if "object" in kinds or "properties" in made:
        found["properties"] = made.get("properties", {})
    if "array" in kinds and "items" not in made:
        found["items"] = {}
    values = _list(schema, "enum")
    if values:
        found["enum"] = values
    known = found.get("properties", {})
    required = [name for name in dict.fromkeys(_names(schema, "required")) if name in known]
    if required:
        found["required"] = required
    return found


def _merge(merged: dict[str, Any], part: Schema) -> None:
    """Adds what has to hold, too; where that cannot be said in one schema, ours counts."""
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


def _mapping(schema: Schema, name: str) -> Mapping[str, Any]:
    value = schema.get(name)
    return value if isinstance(value, Mapping) else {}


def _list(schema: Schema, name: str) -> list[Any]:
    value = schema.get(name)
    return value if isinstance(value, list) else []


def _names(schema: Schema, name: str) -> list[str]:
    return [each for each in _list(schema, name) if isinstance(each, str)]
