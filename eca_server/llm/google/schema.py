"""JSON Schemas in the part of OpenAPI 3.0 that Gemini's `parameters` take. Pure functions.

The rule it keeps: what cannot be said is left out, and the schema then allows more than it did,
never less. It is only for endpoints that do not take JSON Schema itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["openapi_schema", "takes_nothing"]

_DEPTH = 12
"""Levels after which, as where a schema holds itself, anything is allowed."""

_ALTERNATIVES = ("anyOf", "oneOf")
_TEXTS = ("description", "format", "pattern", "title")
_NUMBERS = ("maximum", "minimum")
_COUNTS = ("maxItems", "maxLength", "minItems", "minLength")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_FORMATS = ("date-time", "double", "enum", "float", "int32", "int64")

Schema = Mapping[str, Any]


def takes_nothing(schema: Schema) -> bool:
    """Whether a tool has no parameters at all."""
    elsewhere = ("properties", "patternProperties", "$ref", *_ALTERNATIVES, "allOf")
    is_closed = schema.get("additionalProperties", False) is False
    return is_closed and not any(schema.get(name) for name in elsewhere)


def openapi_schema(schema: Schema) -> dict[str, Any]:
    """The schema of an object, in the words that are taken; alternatives of it are put together."""
    root = schema
    schema = _merged(_resolved(schema, root), root)
    properties: dict[str, Any] = {}
    for each in (*_alternatives(schema), schema):
        if isinstance(each, Mapping):
            found = _merged(_resolved(each, root), root).get("properties")
            properties |= found if isinstance(found, Mapping) else {}
    made = _body({**schema, "properties": properties}, "object", root, 0)
    return _limits(schema, _TEXTS) | made


def _converted(schema: Any, root: Schema, depth: int) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return {"type": "OBJECT"} if depth > _DEPTH else {"type": "STRING"}
    schema = _merged(_resolved(schema, root), root)
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
        return {**_converted(alternatives[0], root, depth + 1), **made}
    if alternatives:
        return made | {"anyOf": [_converted(each, root, depth + 1) for each in alternatives]}
    return made | _body(schema, kinds[0] if kinds else _guessed(schema), root, depth)


def _body(schema: Schema, kind: str, root: Schema, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": kind.upper()}
    values = [schema["const"]] if "const" in schema else _list(schema, "enum")
    if kind == "string" and values and all(isinstance(value, str) and value for value in values):
        made["enum"] = list(dict.fromkeys(values))
    if kind == "array":
        made["items"] = _converted(schema.get("items"), root, depth + 1)
    properties = schema.get("properties")
    if kind == "object" and isinstance(properties, Mapping) and properties:
        made["properties"] = {
            name: _converted(each, root, depth + 1) for name, each in properties.items()
        }
        required = [name for name in _list(schema, "required") if name in properties]
        made |= {"required": list(dict.fromkeys(required))} if required else {}
    return made


def _limits(schema: Schema, names: Iterable[str]) -> dict[str, Any]:
    """What stands in a schema under these names, as far as it is what it has to be."""
    made: dict[str, Any] = {}
    for name in names:
        value = schema.get(name)
        wanted = str if name in _TEXTS else int | float if name in _NUMBERS else int
        if isinstance(value, wanted) and not isinstance(value, bool):
            made[name] = value
    if made.get("format") not in _FORMATS:
        made.pop("format", None)
    return made


def _resolved(schema: Schema, root: Schema) -> Schema:
    """What a reference inside the same schema leads to; anything else allows anything."""
    for _ in range(_DEPTH):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        found: Any = root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        schema = {**found, **beside} if isinstance(found, Mapping) else beside
    return {"type": "object"}


def _merged(schema: Schema, root: Schema) -> Schema:
    """One schema of all that have to hold together."""
    merged: dict[str, Any] = {name: value for name, value in schema.items() if name != "allOf"}
    for each in _list(schema, "allOf"):
        if not isinstance(each, Mapping):
            continue
        for name, value in _resolved(each, root).items():
            ours = merged.get(name)
            if isinstance(ours, Mapping) and isinstance(value, Mapping):
                merged[name] = {**ours, **value}
            elif isinstance(ours, list) and isinstance(value, list) and name == "required":
                merged[name] = [*ours, *value]
            else:
                merged.setdefault(name, value)
    return merged


def _alternatives(schema: Schema) -> list[Any]:
    return [each for name in _ALTERNATIVES for each in _list(schema, name)]


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


def _list(schema: Schema, name: str) -> list[Any]:
    value = schema.get(name)
    return value if isinstance(value, list) else []
