"""The files that the configuration of an opened folder names.

The rules it keeps: a file is read where it was found to be when its setting was judged, and never
through a link that appeared since; what a digest covers is what is put in or run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import attrs

from eca_server.config.files import MAX_BYTES, Unreadable, as_text, read_bytes, read_real
from eca_server.config.interpolation import Surroundings

__all__ = ["FolderFile", "FolderFiles", "FolderSurroundings", "read_named"]

_MOST_TOGETHER = 4 * MAX_BYTES
"""Bytes of all files that the settings of one folder run or put in."""

_MOST_PATHS = 2_000
"""Paths that the settings of one folder may name."""


class FolderFile(str):
    """The path of a file that a setting of an opened folder names.

    Attributes:
        real_path: where the path led when the setting was judged.
        is_inside: it is one of the folder's own files.
        digest: of the content that was accepted; None: none was looked at.
    """

    __slots__ = ("digest", "is_inside", "real_path")

    real_path: Path
    is_inside: bool
    digest: str | None

    def read(self, most: int = MAX_BYTES) -> bytes:
        """Return the content.

        Raises:
            Unreadable: it cannot be read, or the path leads elsewhere now.
        """
        return read_real(self.real_path, most=most)

    def check(self) -> None:
        """Check that the file is what was accepted, just before it is run.

        Raises:
            Unreadable: it is not, or its content was never a part of what was accepted.
        """
        if self.is_inside and (self.digest is None or _digest(self.read()) != self.digest):
            raise Unreadable("expected the file that you accepted, its content is another one")
        if os.path.realpath(self) != str(self.real_path):
            raise Unreadable(f"expected a path to {self.real_path}, it leads elsewhere now")


def read_named(path: str, most: int) -> str:
    """Return the text of a file that a setting names: a folder's only from where it was judged.

    Raises:
        Unreadable: it cannot be read.
    """
    data = path.read(most) if isinstance(path, FolderFile) else read_bytes(Path(path), most=most)
    return as_text(data)


@attrs.define(eq=False, repr=False)
class FolderFiles:
    """The files of one root, each found and read once.

    Attributes:
        root: the workspace root.
        note: remembers a path that is looked at.
        opened: real paths outside the root that the user has accepted as its configuration.
    """

    root: Path
    note: Callable[[Path], None]
    opened: set[Path] = attrs.field(factory=set)
    _real_root: Path = attrs.field(init=False)
    _places: dict[Path, Path | None] = attrs.field(factory=dict)
    _contents: dict[Path, bytes | None] = attrs.field(factory=dict)
    _left: int = _MOST_TOGETHER

    @_real_root.default
    def _resolve_root(self) -> Path:
        return Path(os.path.realpath(self.root))

    def real_path(self, path: Path) -> Path | None:
        """Return where a path leads, links resolved; None: it is no possible one, or too many."""
        if path not in self._places:
            if len(self._places) >= _MOST_PATHS:
                return None
            try:
                self._places[path] = Path(os.path.realpath(path))
            except ValueError:  # `\\0` is in it
                self._places[path] = None
        return self._places[path]

    def is_inside(self, path: Path) -> bool:
        """Return whether a path leads to a place in the root."""
        real = self.real_path(path)
        return real is not None and real.is_relative_to(self._real_root)

    def is_opened(self, path: Path) -> bool:
        """Return whether a source of the configuration may be read: inside, or accepted."""
        real = self.real_path(path)
        return self.is_inside(path) or (
            real is not None and any(real.is_relative_to(each) for each in self.opened)
        )

    def shown(self, path: Path, text: str) -> str:
        """Return what to call a file outside the root: as written, and where a link leads."""
        written = Path(os.path.normpath(path))
        if written.is_relative_to(self.root) or written.is_relative_to(self._real_root):
            return f"{text} (a link to {self.real_path(path)})"
        return text

    def content(self, path: Path) -> bytes | None:
        """Return the content of a file of the folder's own, the same each time; None: it has none.

        Only its first caller reads the file.
        """
        real = self.real_path(path)
        if real is None or not self.is_inside(path):
            return None
        if real not in self._contents:
            self.note(path)
            try:
                content = read_real(real, most=min(MAX_BYTES, self._left))
                self._left -= len(content)
            except Unreadable:
                content = None
            self._contents[real] = content
        return self._contents[real]

    def digest(self, path: Path) -> str | None:
        """Return the digest of the content of one of the folder's own files."""
        content = self.content(path)
        return None if content is None else _digest(content)

    def named(self, path: Path) -> FolderFile:
        """Return a path that a setting names, with what was found there."""
        file = FolderFile(path)
        file.real_path = self.real_path(path) or path
        file.is_inside = self.is_inside(path)
        known = self._contents.get(file.real_path)
        file.digest = None if known is None else _digest(known)
        return file


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FolderSurroundings(Surroundings):
    """Surroundings of a source of an opened folder.

    Attributes:
        files: the folder's files.
    """

    files: FolderFiles

    def named(self, text: str) -> str:
        """Return the path that a text names, for the one who opens it."""
        return self.files.named(self.path(text))

    def read(self, path: Path) -> str:
        """Return the text of a file: the content that the digest covers, or one of the user's."""
        self.on_file(path)
        real = self.files.real_path(path)
        if real is None:
            raise Unreadable("expected a possible path, and not too many of them")
        if not self.files.is_inside(path):
            return as_text(read_real(real))
        content = self.files.content(path)
        if content is None:
            raise Unreadable("expected a readable file, there is none")
        return as_text(content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
