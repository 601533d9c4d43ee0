"""The contents of the files that the model has read or written in a chat.

The rule of this module: a file is changed only if its content is the one that the model knows, or
if the model never read it.
"""

from __future__ import annotations

from pathlib import Path

from eca_server.workspace.reading import Fingerprint


class Ledger:
    """The known contents of one chat, by real path; safe for threads."""

    def __init__(self) -> None:
        self._contents: dict[Path, Fingerprint] = {}

    def record(self, path: Path, content: Fingerprint) -> None:
        """Record that the model has read or written a content."""
        self._contents[path] = content

    def forget(self, path: Path) -> None:
        """Record that the model knows that a file was removed."""
        self._contents.pop(path, None)

    def known_content(self, path: Path) -> Fingerprint | None:
        """Return the content that the model knows, or None."""
        return self._contents.get(path)

    def record_move(self, source: Path, destination: Path) -> None:
        """Record that a file, or a directory with its content, was moved."""
        for path in [each for each in self._contents if each.is_relative_to(source)]:
            self._contents[destination / path.relative_to(source)] = self._contents.pop(path)
