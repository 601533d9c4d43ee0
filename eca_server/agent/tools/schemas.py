"""JSON Schemas of tools' arguments, with a description for the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def object_schema(*required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these properties."""
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def string(description: str, **limits: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a string; the limits are keywords such as `enum`."""
    return {"type": "string", **limits, "description": description}


def integer(description: str, **limits: int) -> dict[str, Any]:
    """Return the schema of an integer; the limits are keywords such as `minimum`."""
    return {"type": "integer", **limits, "description": description}


def boolean(description: str) -> dict[str, Any]:
    """Return the schema of a boolean."""
    return {"type": "boolean", "description": description}
