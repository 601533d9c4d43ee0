"""The JSON Schema of the configuration file, generated from the settings classes.

It lists the keys this server reads, and those that only the upstream server reads: a file made for
that server stays valid.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping
from typing import Any

from eca_server.config.reading import Reader, settings_of
from eca_server.config.settings import Config
from eca_server.config.unknown import UPSTREAM_KEYS

_SPECIFICATION = "https://json-schema.org/draft/2020-12/schema"
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


@functools.cache
def config_schema() -> Mapping[str, Any]:
    """Return the schema of the whole file (JSON Schema, edition 2020-12), made once.

    Every key is optional, and null unsets the value of an earlier file.
    """
    schema = _record_schema(Config)
    for key in UPSTREAM_KEYS:
        *parents, last = key.split(".")
        _object_at(schema, parents)["properties"][last] = {
            "description": "Read by the upstream server, not by this one."
        }
    return {"$schema": _SPECIFICATION, "title": "Configuration of ECA for Python", **schema}


def _schema(reader: Reader) -> dict[str, Any]:
    if reader.record is not None:
        return {**_record_schema(reader.record), **reader.schema}
    schema = dict(reader.schema)
    if reader.members is not None:
        inside = "additionalProperties" if schema["type"] == "object" else "items"
        schema[inside] = _schema(reader.members)
    return _or_null(schema)


def _record_schema(cls: type) -> dict[str, Any]:
    schema = _empty_object()
    notes = attribute_notes(cls)
    for name, reader, keys, _ in settings_of(cls):
        for *parents, last in keys:
            member = _schema(reader)
            if name in notes:
                member["description"] = notes[name]
            _object_at(schema, parents)["properties"][last] = member
    return schema


def _object_at(schema: dict[str, Any], path: list[str]) -> dict[str, Any]:
    """Return the object schema at a path, created where it is missing."""
    for step in path:
        if step == "*":
            schema = schema["additionalProperties"]
        else:
            schema = schema["properties"].setdefault(step, _empty_object())
    return schema


def _empty_object() -> dict[str, Any]:
    return {"type": ["object", "null"], "properties": {}, "additionalProperties": False}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    return {**schema, "type": [*types, "null"]} if types else schema


def attribute_notes(cls: type) -> dict[str, str]:
    """Return the description of each attribute from the docstrings; empty under `-OO`."""
    notes: dict[str, str] = {}
    for each in cls.__mro__:
        _, _, attributes = inspect.cleandoc(each.__doc__ or "").partition("Attributes:\n")
        notes |= {name: " ".join(note.split()) for name, note in _ATTRIBUTE.findall(attributes)}
    return notes
