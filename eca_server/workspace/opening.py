"""Files and directories opened as checked: what is opened is the place that was judged.

A real path has no link in it, so it is walked from the top, each step relative to the directory
before it, and a step that meets a link means that one was swapped in.

Everything here touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import attrs

from eca_server.workspace.boundary import Place, moved_text, real_path_of
from eca_server.workspace.faults import Moved

__all__ = ["Directory", "naming", "open_checked", "open_directory", "open_place"]

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
    """An open directory: its entries are reached from here, wherever its path leads meanwhile.

    Attributes:
        text: its real path.
        fd: its descriptor; None where the platform knows no such thing, and paths must do.
        is_listable: the descriptor gives the names of entries, not only the entries of a name.
    """

    text: str
    fd: int | None
    is_listable: bool = False

    @property
    def path(self) -> Path:
        """The real path."""
        return Path(self.text)

    def at(self, name: str) -> str:
        """What to call an entry beside `dir_fd=directory.fd`."""
        return name if self.fd is not None else str(self.path / name)

    def stat(self, name: str) -> os.stat_result | None:
        """What an entry is, links not followed; None if there is none.

        Raises:
            Moved: it is a symbolic link.
        """
        try:
            found = os.stat(self.at(name), dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(found.st_mode):
            raise Moved(moved_text(self.path / name))
        return found

    def below(self, name: str) -> Directory:
        """Open a directory in this one to list it; the caller closes its descriptor.

        Raises:
            Moved: it is a symbolic link.
            OSError: it is no directory, or cannot be opened.
        """
        text = os.path.join(self.text, name)  # noqa: PTH118 (once for each directory of a tree)
        if self.fd is not None:
            return Directory(text=text, fd=self.open(name, _LIST), is_listable=True)
        found = self.stat(name)
        if found is None or not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), text)
        return Directory(text=text, fd=None)

    def scan(self) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        """Open the list of entries while the block runs; only there an entry can be asked.

        Raises:
            Moved: the path, which is all a platform without descriptors has, leads elsewhere now.
            OSError: it cannot be read.
        """
        if self.fd is not None and self.is_listable:
            return os.scandir(self.fd)
        return self._scan()

    @contextmanager
    def _scan(self) -> Iterator[Iterator[os.DirEntry[str]]]:
        if self.fd is None:
            with os.scandir(self.text) as entries:
                yield entries
            _must_be_real(self.path)
            return
        fd = self.open(os.curdir, _LIST)
        try:
            with os.scandir(fd) as entries:
                yield entries
        finally:
            os.close(fd)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """A descriptor of an entry.

        Raises:
            Moved: it is a symbolic link.
        """
        try:
            return os.open(self.at(name), flags | _UNFOLLOWED, mode, dir_fd=self.fd)
        except OSError as fault:
            if fault.errno not in {errno.ELOOP, errno.ENOTDIR}:
                raise
            found = self.stat(name)
            if found is None or stat.S_ISDIR(found.st_mode):  # it was a link a moment ago
                raise Moved(moved_text(self.path / name)) from None
            raise


def open_checked(place: Place, flags: int) -> int:
    """A descriptor of the file a place was found to lead to.

    Raises:
        Moved: the path leads elsewhere now.
        OSError: it cannot be opened.
    """
    with naming(place), open_directory(place.real_path.parent) as directory:
        return directory.open(place.real_path.name or os.curdir, flags)


@contextmanager
def open_place(place: Place) -> Iterator[Directory | None]:
    """Open the directory a place was found to lead to; None if that is no directory.

    Raises:
        Moved: the path leads elsewhere now, or did at the end of the block where the platform
            can only look again.
        OSError: there is nothing, or it cannot be opened.
    """
    with naming(place), contextlib.ExitStack() as stack:
        parent = stack.enter_context(open_directory(place.real_path.parent))
        name = place.real_path.name or os.curdir
        found = parent.stat(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place.path))
        if not stat.S_ISDIR(found.st_mode):
            yield None
            return
        directory = parent.below(name)
        if directory.fd is not None:
            stack.callback(os.close, directory.fd)
        yield directory
        if directory.fd is None:
            _must_be_real(directory.path, found)


@contextmanager
def open_directory(real_path: Path, *, create: bool = False) -> Iterator[Directory]:
    """The directory of a real path, open while the block runs.

    Args:
        real_path: absolute, without links.
        create: make what is missing of it; what was made and is still empty goes away again if
            the block fails.

    Raises:
        Moved: the path leads elsewhere now.
        OSError: it cannot be opened or made.
    """
    if not _STEPS:
        yield _unwalked(real_path, create=create)
        return
    made: list[tuple[int, str]] = []
    fd = os.open(real_path.anchor, _STEP)
    try:
        walked = Path(real_path.anchor)
        for name in real_path.parts[1:]:
            here = Directory(text=str(walked), fd=fd)
            if create and here.stat(name) is None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=fd)
                    made.append((os.dup(fd), name))
            below = here.open(name, _STEP)
            os.close(fd)
            fd, walked = below, walked / name
        yield Directory(text=str(real_path), fd=fd)
    except BaseException:
        for parent, name in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=parent)
        raise
    finally:
        for held in (fd, *(parent for parent, _ in made)):
            os.close(held)


def _unwalked(real_path: Path, *, create: bool) -> Directory:
    """The best a platform without `dir_fd` can do: look once more, then go by the path."""
    _must_be_real(real_path)
    if create:
        real_path.mkdir(parents=True, exist_ok=True)
    return Directory(text=str(real_path), fd=None)


def _must_be_real(path: Path, like: os.stat_result | None = None) -> None:
    """Raise Moved if there is a link on a path that had none, or another directory at its end."""
    real = real_path_of(path)
    if real != path:
        raise Moved(f"{str(path)!r} changed after it was checked: it leads to {str(real)!r} now")
    if like is not None and not os.path.samestat(path.lstat(), like):
        raise Moved(f"{str(path)!r} changed after it was checked: it is another directory now")


@contextmanager
def naming(place: Place) -> Iterator[None]:
    """Give the system's errors the path the user knows, in place of one step of the walk."""
    try:
        yield
    except OSError as fault:
        if fault.errno is None or Path(fault.filename or "").is_absolute():
            raise
        raise OSError(fault.errno, fault.strerror, str(place.path)) from fault
