"""The boundary of the workspace: which paths lie inside its roots.

The rule it keeps: a path is judged by where it really leads, symbolic links and `..` resolved,
compared by component with the real paths of the roots; and what is opened afterwards is what was
judged (`opening`).

Everything here touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from eca_server.workspace.faults import BadPath, Moved
from eca_server.workspace.guarded import GuardedPath, guard_of
from eca_server.workspace.roots import Root

if TYPE_CHECKING:
    from eca_server.workspace.temporaries import Temporaries

__all__ = ["Place", "Workspace", "moved_text", "real_path_of"]

_LONGEST = 4096  # bytes of a path; Linux opens no longer one
_SHOWN = 200  # characters of a path in an error


@attrs.frozen(kw_only=True)
class Place:
    """Where a path leads.

    Attributes:
        text: the path as it was written.
        path: absolute, without `..`, its links as they were written; for people.
        real_path: the same with every link resolved; what is opened.
        root: the root that contains the real path, the innermost if several do.
        leads_out: as written it lies in a root, and a link on it leads out of all of them.
        temporaries: where temporary files of writing it are noted.
    """

    text: str
    path: Path
    real_path: Path
    root: Root | None
    leads_out: bool
    temporaries: Temporaries | None = attrs.field(default=None, eq=False, repr=False)

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
        temporaries: where temporary files of writing are noted; None: nowhere.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        private: Sequence[Path] = (),
        temporaries: Temporaries | None = None,
    ) -> None:
        self.roots = tuple(roots)
        self._temporaries = temporaries
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
        path = lexical if real_path_of(lexical) == real_path else real_path
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
            temporaries=self._temporaries,
        )

    def must_still_lead_there(self, place: Place) -> None:
        """Check a place whose path is given to another program; that program follows links.

        Raises:
            Moved: the path leads elsewhere now.
        """
        if real_path_of(place.path) != place.real_path:
            raise Moved(moved_text(place.path))

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
        if any(_contains(real_path_of(each), real_path) for each in self._private):
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
    return real_path_of(absolute)


def real_path_of(path: str | Path) -> Path:
    """Return a path with every link resolved.

    Raises:
        Moved: it changed at this moment.
    """
    try:
        return Path(os.path.realpath(path))
    except OSError:  # it reads what was a link a moment ago
        raise Moved(moved_text(Path(path))) from None


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


def moved_text(path: Path) -> str:
    """Return the error for a path that had no link in it and ends in one."""
    try:
        where = f"it is a symbolic link to {str(path.readlink())!r} now"
    except OSError:
        where = "it was a symbolic link for a moment"
    return f"{str(path)!r} changed after it was checked: {where}; try again"
