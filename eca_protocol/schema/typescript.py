"""The TypeScript of an edition, from its JSON Schema: one type for each definition."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

from eca_protocol.revisions import Revision
from eca_protocol.schema.json_schema import json_schema

_TYPES = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "Record<string, unknown>",
}


def typescript(revision: Revision) -> str:
    """Return the TypeScript module of an edition's messages.

    It exports an interface for each model, a type for each union, and `Methods`: the kind,
    direction, params and result of each method by name.
    """
    document = json_schema(revision)
    methods = document["x-methods"]
    messages = {_type(method["message"]) for method in methods.values()}
    definitions = {
        name: schema for name, schema in document["$defs"].items() if name not in messages
    }
    parts = [
        f"// {document['title']}.",
        *("\n".join(_definition(name, schema)) for name, schema in definitions.items()),
        "\n".join(_methods(methods, document["$defs"])),
    ]
    return "\n\n".join(parts) + "\n"


def _definition(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from _comment(schema.get("description"))
    if "oneOf" in schema:
        members = (f"\n  | {_type(member)}" for member in schema["oneOf"])
        yield f"export type {name} ={''.join(members)};"
        return
    if not schema["properties"]:
        yield f"export interface {name} {{}}"
        return
    yield f"export interface {name} {{"
    for key, member in schema["properties"].items():
        yield from _comment(member.get("$comment"), indent="  ")
        mark = "" if key in schema.get("required", ()) else "?"
        yield f"  {key}{mark}: {_type(member)};"
    if schema.get("additionalProperties"):
        yield "  [key: string]: unknown;"
    yield "}"


def _methods(methods: dict[str, Any], definitions: dict[str, Any]) -> Iterator[str]:
    yield "/** The methods with their direction, params and result. */"
    yield "export interface Methods {"
    for name, method in methods.items():
        yield from _comment(definitions[_type(method["message"])].get("$comment"), indent="  ")
        yield f"  {json.dumps(name)}: {{"
        yield f"    kind: {json.dumps(method['kind'])};"
        yield f"    direction: {json.dumps(method['direction'])};"
        if "params" in method:
            yield f"    params: {_type(method['params'])};"
        if "result" in method:
            yield f"    result: {_type(method['result'])};"
        yield "  };"
    yield "}"


def _comment(text: str | None, *, indent: str = "") -> Iterator[str]:
    if not text:
        return
    lines = [
        line
        for paragraph in text.split("\n\n")
        for line in ["", *textwrap.wrap(paragraph, 96 - len(indent), break_on_hyphens=False)]
    ][1:]
    if len(lines) == 1:
        yield f"{indent}/** {lines[0]} */"
        return
    yield f"{indent}/**"
    yield from (f"{indent} * {line}".rstrip() for line in lines)
    yield f"{indent} */"


def _type(schema: dict[str, Any]) -> str:
    match schema:
        case {"$ref": str(reference)}:
            alternatives = [reference.removeprefix("#/$defs/")]
        case {"const": value}:
            alternatives = [json.dumps(value)]
        case {"enum": values}:
            alternatives = [json.dumps(value) for value in values]
        case {"oneOf": members} | {"anyOf": members}:
            alternatives = [_type(member) for member in members]
        case {"type": "array", "items": items}:
            alternatives = [f"Array<{_type(items)}>"]
        case {"type": name}:
            alternatives = [_TYPES[name]]
        case _:
            alternatives = ["unknown"]
    return " | ".join(alternatives)
