"""Directories opened by their checked real path.

A real path has no link in it. So it is opened step by step from the top, each step relative to the
directory before it, and a link on the way was swapped in after the check.

Everything here accesses the disk: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self

import attrs

from eca_server.workspace.errors import InvalidPath, PathChanged

_NO_NAMES = frozenset({"", os.curdir, os.pardir})
_STEPS = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_STEP: int = (
    getattr(os, "O_PATH", os.O_RDONLY)
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
)
_LIST: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_UNFOLLOWED: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@attrs.frozen(kw_only=True)
class Directory:
    """An open directory; its entries are opened relative to it, even if its path changes.

    Attributes:
        text: its real path.
        fd: its descriptor; None on a platform without such descriptors, where paths are used.
        is_listable: whether the descriptor can list the entries.
    """

    text: str
    fd: int | None
    is_listable: bool = False

    @property
    def path(self) -> Path:
        """The real path."""
        return Path(self.text)

    def at(self, name: str) -> str:
        """Return the path of an entry for a call with `dir_fd=directory.fd`."""
        return name if self.fd is not None else str(self.path / name)

    def stat(self, name: str) -> os.stat_result | None:
        """Return the status of an entry, links not followed; None if it does not exist.

        Raises:
            PathChanged: it is a symbolic link.
        """
        try:
            status = os.stat(self.at(name), dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            raise PathChanged(path_changed_message(self.path / name))
        return status

    def open_subdirectory(self, name: str) -> Directory:
        """Open a directory in this one to list it; the caller closes its descriptor.

        Raises:
            PathChanged: it is a symbolic link.
            OSError: it is not a directory, or cannot be opened.
        """
        text = os.path.join(self.text, name)  # noqa: PTH118 (called for each directory of a tree)
        if self.fd is not None:
            return Directory(text=text, fd=self.open(name, _LIST), is_listable=True)
        status = self.stat(name)
        if status is None or not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), text)
        return Directory(text=text, fd=None)

    def scan(self) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        """Iterate over the entries; they can be used only while the block runs.

        Raises:
            PathChanged: the path leads to a different directory now (without descriptors).
            OSError: the directory cannot be read.
        """
        if self.fd is not None and self.is_listable:
            return os.scandir(self.fd)
        return self._scan()

    @contextmanager
    def _scan(self) -> Iterator[Iterator[os.DirEntry[str]]]:
        if self.fd is None:
            with os.scandir(self.text) as entries:
                yield entries
            ensure_real(self.path)
            return
        fd = self.open(os.curdir, _LIST)
        try:
            with os.scandir(fd) as entries:
                yield entries
        finally:
            os.close(fd)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open an entry and return its descriptor.

        Raises:
            PathChanged: it is a symbolic link.
        """
        try:
            return os.open(self.at(name), flags | _UNFOLLOWED, mode, dir_fd=self.fd)
        except OSError as error:
            if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
                raise
            status = self.stat(name)
            if status is None or stat.S_ISDIR(status.st_mode):  # it was a link a moment ago
                raise PathChanged(path_changed_message(self.path / name)) from None
            raise


@contextmanager
def open_directory(real_path: Path, *, create: bool = False) -> Iterator[Directory]:
    """Open the directory of a real path while the block runs.

    Args:
        real_path: absolute, without links.
        create: create missing directories; remove them, if empty, when the block fails.

    Raises:
        PathChanged: the path leads to a different directory now.
        OSError: the directory cannot be opened or created.
    """
    if not _STEPS:
        yield _opened_by_path(real_path, create=create)
        return
    created: list[tuple[int, str]] = []
    fd = os.open(real_path.anchor, _STEP)
    try:
        walked = Path(real_path.anchor)
        for name in real_path.parts[1:]:
            here = Directory(text=str(walked), fd=fd)
            if create and here.stat(name) is None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=fd)
                    created.append((os.dup(fd), name))
            subdirectory = here.open(name, _STEP)
            os.close(fd)
            fd, walked = subdirectory, walked / name
        yield Directory(text=str(real_path), fd=fd)
    except BaseException:
        for parent, name in reversed(created):
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=parent)
        raise
    finally:
        for descriptor in (fd, *(parent for parent, _ in created)):
            os.close(descriptor)


def _opened_by_path(real_path: Path, *, create: bool) -> Directory:
    """Check a path once more and use it, on a platform without `dir_fd`."""
    ensure_real(real_path)
    if create:
        real_path.mkdir(parents=True, exist_ok=True)
    return Directory(text=str(real_path), fd=None)


def ensure_real(path: Path, like: os.stat_result | None = None) -> None:
    """Raise PathChanged if a path has a link now, or leads to a different directory than `like`."""
    changed = f"{str(path)!r} changed after it was checked"
    real = real_path_of(path)
    if real != path:
        raise PathChanged(f"{changed}: it leads to {str(real)!r} now")
    if like is not None and not os.path.samestat(path.lstat(), like):
        raise PathChanged(f"{changed}: it is a different directory now")


def real_path_of(path: str | Path) -> Path:
    """Return a path with every link resolved.

    Raises:
        PathChanged: the path changed during the call.
    """
    try:
        return Path(os.path.realpath(path))
    except OSError:  # a link was removed while it was resolved
        raise PathChanged(path_changed_message(Path(path))) from None


def folded(path: str) -> str:
    """Return a path without differences in case and in composed characters, for comparison."""
    return (path if path.isascii() else unicodedata.normalize("NFC", path)).casefold()


def path_changed_message(path: Path) -> str:
    """Return the error message for a path that had no link in it and ends in one."""
    try:
        where = f"it is a symbolic link to {str(path.readlink())!r} now"
    except OSError:
        where = "it was a symbolic link for a moment"
    return f"{str(path)!r} changed after it was checked: {where}; try again"


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

    def __exit__(self, *_error: object) -> None:
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
