"""The files that the configuration of a workspace root names.

Invariants: a file is read at the real path that was checked with its setting, never through a link
created since. The content that a digest covers is the content that is inserted or run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import attrs

from eca_server.config.files import (
    MAX_BYTES,
    Unreadable,
    as_text,
    expand_home,
    read_bytes,
    read_real,
)
from eca_server.config.interpolation import ReferenceResolver

_MOST_TOGETHER = 4 * MAX_BYTES
"""Limit of all files that the settings of one root run or insert, in bytes."""

_MOST_PATHS = 2_000
"""Limit of paths that the settings of one root may name."""


class WorkspaceFile(str):
    """The path of a file that a setting of a workspace root names.

    Attributes:
        content: the accepted content; None if no content was read.
    """

    __slots__ = ("content", "is_inside", "real_path")

    real_path: Path
    is_inside: bool
    content: bytes | None

    def read(self, most: int = MAX_BYTES) -> bytes:
        """Return the content.

        Raises:
            Unreadable: the file cannot be read, or the path leads elsewhere now.
        """
        return read_real(self.real_path, most=most)

    def accepted(self) -> bytes | None:
        """Return the content to run, which is the accepted one; None for a file outside the root.

        Raises:
            Unreadable: the content was never accepted, or the path leads elsewhere now.
        """
        if self.is_inside:
            if self.content is None:
                raise Unreadable("the content of the file was never accepted")
            return self.content
        if os.path.realpath(self) != str(self.real_path):
            raise Unreadable(f"expected a path to {self.real_path}, which leads elsewhere now")
        return None


def read_named(path: str, most: int) -> str:
    """Return the text of a file that a setting names; a root's file by its checked path only.

    Raises:
        Unreadable: the file cannot be read.
    """
    data = path.read(most) if isinstance(path, WorkspaceFile) else read_bytes(Path(path), most=most)
    return as_text(data)


@attrs.define(eq=False, repr=False)
class WorkspaceFiles:
    """The files of one root, each resolved and read once.

    Attributes:
        note: records a path before it is read.
        opened: real paths outside the root that the user has accepted as its configuration.
        stored: the contents of files that run as they were accepted earlier.
    """

    root: Path
    note: Callable[[Path], None]
    opened: set[Path] = attrs.field(factory=set)
    stored: dict[Path, bytes] = attrs.field(factory=dict)
    _real_root: Path = attrs.field(init=False)
    _places: dict[Path, Path | None] = attrs.field(factory=dict)
    _contents: dict[Path, bytes | None] = attrs.field(factory=dict)
    _remaining: int = _MOST_TOGETHER

    @_real_root.default
    def _resolve_root(self) -> Path:
        return Path(os.path.realpath(self.root))

    def real_path(self, path: Path) -> Path | None:
        """Return the real path; None for an impossible path, or after too many of them."""
        if path not in self._places:
            if len(self._places) >= _MOST_PATHS:
                return None
            try:
                self._places[path] = Path(os.path.realpath(path))
            except ValueError:  # it contains `\\0`
                self._places[path] = None
        return self._places[path]

    def is_inside(self, path: Path) -> bool:
        """Return whether a path leads to a file inside the root."""
        real = self.real_path(path)
        return real is not None and real.is_relative_to(self._real_root)

    def is_opened(self, path: Path) -> bool:
        """Return whether a source may be read: inside the root, or accepted."""
        real = self.real_path(path)
        return self.is_inside(path) or (
            real is not None and any(real.is_relative_to(each) for each in self.opened)
        )

    def shown(self, path: Path, text: str) -> str:
        """Return the display name of a file outside the root: as written, with a link's target."""
        written = Path(os.path.normpath(path))
        if written.is_relative_to(self.root) or written.is_relative_to(self._real_root):
            return f"{text} (a link to {self.real_path(path)})"
        return text

    def content(self, path: Path) -> bytes | None:
        """Return the content of a file inside the root, or None if it cannot be read.

        The file is read once; later calls return the same content.
        """
        real = self.real_path(path)
        if real is None or not self.is_inside(path):
            return None
        if real not in self._contents:
            self.note(path)
            try:
                content = read_real(real, most=min(MAX_BYTES, self._remaining))
                self._remaining -= len(content)
            except Unreadable:
                content = None
            self._contents[real] = content
        return self._contents[real]

    def named(self, path: Path) -> WorkspaceFile:
        """Return a path that a setting names, with its real path and accepted content."""
        file = WorkspaceFile(path)
        file.real_path = self.real_path(path) or path
        file.is_inside = path in self.stored or self.is_inside(path)
        file.content = self.stored.get(path, self._contents.get(file.real_path))
        return file


@attrs.frozen(kw_only=True, eq=False, repr=False)
class WorkspaceResolver(ReferenceResolver):
    """A resolver for a source of a workspace root."""

    files: WorkspaceFiles

    def named(self, text: str, written: str) -> str:
        """Return the path that a text names, for the code that opens it."""
        return self.files.named(self.path(text, written))

    def named_script(self, text: str, written: str) -> str:
        """Return the path of a hook's script, where a relative one begins at this root."""
        return self.named_below_root(text)

    def named_below_root(self, text: str) -> str:
        """Return the path that a text names, where a relative one begins at this root."""
        return self.files.named(self.files.root / expand_home(text, self.home))

    def read(self, path: Path) -> str:
        """Return the text of a file; inside the root, it is the content that its digest covers."""
        self.on_file(path)
        real = self.files.real_path(path)
        if real is None:
            raise Unreadable(f"expected a valid path, and at most {_MOST_PATHS:,} paths")
        if not self.files.is_inside(path):
            return as_text(read_real(real))
        content = self.files.content(path)
        if content is None:
            raise Unreadable("the file cannot be read")
        return as_text(content)
