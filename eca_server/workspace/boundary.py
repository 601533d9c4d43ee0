"""The boundary of the workspace: the check that a path is inside one of its roots.

The rule of this module: a path is judged by its real path, with symbolic links and `..` resolved,
compared by component with the real paths of the roots. The path that was judged is the path that
is opened afterwards (`opening`).

Everything here accesses the disk: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from eca_protocol.server.roots import Root
from eca_server.printable import path_of_printable
from eca_server.workspace.errors import InvalidPath, PathChanged
from eca_server.workspace.guarded import CONFIGURATION, GuardedPath, guard_of
from eca_server.workspace.opening import (
    Directory,
    ensure_real,
    folded,
    open_directory,
    path_changed_message,
    real_path_of,
)

if TYPE_CHECKING:
    from eca_server.workspace.temporary_files import TemporaryFiles

_LONGEST = 4096  # bytes of a path, the limit of Linux
_SHOWN = 200  # characters of a path in an error


@attrs.frozen(kw_only=True)
class Place:
    """A resolved path.

    Attributes:
        text: the path as it was written.
        path: the absolute path without `..`, its links unresolved; for people.
        real_path: the path with every link resolved; this one is opened. Below a root both begin
            with the root's own spelling; where the disk ignores case, the names below it are those
            that the disk stores, so that a file has one real path.
        root: the innermost root that contains the real path; None: outside the workspace.
        escapes: whether a symbolic link takes the path from inside a root to outside all roots.
        is_configuration: whether a change of it changes the user's configuration.
        temporary_files: the records of temporary files made to write it.
    """

    text: str
    path: Path
    real_path: Path
    root: Root | None
    escapes: bool
    is_configuration: bool = False
    temporary_files: TemporaryFiles | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def is_inside(self) -> bool:
        """True if the real path is in the workspace."""
        return self.root is not None

    @property
    def guard(self) -> GuardedPath | None:
        """The row of the table of guarded paths that covers this path; None outside the roots.

        Both spellings count: a link named `.vscode`, and a link to `.vscode`.
        """
        if self.root is None:
            return None
        if self.is_configuration:
            return CONFIGURATION
        for path in (self.real_path, self.path):
            for root in (self.root.real_path, self.root.path):
                if path.is_relative_to(root):
                    row = guard_of(path.parts[len(root.parts) :])
                    if row is not None:
                        return row
        return None

    @property
    def is_guarded(self) -> bool:
        """True if a change of the path needs approval: see `guard`."""
        return self.guard is not None


class Workspace:
    """The roots, and the only check of paths against them.

    Args:
        private: directories and files that never count as part of the roots (keys, the server's
            own data).
        temporary_files: the records of temporary files made by writes; None: no records.
        configuration: returns the real paths of the user's configuration, files and directories.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        private: Sequence[Path] = (),
        temporary_files: TemporaryFiles | None = None,
        configuration: Callable[[], Collection[Path]] = tuple,
    ) -> None:
        self.roots = tuple(roots)
        self._temporaries = temporary_files
        self._private = tuple(private)
        self._configuration = configuration

    def locate(self, text: str, *, base: Path | None = None) -> Place:
        """Resolve a path: absolute, from `~`, or relative; the file need not exist.

        Args:
            text: a path of this machine.
            base: the directory that a relative path starts in; None: the first root.

        Raises:
            InvalidPath: it is empty or too long, has a NUL or a circle of links, or is relative
                without a base.
            PathChanged: the path changed during the call; or its links form a circle behind a
                directory that does not exist.
        """
        shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
        absolute = self._absolute(text, shown, base)
        real_path = self._stored(self._respelled(_resolved(absolute, shown)))
        lexical = self._respelled(_normalised(absolute))
        is_written = lexical == real_path or real_path_of(lexical) == real_path
        root = self._root_of(real_path)
        written_inside = any(
            lexical.is_relative_to(each.path) or lexical.is_relative_to(each.real_path)
            for each in self.roots
        )
        return Place(
            text=text,
            path=lexical if is_written else real_path,
            real_path=real_path,
            root=root,
            escapes=root is None and written_inside,
            is_configuration=root is not None and self._changes_configuration(real_path),
            temporary_files=self._temporaries,
        )

    def _changes_configuration(self, real_path: Path) -> bool:
        """Return True for a path of the configuration, and for a directory with one in it.

        Not for a root: commands run in it, and no tool moves it.
        """
        is_root = any(real_path == each.real_path for each in self.roots)
        return any(
            real_path.is_relative_to(each) or (each.is_relative_to(real_path) and not is_root)
            for each in self._configuration()
        )

    def private_below(self, directory: Path) -> tuple[str, ...]:
        """Return the private paths below a real path, relative to it, with `/`."""
        private = (real_path_of(each) for each in self._private)
        return tuple(
            each.relative_to(directory).as_posix()
            for each in private
            if each != directory and each.is_relative_to(directory)
        )

    def ensure_unchanged(self, place: Place) -> None:
        """Check a path before another program, which follows links, gets it.

        Raises:
            PathChanged: the path leads to a different file now.
        """
        if real_path_of(place.path) != place.real_path:
            raise PathChanged(path_changed_message(place.path))

    def _absolute(self, text: str, shown: str, base: Path | None) -> str:
        if not text.strip():
            raise InvalidPath("expected a path, got an empty string")
        if "\0" in text:
            raise InvalidPath(f"expected a path, got a string with a NUL in it: {shown}")
        expanded = os.path.expanduser(text)  # noqa: PTH111 (pathlib raises for an unknown user)
        if not os.path.isabs(expanded):  # noqa: PTH117 (Path() would lose a final `..` of a link)
            start = base or (self.roots[0].path if self.roots else None)
            if start is None:
                raise InvalidPath(f"expected an absolute path (no folder is open), got {shown}")
            expanded = f"{start}{os.sep}{expanded}"
        try:
            length = len(os.fsencode(expanded))
        except UnicodeEncodeError:
            raise InvalidPath(
                f"expected a path, got a string that cannot be one: {shown}"
            ) from None
        if length > _LONGEST:
            raise InvalidPath(f"expected a path of at most {_LONGEST} bytes, got {length}: {shown}")
        return _spelled_as_on_disk(expanded)

    def _respelled(self, path: Path) -> Path:
        """Return a path below a root with the root's own spelling, which guards compare by name."""
        for root in self.roots:
            for directory in (root.path, root.real_path):
                if not path.is_relative_to(directory) and _contains(directory, path):
                    path = directory.joinpath(*path.parts[len(directory.parts) :])
        return path

    def _stored(self, real_path: Path) -> Path:
        """Return a real path with the names below its root as the disk stores them."""
        tops = (each.real_path for each in self.roots if real_path.is_relative_to(each.real_path))
        top = max(tops, key=lambda each: len(each.parts), default=Path(real_path.anchor))
        path = str(top)
        for name in real_path.parts[len(top.parts) :]:
            path = f"{path.rstrip(os.sep)}{os.sep}{_stored_name(path, name)}"
        return Path(path)

    def _root_of(self, real_path: Path) -> Root | None:
        containing = [each for each in self.roots if _contains(each.real_path, real_path)]
        if not containing or any(
            _contains(real_path_of(each), real_path) for each in self._private
        ):
            return None
        return max(containing, key=lambda each: len(each.real_path.parts))


