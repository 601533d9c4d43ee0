"""The boundary of the workspace: which paths lie inside its roots, and files opened as checked.

The rule it keeps: a path is judged by where it really leads, symbolic links and `..` resolved,
compared by component with the real paths of the roots; and what is opened afterwards is what was
judged. A real path has no link in it, so it is walked from the top, each step relative to the
directory before it, and a step that meets a link means that somebody swapped one in.

Everything here touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from eca_server.workspace.faults import BadPath, Moved
from eca_server.workspace.guarded import GuardedPath, guard_of
from eca_server.workspace.roots import Root

__all__ = ["Directory", "Place", "Workspace", "naming", "open_checked", "open_directory"]

_LONGEST = 4096  # bytes of a path; Linux opens no longer one
_SHOWN = 200  # characters of a path in an error
_STEPS = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_STEP: int = (
    getattr(os, "O_PATH", os.O_RDONLY)
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
)


@attrs.frozen(kw_only=True)
class Place:
    """Where a path leads.

    Attributes:
        text: the path as it was written.
        path: absolute, without `..`, its links as they were written; for people.
        real_path: the same with every link resolved; what is opened.
        root: the root that contains the real path, the innermost if several do.
        leads_out: as written it lies in a root, and a link on it leads out of all of them.
    """

    text: str
    path: Path
    real_path: Path
    root: Root | None
    leads_out: bool

    @property
    def inside(self) -> bool:
        """Whether it lies in the workspace."""
        return self.root is not None

    @property
    def guard(self) -> GuardedPath | None:
        """The row of the table of guarded paths that covers this path; None outside of roots.

        Both spellings count: a link named `.vscode`, and a link that leads into `.vscode`.
        """
        if self.root is None:
            return None
        for path in (self.real_path, self.path):
            for root in (self.root.real_path, self.root.path):
                if path.is_relative_to(root):
                    row = guard_of(path.parts[len(root.parts) :])
                    if row is not None:
                        return row
        return None

    @property
    def guarded(self) -> bool:
        """Whether a change of the path has to ask: see `guard`."""
        return self.guard is not None


class Workspace:
    """The roots, and the one judge of what lies in them.

    Args:
        roots: the folders that are open.
        private: folders that never count as part of them (our own data lies there).
    """

    def __init__(self, roots: Sequence[Root], private: Sequence[Path] = ()) -> None:
        self.roots = tuple(roots)
        self._private = tuple(private)

    def locate(self, text: str, *, base: Path | None = None) -> Place:
        """Where `text` leads: absolute, from `~`, or relative; it need not exist.

        Args:
            text: a path of this machine.
            base: where a relative path starts; None: in the first root.

        Raises:
            BadPath: it is empty or too long, holds a NUL, goes in circles, or is relative with
                nothing to start from.
            Moved: it changed at this moment.
        """
        shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
        absolute = self._absolute(text, shown, base)
        real_path = _resolved(absolute, shown)
        lexical = _normalised(absolute)
        path = lexical if _real(lexical) == real_path else real_path
        root = self._root_of(real_path)
        written_inside = any(
            lexical.is_relative_to(each.path) or lexical.is_relative_to(each.real_path)
            for each in self.roots
        )
        return Place(
            text=text,
            path=path,
            real_path=real_path,
            root=root,
            leads_out=root is None and written_inside,
        )

    def _absolute(self, text: str, shown: str, base: Path | None) -> str:
        if not text.strip():
            raise BadPath("expected a path, got an empty text")
        if "\0" in text:
            raise BadPath(f"expected a path, got a text with a NUL in it: {shown}")
        expanded = os.path.expanduser(text)  # noqa: PTH111 (pathlib raises for an unknown user)
        if not os.path.isabs(expanded):  # noqa: PTH117 (Path() would lose a final `..` of a link)
            start = base or (self.roots[0].path if self.roots else None)
            if start is None:
                raise BadPath(f"expected an absolute path (no folder is open), got {shown}")
            expanded = f"{start}{os.sep}{expanded}"
        try:
            length = len(os.fsencode(expanded))
        except UnicodeEncodeError:
            raise BadPath(f"expected a path, got a text no file can be named: {shown}") from None
        if length > _LONGEST:
            raise BadPath(f"expected a path of at most {_LONGEST} bytes, got {length}: {shown}")
        return expanded

    def _root_of(self, real_path: Path) -> Root | None:
        if any(_contains(_real(each), real_path) for each in self._private):
            return None
        found = [each for each in self.roots if _contains(each.real_path, real_path)]
        return max(found, key=lambda each: len(each.real_path.parts), default=None)


def _resolved(absolute: str, shown: str) -> Path:
    try:
        os.stat(absolute)  # noqa: PTH116 (the text as it is, for the kernel to judge)
    except OSError as fault:
        if fault.errno == errno.ELOOP:
            raise BadPath(f"the symbolic links of {shown} lead in a circle") from None
        if fault.errno == errno.ENAMETOOLONG:
            raise BadPath(f"a name in {shown} is too long for its file system") from None
    return _real(absolute)


def _real(path: str | Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError:  # it reads what was a link a moment ago
        raise Moved(_moved(Path(path))) from None


def _normalised(absolute: str) -> Path:
    lexical = os.path.normpath(absolute)
    if os.sep == "/":  # POSIX keeps two leading slashes apart; they mean nothing here
        lexical = "/" + lexical.lstrip("/")
    return Path(lexical)


def _contains(folder: Path, path: Path) -> bool:
    """Whether a folder is an ancestor of a path, or the path itself; both are real paths.

    Where the file system ignores case, one folder has many spellings: they are compared by what
    they are, not by how they are written.
    """
    if path.is_relative_to(folder):
        return True
    depth = len(folder.parts)
    if len(path.parts) < depth:
        return False
    ancestor = Path(*path.parts[:depth])
    if _folded(ancestor) != _folded(folder):
        return False
    try:
        return os.path.samestat(ancestor.lstat(), folder.lstat())
    except OSError:
        return False


def _folded(path: Path) -> str:
    return unicodedata.normalize("NFC", str(path)).casefold()


@attrs.frozen(kw_only=True)
class Directory:
    """An open directory: its entries are reached from here, wherever its path leads meanwhile.

    Attributes:
        path: its real path.
        fd: its descriptor; None where the platform knows no such thing, and paths must do.
    """

    path: Path
    fd: int | None

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
            raise Moved(_moved(self.path / name))
        return found

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """A descriptor of an entry.

        Raises:
            Moved: it is a symbolic link.
        """
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            return os.open(self.at(name), flags, mode, dir_fd=self.fd)
        except OSError as fault:
            if fault.errno not in {errno.ELOOP, errno.ENOTDIR}:
                raise
            found = self.stat(name)
            if found is None or stat.S_ISDIR(found.st_mode):  # it was a link a moment ago
                raise Moved(_moved(self.path / name)) from None
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
            here = Directory(path=walked, fd=fd)
            if create and here.stat(name) is None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=fd)
                    made.append((os.dup(fd), name))
            below = here.open(name, _STEP)
            os.close(fd)
            fd, walked = below, walked / name
        yield Directory(path=real_path, fd=fd)
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
    if _real(real_path) != real_path:
        raise Moved(_moved(real_path))
    if create:
        real_path.mkdir(parents=True, exist_ok=True)
    return Directory(path=real_path, fd=None)


@contextmanager
def naming(place: Place) -> Iterator[None]:
    """Give the system's errors the path the user knows, in place of one step of the walk."""
    try:
        yield
    except OSError as fault:
        if fault.errno is None or Path(fault.filename or "").is_absolute():
            raise
        raise OSError(fault.errno, fault.strerror, str(place.path)) from fault


def _moved(path: Path) -> str:
    return f"the path changed while it was used: {str(path)!r} is or was a symbolic link"
