"""Keys nobody reads: most are slips of the pen, and the user is told the nearest right one."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from eca_server.config.reading import KeyPath

__all__ = ["hint", "unknown_keys"]


def unknown_keys(
    value: object, schema: Mapping[str, Any], path: KeyPath = ()
) -> Iterator[tuple[KeyPath, Collection[str]]]:
    """Each key that the schema does not name, and the keys that could stand in its place."""
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
    """A sentence for the user about this unknown key."""
    by_lower_case = {name.lower(): name for name in known}
    near = difflib.get_close_matches(key.lower(), by_lower_case, n=1)
    meant = f"; did you mean {by_lower_case[near[0]]}?" if near else ""
    return f"expected a key this server knows, got another one{meant}"
