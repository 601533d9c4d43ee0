"""The resources of a server that were read, and their changes since.

Rule: only the latest `MAX_WATCHED` resources of each reader are stored, for the reader's lifetime,
however many changes a server announces.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

MAX_WATCHED: Final = 50
"""Maximum number of resources of one reader; the oldest are dropped."""


class ResourceChanges:
    """The resources of one server by reader: an object that lives as long as its chat."""

    def __init__(self) -> None:
        self._has_changed: WeakKeyDictionary[object, dict[str, bool]] = WeakKeyDictionary()

    @property
    def uris(self) -> frozenset[str]:
        """The resources that were read."""
        return frozenset(uri for changes in self._has_changed.values() for uri in changes)

    def record_read(self, reader: object, uri: str) -> None:
        """Note that a reader reads a resource now."""
        changes = self._has_changed.setdefault(reader, {})
        changes.pop(uri, None)
        changes[uri] = False
        while len(changes) > MAX_WATCHED:
            del changes[next(iter(changes))]

    def forget(self, reader: object, uri: str) -> None:
        """Forget a resource that could not be read."""
        self._has_changed.get(reader, {}).pop(uri, None)

    def mark_changed(self, uri: str) -> None:
        """Note that a resource, or one inside of it, has changed."""
        for changes in self._has_changed.values():
            for each in changes:
                if uri == each or uri.startswith(f"{each.rstrip('/')}/"):
                    changes[each] = True

    def changed_for(self, reader: object) -> tuple[str, ...]:
        """Return the resources that have changed since a reader read them."""
        changes = self._has_changed.get(reader, {})
        return tuple(uri for uri, changed in changes.items() if changed)
