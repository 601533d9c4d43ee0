"""What the model knows of the files: the content of each that it read or wrote in this chat.

The rule it keeps: a change rests on a content the model has seen, or on none it ever saw.
"""

from __future__ import annotations

from pathlib import Path

from eca_server.workspace import Fingerprint

__all__ = ["Ledger"]


class Ledger:
    """The contents one chat knows, by real path. Threads may use it: each step is one call."""

    def __init__(self) -> None:
        self._seen: dict[Path, Fingerprint] = {}

    def saw(self, path: Path, content: Fingerprint) -> None:
        """The model has read this content, or written it."""
        self._seen[path] = content

    def forget(self, path: Path) -> None:
        """The model knows that the file is gone."""
        self._seen.pop(path, None)

    def last_seen(self, path: Path) -> Fingerprint | None:
        """The content the model knows; None if it knows none."""
        return self._seen.get(path)

    def moved(self, source: Path, destination: Path) -> None:
        """A call of this chat moved a file, or a directory with all that lies in it."""
        for path in [each for each in self._seen if each.is_relative_to(source)]:
            self._seen[destination / path.relative_to(source)] = self._seen.pop(path)
