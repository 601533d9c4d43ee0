"""JSON Schemas in the subset of OpenAPI 3.0 that Gemini's `parameters` accept. Pure functions.

Unsupported keywords are dropped, so the schema allows more than before, never less. Only endpoints
that do not accept JSON Schema need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from eca_server.json_members import list_in, referenced_object

_DEPTH = 16
_MOST = 2_000
"""Limits of levels and of schemas, beyond which anything is allowed (a schema may be recursive)."""

_ALTERNATIVES = ("anyOf", "oneOf")
_TEXTS = ("description", "format", "pattern", "title")
_NUMBERS = ("maximum", "minimum")
_COUNTS = ("maxItems", "maxLength", "minItems", "minLength")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_FORMATS = ("date-time", "double", "enum", "float", "int32", "int64")

Schema = Mapping[str, Any]


def takes_nothing(schema: Schema) -> bool:
    """Return whether a tool has no parameters."""
    elsewhere = ("properties", "patternProperties", "$ref", *_ALTERNATIVES, "allOf")
    is_closed = schema.get("additionalProperties", False) is False
    return is_closed and not any(schema.get(name) for name in elsewhere)


def openapi_schema(schema: Schema) -> dict[str, Any]:
    """Return the schema of an object in the supported subset; its alternatives are merged."""
    conversion = _Conversion(schema)
    whole, opened = conversion.opened(schema, ())
    properties: dict[str, Any] = {}
    for each in (*_alternatives(whole), whole):
        if isinstance(each, Mapping):
            others = conversion.opened(each, ())[0].get("properties")
            properties |= others if isinstance(others, Mapping) else {}
    made = conversion.body({**whole, "properties": properties}, "object", opened)
    return _limits(whole, _TEXTS) | made


class _Conversion:
    """The conversion of one schema; references are replaced by their targets."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._remaining = _MOST
        self._depth = 0

    def schema(self, schema: Any, opened: tuple[str, ...]) -> dict[str, Any]:
        """Convert any schema; `opened` are the references on the path to it."""
        if not isinstance(schema, Mapping):
            return {"type": "STRING"}
        if schema.get("$ref") in opened or not self._remaining or self._depth == _DEPTH:
            return {"type": "OBJECT"}
        self._remaining -= 1
        self._depth += 1
        made = self._either(*self.opened(schema, opened))
        self._depth -= 1
        return made

    def _either(self, schema: Schema, opened: tuple[str, ...]) -> dict[str, Any]:
        made = _limits(schema, (*_TEXTS, *_NUMBERS, *_COUNTS))
        alternatives = _alternatives(schema)
        kinds = [each for each in _kinds(schema) if each != "null"]
        nullable = len(kinds) < len(_kinds(schema)) or schema.get("nullable") is True
        if any(_is_null(each) for each in alternatives):
            nullable, alternatives = True, [each for each in alternatives if not _is_null(each)]
        if nullable:
            made["nullable"] = True
        if len(kinds) > 1 and not alternatives:
            about = ("description", "nullable", "title")
            rest = {name: value for name, value in schema.items() if name not in about}
            alternatives = [{**rest, "type": kind} for kind in kinds]
            made = {name: made[name] for name in about if name in made}
        if len(alternatives) == 1:
            return {**self.schema(alternatives[0], opened), **made}
        if alternatives:
            return made | {"anyOf": [self.schema(each, opened) for each in alternatives]}
        return made | self.body(schema, kinds[0] if kinds else _guessed(schema), opened)

    def body(self, schema: Schema, kind: str, opened: tuple[str, ...]) -> dict[str, Any]:
        """Convert the part of a schema that describes values of one type."""
        made: dict[str, Any] = {"type": kind.upper()}
        values = [schema["const"]] if "const" in schema else list_in(schema, "enum")
        if kind == "string" and values and all(isinstance(each, str) and each for each in values):
            made["enum"] = list(dict.fromkeys(values))
        if kind == "array":
            made["items"] = self.schema(schema.get("items"), opened)
        properties = schema.get("properties")
        if kind == "object" and isinstance(properties, Mapping) and properties:
            made["properties"] = {
                name: self.schema(each, opened) for name, each in properties.items()
            }
            required = [each for each in list_in(schema, "required") if isinstance(each, str)]
            known = [name for name in dict.fromkeys(required) if name in properties]
            made |= {"required": known} if known else {}
        return made

    def opened(self, schema: Schema, opened: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """Resolve the references at a schema's top; return the schema and the references to it.

        A target outside of the schema allows anything.
        """
        while isinstance(reference := schema.get("$ref"), str):
            siblings = {name: value for name, value in schema.items() if name != "$ref"}
            target = {} if reference in opened else referenced_object(self._root, reference)
            schema, opened = {**target, **siblings}, (*opened, reference)
        merged: dict[str, Any] = {name: value for name, value in schema.items() if name != "allOf"}
        for each in list_in(schema, "allOf"):
            if isinstance(each, Mapping) and each.get("$ref") not in opened:
                part, opened = self.opened(each, opened)
                _merge(merged, part)
        return merged, opened


def _merge(merged: dict[str, Any], part: Schema) -> None:
    for name, value in part.items():
        current = merged.get(name)
        if isinstance(current, Mapping) and isinstance(value, Mapping):
            merged[name] = {**current, **value}
        elif isinstance(current, list) and isinstance(value, list) and name == "required":
            merged[name] = [*current, *value]
        else:
            merged.setdefault(name, value)


def _limits(schema: Schema, names: Iterable[str]) -> dict[str, Any]:
    """Return the keywords of a schema with these names, if their values have the right type."""
    made: dict[str, Any] = {}
    for name in names:
        value = schema.get(name)
        expected = str if name in _TEXTS else int | float if name in _NUMBERS else int
        if isinstance(value, expected) and not isinstance(value, bool):
            made[name] = value
    if made.get("format") not in _FORMATS:
        made.pop("format", None)
    return made


def _alternatives(schema: Schema) -> list[Any]:
    return [each for name in _ALTERNATIVES for each in list_in(schema, name)]


def _kinds(schema: Schema) -> list[str]:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return [each for each in kinds if each in (*_TYPES, "null")]


def _guessed(schema: Schema) -> str:
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else "string"


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"
