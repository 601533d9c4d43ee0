"""Directories below an open one, opened one by one without following a link.

Everything here accesses the disk: call it in a worker thread.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from eca_server.workspace.errors import InvalidPath
from eca_server.workspace.opening import Directory

_NO_NAMES = frozenset({"", os.curdir, os.pardir})


class Descent:
    """The chain of directories down to the one opened last; a context manager.

    Only the steps in which a directory differs from the previous one are opened, so a walk through
    a tree in order opens each directory once.

    Args:
        start: the top of the chain; it must stay open as long as this object.
    """

    def __init__(self, start: Directory) -> None:
        self._start = start
        self._names: list[str] = []
        self._chain: list[Directory] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close_below(0)

    def open(self, path: str) -> Directory:
        """Open a directory; it stays open until the next call.

        Args:
            path: relative to the start, with `/`; `""` is the start itself.

        Raises:
            InvalidPath: a part of the path is empty, `.` or `..`.
            PathChanged: a part of the path is a symbolic link.
            OSError: the directory cannot be opened.
        """
        names = path.split("/") if path else []
        shared = 0
        for opened, name in zip(self._names, names, strict=False):
            if opened != name:
                break
            shared += 1
        self._close_below(shared)
        for name in names[shared:]:
            if name in _NO_NAMES:
                raise InvalidPath(f"expected a relative path without `.` and `..`, got {path!r}")
            here = self._chain[-1] if self._chain else self._start
            self._chain.append(here.open_subdirectory(name))
            self._names.append(name)
        return self._chain[-1] if self._chain else self._start

    def _close_below(self, depth: int) -> None:
        """Close the directories of the chain below a depth."""
        for directory in reversed(self._chain[depth:]):
            if directory.fd is not None:
                os.close(directory.fd)
        del self._chain[depth:], self._names[depth:]
