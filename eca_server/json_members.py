"""Members of JSON objects that others wrote; a value of a different type counts as absent.

A holder that is no object has no members.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _member(holder: object, name: str) -> Any:
    is_object = type(holder) is dict or isinstance(holder, Mapping)
    return holder.get(name) if is_object else None  # type: ignore[attr-defined]  # checked above


def object_in(holder: object, name: str) -> Mapping[str, Any]:
    """Return an object; an absent one is empty."""
    value = _member(holder, name)
    return value if isinstance(value, Mapping) else {}


def list_in(holder: object, name: str) -> list[Any]:
    """Return a list; an absent one is empty."""
    value = _member(holder, name)
    return value if isinstance(value, list) else []


def text_in(holder: object, name: str) -> str:
    """Return a string; an absent one is empty."""
    value = _member(holder, name)
    return value if isinstance(value, str) else ""


def flag_in(holder: object, name: str) -> bool | None:
    """Return a boolean, or None."""
    value = _member(holder, name)
    return value if isinstance(value, bool) else None


def count_in(holder: object, name: str) -> int | None:
    """Return a whole number above zero, or None."""
    value = _member(holder, name)
    return value if isinstance(value, int) and value > 0 and not isinstance(value, bool) else None
