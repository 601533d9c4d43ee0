"""Members of JSON objects that others wrote; a value of a different type counts as absent.

A holder that is no object has no members.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_OBJECT: Final = (dict, Mapping)  # dict first: the check of an abstract class is slow


def object_in(holder: object, name: str) -> Mapping[str, Any]:
    """Return an object; an absent one is empty."""
    value = holder.get(name) if isinstance(holder, _OBJECT) else None
    return value if isinstance(value, _OBJECT) else {}


def referenced_object(root: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    """Return the object that a reference such as `#/$defs/a` names; an absent one is empty."""
    value = root if reference[:1] in {"", "#"} else {}
    for step in reference.split("/")[1:]:
        value = object_in(value, step.replace("~1", "/").replace("~0", "~"))
    return value


def list_in(holder: object, name: str) -> list[Any]:
    """Return a list; an absent one is empty."""
    value = holder.get(name) if isinstance(holder, _OBJECT) else None
    return value if isinstance(value, list) else []


def text_in(holder: object, name: str) -> str:
    """Return a string; an absent one is empty."""
    value = holder.get(name) if isinstance(holder, _OBJECT) else None
    return value if isinstance(value, str) else ""


def flag_in(holder: object, name: str) -> bool | None:
    """Return a boolean, or None."""
    value = holder.get(name) if isinstance(holder, _OBJECT) else None
    return value if isinstance(value, bool) else None


def count_in(holder: object, name: str) -> int | None:
    """Return a whole number above zero, or None."""
    value = holder.get(name) if isinstance(holder, _OBJECT) else None
    return value if isinstance(value, int) and value > 0 and not isinstance(value, bool) else None
