"""Members of JSON objects that others wrote; a value of a different type counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def object_in(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object; an absent one is empty."""
    value = holder.get(name)
    return value if isinstance(value, Mapping) else {}


def list_in(holder: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list; an absent one is empty."""
    value = holder.get(name)
    return value if isinstance(value, list) else []


def text_in(holder: Mapping[str, Any], name: str) -> str:
    """Return a string; an absent one is empty."""
    value = holder.get(name)
    return value if isinstance(value, str) else ""


def flag_in(holder: Mapping[str, Any], name: str) -> bool | None:
    """Return a boolean, or None."""
    value = holder.get(name)
    return value if isinstance(value, bool) else None


def count_in(holder: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number above zero, or None."""
    value = holder.get(name)
    return value if isinstance(value, int) and value > 0 and not isinstance(value, bool) else None
