"""JSON Schemas of tools' arguments, and the validation of a call's arguments.

The rules of this module: all errors are reported together, so that the model can fix its call.
An integer may be written as 5.0, as in JSON Schema, and becomes 5; "5" is not a number. The
keywords `type`, `properties`, `required`, `enum`, `items`, `minimum`, `maximum` and
`additionalProperties: false` are supported; others are ignored.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eca_protocol import json
from eca_server.agent.tools.tool import ToolError
from eca_server.printable import enumeration

_SHOWN = 60  # characters of a value in a sentence
_MOST = 20  # errors reported at once

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


class _Required(dict[str, Any]):
    """The schema of a property that an object must have."""


def required(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a property that an object must have."""
    return _Required(schema)


def object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these properties, optional ones but for `required`."""
    names = [name for name, each in properties.items() if isinstance(each, _Required)]
    schema = {"type": "object", "properties": {name: {**e} for name, e in properties.items()}}
    return {**schema, "required": names} if names else schema


def string(description: str, **limits: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a string; the limits are keywords such as `enum`."""
    return {"type": "string", **limits, "description": description}


def integer(description: str, **limits: int) -> dict[str, Any]:
    """Return the schema of an integer; the limits are keywords such as `minimum`."""
    return {"type": "integer", **limits, "description": description}


def boolean(description: str) -> dict[str, Any]:
    """Return the schema of a boolean."""
    return {"type": "boolean", "description": description}


def as_text(value: object) -> str:
    """Return an argument as a text: itself, or its JSON."""
    return value if isinstance(value, str) else json.dumps(value).decode()


def check_arguments(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], *, is_closed: bool = False
) -> dict[str, Any]:
    """Return valid arguments, without optional ones that are null, and with integers as such.

    Models write null for an omitted argument; it is dropped unless the schema permits null.

    Args:
        arguments: as the model wrote them.
        schema: the schema of the tool.
        is_closed: whether arguments that are not in `properties` are errors.

    Raises:
        ToolError: the arguments are invalid; the message lists all errors.
    """
    properties = _mapping(schema.get("properties"))
    required = _required(schema)
    present = {
        name: value
        for name, value in arguments.items()
        if value is not None or name in required or not any(errors_in(None, properties.get(name)))
    }
    if is_closed:
        schema = {**schema, "additionalProperties": False}
    errors = list(itertools.islice(errors_in(present, schema), _MOST + 1))
    if errors:
        errors[_MOST:] = ["and more"] * (len(errors) > _MOST)
        raise ToolError(f"Invalid arguments: {'; '.join(errors)}.")
    return {name: _with_integers(value, properties.get(name)) for name, value in present.items()}


def _with_integers(value: Any, schema: object) -> Any:
    """Return a valid value with 5 in place of 5.0 where the schema demands an integer."""
    known = _mapping(schema)
    types = _names(known.get("type"))
    if isinstance(value, float) and "integer" in types and "number" not in types:
        return int(value)
    if isinstance(value, Mapping):
        members = _mapping(known.get("properties"))
        return {name: _with_integers(each, members.get(name)) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_integers(each, known.get("items")) for each in value]
    return value


def errors_in(value: object, schema: object, path: str = "") -> Iterator[str]:
    """Yield a sentence for each error of a value; none without a schema."""
    if not isinstance(schema, Mapping):
        return
    types = _names(schema.get("type"))
    if types and not any(_is(value, name) for name in types):
        yield _expected(path, " or ".join(types), value)
        return
    allowed = schema.get("enum")
    if isinstance(allowed, list | tuple) and not any(_same(value, each) for each in allowed):
        yield _expected(path, "one of " + ", ".join(_shown(each) for each in allowed), value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _range_errors(value, schema, path)
    elif isinstance(value, Mapping):
        yield from _member_errors(value, schema, path)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from errors_in(item, schema.get("items"), f"{path}[{index}]")


def _required(schema: Mapping[str, Any]) -> list[str]:
    """Return the required members without a default: many schemas require those with one, too."""
    properties = _mapping(schema.get("properties"))
    names = _names(schema.get("required"))
    return [name for name in names if "default" not in _mapping(properties.get(name))]


def _range_errors(value: float, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if isinstance(least, int | float) and value < least:
        yield _expected(path, f"{least} or more", value)
    if isinstance(most, int | float) and value > most:
        yield _expected(path, f"{most} or less", value)


def _member_errors(value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    properties = _mapping(schema.get("properties"))
    for name in _required(schema):
        if name not in value:
            yield f"{_below(path, name)} is missing"
    for name, member in value.items():
        if name in properties:
            yield from errors_in(member, properties[name], _below(path, name))
    if schema.get("additionalProperties") is False and not schema.get("patternProperties"):
        unknown = [json.dumps(name[:_SHOWN]).decode() for name in value if name not in properties]
        if unknown:
            known = ", ".join(properties) or "none"
            where = f" in {path}" if path else ""
            yield f"unknown{where}: {enumeration(unknown, _MOST)} (supported: {known})"


def _is(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean" or name not in _TYPES
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, (object,)))


def _same(one: object, other: object) -> bool:
    """Return True if two values are equal as JSON: true is not 1."""
    return one == other and isinstance(one, bool) is isinstance(other, bool)


def _expected(path: str, expected: str, value: object) -> str:
    return f"{path}: expected {expected}, got {_shown(value)}"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str) and len(value) > _SHOWN:
        return f"a string of {len(value)} characters"
    return json.dumps(value).decode()


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple):
        return tuple(name for name in value if isinstance(name, str))
    return ()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
