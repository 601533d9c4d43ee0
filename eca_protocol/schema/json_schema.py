"""The JSON Schema of an edition: a definition for each model, union and method.

The members of a union differ in their constant `type`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

import attrs

from eca_protocol.draft import DRAFT
from eca_protocol.endpoint import Method, Table
from eca_protocol.messages import shapes
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision, Window

__all__ = ["json_schema"]

_SPECIFICATION = "https://json-schema.org/draft/2020-12/schema"
_DESCRIPTION = (
    "A request or notification of the edition. `x-methods` has each method's kind and direction, "
    "and the definitions of its message, its params and its result."
)
_SENDER = {
    "client_to_server": "the client's",
    "server_to_client": "the server's",
    "both": "either side's",
}


def json_schema(revision: Revision, table: Table | None = None) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of an edition's messages, as a JSON value.

    A `table` of a different protocol replaces ECA's, such as `eca_protocol.acp.ACP` for CURRENT.

    The schema matches one request or notification. `$defs` contains each model and union by the
    name of its interface, and each method's whole message, such as `ChatPromptMessage`. Generators
    of types make names of them, so they are plain words. `x-methods` is the method table, with
    references to the definitions.
    """
    definitions = _Definitions(revision)
    title = f"ECA protocol, revision {revision.value}" if table is None else "Messages"
    if table is None:
        table = DRAFT if revision is Revision.DRAFT else ECA
    rows = [row for row in table if row.window.written_in(revision)]
    methods = {row.name: definitions.method(row) for row in rows}
    messages = {
        _message_name(row.name): {
            **_message(row, methods[row.name]),
            **_ruled(row.window, revision),
        }
        for row in rows
    }
    return {
        "$schema": _SPECIFICATION,
        "title": title,
        "description": _DESCRIPTION,
        "oneOf": [method["message"] for method in methods.values()],
        "x-methods": methods,
        "$defs": {**messages, **definitions.definitions},
    }


def _message_name(method: str) -> str:
    words = re.findall("[A-Za-z]+", method)
    return "".join(word[0].upper() + word[1:] for word in words) + "Message"


def _message(row: Method, method: dict[str, Any]) -> dict[str, Any]:
    is_request = row.kind == "request"
    properties: dict[str, Any] = {"jsonrpc": {"const": "2.0"}}
    if is_request:
        properties["id"] = _one_type_of("integer", "string")
    properties["method"] = {"const": row.name}
    if "params" in method:
        properties["params"] = method["params"]
    schema: dict[str, Any] = {
        "description": f"A {row.kind} of {_SENDER[row.direction]}.",
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }
    if not is_request:  # `"id": false` says the same, but generators of types refuse it
        schema["not"] = {"properties": {"id": {}}, "required": ["id"]}
    return schema


def _one_type_of(*names: str) -> dict[str, Any]:
    """Return the schema of these types; a list in `type` is refused by strict validators."""
    types = [{"type": name} for name in names]
    return types[0] if len(types) == 1 else {"anyOf": types}


@attrs.frozen
class _Definitions:
    """The definitions of one edition, collected from the methods' types."""

    revision: Revision
    definitions: dict[str, Any] = attrs.field(factory=dict)

    def method(self, row: Method) -> dict[str, Any]:
        """Return a method's row, with references to its params and result."""
        method: dict[str, Any] = {
            "kind": row.kind,
            "direction": row.direction,
            "message": _reference(_message_name(row.name)),
        }
        if row.params is not None:
            method["params"] = self._schema(shapes.shape_of(row.params))
        if row.kind == "request":
            has_result = row.result is not None
            method["result"] = (
                self._schema(shapes.shape_of(row.result)) if has_result else {"type": "null"}
            )
        return method

    def _schema(self, shape: shapes.Shape) -> dict[str, Any]:
        schema: dict[str, Any]
        match shape:
            case shapes.Scalar(names):
                schema = _one_type_of(*names)
            case shapes.Anything():
                schema = {}
            case shapes.JSONObject():
                schema = {"type": "object"}
            case shapes.Choice():
                schema = {"enum": shape.known_in(self.revision)}
            case shapes.Array(item):
                schema = {"type": "array", "items": self._schema(item)}
            case shapes.Nullable(inner):
                schema = self._schema(inner)  # None is an absent key; see `_property`
            case shapes.Model(cls):
                schema = self._defined(cls.__name__, lambda: self._object(cls))
            case shapes.Tagged():
                schema = self._defined(_name_of(shape), lambda: self._union(shape))
        return schema

    def _defined(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if name not in self.definitions:
            self.definitions[name] = {}  # reserves the place before the types it refers to
            self.definitions[name] = make()
        return _reference(name)

    def _union(self, shape: shapes.Tagged) -> dict[str, Any]:
        members = [
            self._schema(shapes.Model(cls))
            for cls in shape.members.values()
            if shapes.window_of_class(cls).written_in(self.revision)
        ]
        return {"oneOf": members}

    def _object(self, cls: shapes.ModelClass) -> dict[str, Any]:
        fields = [
            field
            for field in shapes.fields_of(cls)
            if field.rules.written and field.window.written_in(self.revision)
        ]
        is_open = any(field.rules.rest for field in fields)
        fields = [field for field in fields if not field.rules.rest]
        properties = {field.wire: self._property(field) for field in fields}
        required = [
            field.wire
            for field in fields
            if field.window.holds(self.revision) and field.rules.required_in(self.revision)
        ]
        tag = getattr(cls, "type", None)
        if isinstance(tag, str):
            key = shapes.tag_key_of(cls)
            properties = {key: {"const": tag}, **properties}
            required = [key, *required]
        schema: dict[str, Any] = {
            "description": _description(cls),
            "type": "object",
            "properties": properties,
        }
        if required:
            schema["required"] = required
        if is_open:
            schema["additionalProperties"] = True
        return schema

    def _property(self, field: shapes.Field) -> dict[str, Any]:
        schema = self._schema(field.shape)
        if field.rules.nullable:
            schema = {"oneOf": [schema, {"type": "null"}]}
        return {**schema, **_ruled(field.window, self.revision)}


def _ruled(window: Window, revision: Revision) -> dict[str, str]:
    if window.holds(revision):
        return {}
    return {"$comment": f"{window.ruling}: written although the edition's text does not have it."}


def _name_of(union: shapes.Tagged) -> str:
    module = sys.modules[next(iter(union.members.values())).__module__]
    return next(name for name, value in vars(module).items() if _is_union(value, union))


def _is_union(value: Any, union: shapes.Tagged) -> bool:
    return hasattr(value, "__args__") and shapes.shape_of(value) == union


def _description(cls: shapes.ModelClass) -> str:
    """Return the class's docstring, with the wire names of its members."""
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(cls.__doc__ or ""))
    for field in shapes.fields_of(cls):
        text = text.replace(f"`{field.name}`", f"`{field.wire}`")
    return text


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}
