"""Unknown keys, most of them typing errors, and suggestions of the nearest known key."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from eca_server.config.reading import KeyPath


def unknown_keys(
    value: object, schema: Mapping[str, Any], path: KeyPath = ()
) -> Iterator[tuple[KeyPath, Collection[str]]]:
    """Yield each key that the schema does not name, and the keys it allows there."""
    if isinstance(value, Mapping):
        known = schema.get("properties", {})
        others = schema.get("additionalProperties", {})
        for name, member in value.items():
            inside = known.get(name, others)
            if inside is False:
                yield (*path, name), known
            else:
                yield from unknown_keys(member, inside, (*path, name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from unknown_keys(item, schema.get("items", {}), (*path, index))


def hint(key: str, known: Collection[str]) -> str:
    """Return a message for the user about an unknown key."""
    near = nearest_key(key, known)
    return f"unknown key; did you mean {near}?" if near else "unknown key"


def nearest_key(key: str, known: Collection[str]) -> str | None:
    """Return the known key that a key resembles, if there is one."""
    from difflib import get_close_matches  # noqa: PLC0415 - only after an error

    by_lower_case = {name.lower(): name for name in known}
    near = get_close_matches(key.lower(), by_lower_case, n=1)
    return by_lower_case[near[0]] if near else None