def is_missing(absolute: str) -> bool:
    """Return True if nothing has an absolute path; False for paths that need a closer look."""
    try:
        os.lstat(absolute)
    except (FileNotFoundError, NotADirectoryError):
        return _has_one_spelling(absolute)
    except (OSError, ValueError):
        return False
    return False


def _spelled_as_on_disk(absolute: str) -> str:
    """Return a path with the names of existing files where its own names do not exist.

    Composed and decomposed characters look alike, and a model writes composed ones. Names that are
    not printable are shown to it with escapes.
    """
    if _has_one_spelling(absolute) or os.path.lexists(absolute):
        return absolute
    spelled = ""
    for name in absolute.split(os.sep):  # noqa: PTH206 (Path() would lose a final slash)
        forms = (name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD")))
        if "\\" in name:
            forms = (*forms, path_of_printable(name))
        spelled += next((each for each in forms if os.path.lexists(spelled + each)), name) + os.sep
    return spelled.removesuffix(os.sep)


def _has_one_spelling(absolute: str) -> bool:
    return absolute.isascii() and "\\" not in absolute


def _stored_name(directory: str, name: str) -> str:
    """Return the stored name of an entry: a disk that ignores case finds it by others, too."""
    forms = {name, name.swapcase(), *(unicodedata.normalize(form, name) for form in ("NFC", "NFD"))}
    if sum(os.path.lexists(f"{directory}{os.sep}{each}") for each in forms) < 2:
        return name
    try:
        names = [each for each in os.listdir(directory) if folded(each) == folded(name)]  # noqa: PTH208
    except OSError:
        return name
    return names[0] if len(names) == 1 else name


def _resolved(absolute: str, shown: str) -> Path:
    _check(absolute, shown)
    real_path = real_path_of(absolute)
    if str(real_path) == absolute:
        return real_path
    _check(str(real_path), shown)  # a circle behind a directory that does not exist
    if real_path_of(real_path) != real_path:
        raise PathChanged(path_changed_message(real_path))
    return real_path


def _check(path: str, shown: str) -> None:
    try:
        os.stat(path)  # noqa: PTH116 (the unchanged text, for the kernel to judge)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InvalidPath(f"the symbolic links of {shown} form a circle") from None
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidPath(f"a name in {shown} is too long for its file system") from None


def _normalised(absolute: str) -> Path:
    lexical = os.path.normpath(absolute)
    if os.sep == "/":  # POSIX keeps two leading slashes apart; they have no meaning here
        lexical = "/" + lexical.lstrip("/")
    return Path(lexical)


def _contains(directory: Path, path: Path) -> bool:
    """Return True if a real path is a directory or is below it.

    Where the file system ignores case, a directory has many spellings: they are compared by
    inode, not by name.
    """
    if path.is_relative_to(directory):
        return True
    depth = len(directory.parts)
    if len(path.parts) < depth:
        return False
    ancestor = Path(*path.parts[:depth])
    if folded(str(ancestor)) != folded(str(directory)):
        return False
    try:
        return os.path.samestat(ancestor.lstat(), directory.lstat())
    except OSError:
        return False


@contextmanager
def open_place(place: Place) -> Iterator[Directory | None]:
    """Open the directory of a checked path; yield None if it is not a directory.

    Raises:
        PathChanged: the path leads elsewhere now (without descriptors: at the end of the block).
        OSError: it does not exist, or cannot be opened.
    """
    with errors_naming(place), contextlib.ExitStack() as stack:
        parent = stack.enter_context(open_directory(place.real_path.parent))
        name = place.real_path.name or os.curdir
        status = parent.stat(name)
        if status is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place.path))
        if not stat.S_ISDIR(status.st_mode):
            yield None
            return
        directory = parent.open_subdirectory(name)
        if directory.fd is not None:
            stack.callback(os.close, directory.fd)
        yield directory
        if directory.fd is None:
            ensure_real(directory.path, status)


@contextmanager
def errors_naming(place: Place) -> Iterator[None]:
    """Put the path that the user knows into OSErrors, in place of one step of the walk."""
    try:
        yield
    except OSError as error:
        if error.errno is None or Path(error.filename or "").is_absolute():
            raise
        raise OSError(error.errno, error.strerror, str(place.path)) from error
