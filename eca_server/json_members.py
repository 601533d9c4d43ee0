"""Members of JSON objects that others wrote; a value of a different type counts as absent.

A holder that is no object has no members. Each piece of an answer is read by these functions, so
that the usual holder, a `dict`, needs no further call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _of_other(holder: object, name: str) -> Any:
    """Return a member of a holder that is no `dict`, or None."""
    return holder.get(name) if isinstance(holder, Mapping) else None


def object_in(holder: object, name: str) -> Mapping[str, Any]:
    """Return an object; an absent one is empty."""
    value = holder.get(name) if type(holder) is dict else _of_other(holder, name)
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def list_in(holder: object, name: str) -> list[Any]:
    """Return a list; an absent one is empty."""
    value = holder.get(name) if type(holder) is dict else _of_other(holder, name)
    return value if isinstance(value, list) else []


def text_in(holder: object, name: str) -> str:
    """Return a string; an absent one is empty."""
    value = holder.get(name) if type(holder) is dict else _of_other(holder, name)
    return value if isinstance(value, str) else ""


def flag_in(holder: object, name: str) -> bool | None:
    """Return a boolean, or None."""
    value = holder.get(name) if type(holder) is dict else _of_other(holder, name)
    return value if isinstance(value, bool) else None


def count_in(holder: object, name: str) -> int | None:
    """Return a whole number above zero, or None."""
    value = holder.get(name) if type(holder) is dict else _of_other(holder, name)
    return value if isinstance(value, int) and value > 0 and not isinstance(value, bool) else None
