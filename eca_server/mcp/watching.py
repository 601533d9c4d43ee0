"""Which resources of a server were given to whom, and which of them have changed since.

The rule it keeps: however often a server tells of changes, and of what, only what was given is
remembered, the latest of it, and no longer than its reader lives.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

__all__ = ["MOST_WATCHED", "Watching"]

MOST_WATCHED: Final = 50
"""Resources of one reader; the oldest are forgotten."""


class Watching:
    """The resources of one server by their readers: chats, or whatever lives as long as they do."""

    def __init__(self) -> None:
        self._has_changed: WeakKeyDictionary[object, dict[str, bool]] = WeakKeyDictionary()

    @property
    def uris(self) -> frozenset[str]:
        """All that somebody was given."""
        return frozenset(uri for given in self._has_changed.values() for uri in given)

    def give(self, reader: object, uri: str) -> None:
        """A reader is about to be given what a resource holds now."""
        given = self._has_changed.setdefault(reader, {})
        given.pop(uri, None)
        given[uri] = False
        while len(given) > MOST_WATCHED:
            del given[next(iter(given))]

    def forget(self, reader: object, uri: str) -> None:
        """It was not given after all."""
        self._has_changed.get(reader, {}).pop(uri, None)

    def update(self, uri: str) -> None:
        """The server says that a resource has changed, or one inside of it."""
        for given in self._has_changed.values():
            for each in given:
                if uri == each or uri.startswith(f"{each.rstrip('/')}/"):
                    given[each] = True

    def changed_for(self, reader: object) -> tuple[str, ...]:
        """What a reader was given and what is another by now."""
        given = self._has_changed.get(reader, {})
        return tuple(uri for uri, changed in given.items() if changed)
