"""Directories below an open one, reached step by step without following a link.

Everything here touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from eca_server.workspace.faults import BadPath
from eca_server.workspace.opening import Directory

__all__ = ["Descent"]

_NO_NAMES = frozenset({"", os.curdir, os.pardir})


class Descent:
    """The chain of directories that leads down to the one opened last; a context manager.

    A directory that shares a part of the chain with the last one costs only the steps that differ,
    so going through a tree in its order opens each directory once.

    Args:
        start: stays open as long as this does.
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
        self._leave(0)

    def open(self, path: str) -> Directory:
        """Open a directory; it is open until the next call.

        Args:
            path: relative to the start, `/` between the names; `""` is the start itself.

        Raises:
            BadPath: the path does not lead straight down.
            Moved: a part of it is a symbolic link.
            OSError: it cannot be opened.
        """
        names = path.split("/") if path else []
        shared = 0
        for ours, wanted in zip(self._names, names, strict=False):
            if ours != wanted:
                break
            shared += 1
        self._leave(shared)
        for name in names[shared:]:
            if name in _NO_NAMES:
                raise BadPath(f"expected a path that leads straight down, got {path!r}")
            here = self._chain[-1] if self._chain else self._start
            self._chain.append(here.below(name))
            self._names.append(name)
        return self._chain[-1] if self._chain else self._start

    def _leave(self, depth: int) -> None:
        """Close all but the uppermost directories of the chain."""
        for directory in reversed(self._chain[depth:]):
            if directory.fd is not None:
                os.close(directory.fd)
        del self._chain[depth:], self._names[depth:]
