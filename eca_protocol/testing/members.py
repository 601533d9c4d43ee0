"""Members of JSON values that others wrote: a value of a different type counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def at(value: Any, *path: str) -> Any:
    """Return the member at a path of objects, or None."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def object_at(value: Any, *path: str) -> Mapping[str, Any]:
    """Return the object at a path; an absent one is empty."""
    member = at(value, *path)
    return member if isinstance(member, Mapping) else {}


def list_at(value: Any, *path: str) -> list[Any]:
    """Return the list at a path; an absent one is empty."""
    member = at(value, *path)
    return member if isinstance(member, list) else []


def text_at(value: Any, *path: str) -> str:
    """Return the text at a path; an absent one is empty."""
    member = at(value, *path)
    return member if isinstance(member, str) else ""
