"""Which files of a folder are listed: those Git would track, or all where there is no rule.

Git itself is asked where it can be; else its rules are read here: the `.gitignore` files from the
top of the work tree down, and `info/exclude`. What Git prints is looked up on the disk, for it
names what is gone, and folders of other repositories. Links are never followed to a directory, so
that a listing ends and stays below its folder, whatever is swapped in meanwhile: each directory is
opened from the one above it. Pipes, devices and sockets, and what version control keeps for itself,
are never in it.

Everything here touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

from eca_server.workspace import git
from eca_server.workspace.descent import Descent
from eca_server.workspace.faults import FileFault
from eca_server.workspace.gitignore import Rules
from eca_server.workspace.opening import Directory, open_directory
from eca_server.workspace.reading import Checkpoint

__all__ = ["list_files", "top_of_work_tree"]

_log = logging.getLogger("eca_server.workspace")

_Kind: TypeAlias = Literal["file", "link", "directory"]

_VERSION_CONTROL = {".git", ".hg", ".svn", ".bzr", ".jj", "_darcs", "CVS"}
_DEEPEST = 100  # directories below each other; a tree that goes on is no project's
_MOST_RULES = 256 * 1024  # bytes of a file of rules


def list_files(
    folder: Path | Directory,
    *,
    limit: int,
    gitignore: bool = True,
    links: bool = True,
    checkpoint: Checkpoint = lambda: None,
) -> Iterator[str]:
    """The files below a folder, as they are found: relative to it, `/` between the names.

    A name that is no UTF-8 comes as `os.fsdecode` gives it. The order is Git's or, where the
    folder is walked, by name in each directory; it is the same while the files are.

    Args:
        folder: a real path, which is opened as it stands, or a directory that is open.
        limit: how many at most.
        gitignore: leave out what Git ignores (`index.ignoreFiles`).
        links: symbolic links to files, too.
        checkpoint: called now and then; what it raises ends the listing.

    Raises:
        Moved: the path leads elsewhere now.
    """
    with ExitStack() as stack:
        if not isinstance(folder, Directory):
            try:
                folder = stack.enter_context(open_directory(folder))
            except OSError:
                return
        descent = stack.enter_context(Descent(folder))
        tree = _Tree(folder, descent, checkpoint=checkpoint, links=links)
        yield from islice(_listed(tree, gitignore=gitignore), limit)


def _listed(tree: _Tree, *, gitignore: bool) -> Iterator[str]:
    top = top_of_work_tree(tree.folder) if gitignore else None
    if top is not None:
        printed = False
        try:
            for kind in ("--cached", "--others"):
                names = git.names(tree.start, kind, top=top, checkpoint=tree.checkpoint)
                for path in _each_once(names):
                    printed = True
                    yield from _at(tree, path)
        except (git.GitUnusable, OSError):
            if printed:
                return
        else:
            return
    if not gitignore:
        yield from _walk(tree, "", None)
    elif not _is_itself_ignored(tree.folder, top):
        yield from _walk(tree, "", _rules_above(tree.folder, top))


def _at(tree: _Tree, path: str) -> Iterator[str]:
    """What a path of Git's is on the disk: a file, nothing, or another repository's files."""
    path = path.rstrip("/")
    if tree.kind(path) == "directory":
        yield from _walk(tree, path, [])
    elif tree.lists(path):
        yield path


def _each_once(paths: Iterator[str]) -> Iterator[str]:
    """Without the repetitions of a file in conflict, which follow each other."""
    previous = None
    for path in paths:
        if path != previous:
            yield path
        previous = path


class _Tree:
    """What is on the disk below a folder: each directory is read once, links not followed."""

    def __init__(
        self, start: Directory, descent: Descent, *, checkpoint: Checkpoint, links: bool
    ) -> None:
        self.start = start
        self.folder = start.path
        self.checkpoint = checkpoint
        self._descent = descent
        self._links = links
        self._entries: dict[str, dict[str, _Kind]] = {}

    def entries(self, directory: str) -> dict[str, _Kind]:
        """The names in a directory (`""` is the folder itself), version control's left out."""
        found = self._entries.get(directory)
        if found is None:
            real = directory == "" or self.kind(directory) == "directory"
            found = dict(self._read(directory)) if real else {}
            self._entries[directory] = found
        return found

    def kind(self, path: str) -> _Kind | None:
        """What is there; None if nothing that can be listed is."""
        if path.count("/") > _DEEPEST:
            return None
        directory, _, name = path.rpartition("/")
        return self.entries(directory).get(name)

    def lists(self, path: str) -> bool:
        """Whether a file is there, or a link to one."""
        kind = self.kind(path)
        if kind != "link":
            return kind == "file"
        return self._links and self._leads_to_a_file(path)

    def is_repository(self, directory: str) -> bool:
        """Whether a directory is the top of a work tree."""
        with contextlib.suppress(OSError, FileFault):
            opened = self._descent.open(directory)
            os.stat(opened.at(".git"), dir_fd=opened.fd, follow_symlinks=False)
            return True
        return False

    def rules(self, directory: str) -> Rules:
        """The `.gitignore` of a directory."""
        with contextlib.suppress(OSError, FileFault):
            opened = self._descent.open(directory)
            return _read_rules(opened.at(".gitignore"), dir_fd=opened.fd)
        return Rules.parse(b"")

    def _leads_to_a_file(self, link: str) -> bool:
        directory, _, name = link.rpartition("/")
        with contextlib.suppress(OSError, FileFault):
            opened = self._descent.open(directory)
            return stat.S_ISREG(os.stat(opened.at(name), dir_fd=opened.fd).st_mode)
        return False

    def _read(self, directory: str) -> Iterator[tuple[str, _Kind]]:
        self.checkpoint()
        suppress = contextlib.suppress(OSError, FileFault)
        with suppress, self._descent.open(directory).scan() as found:
            for entry in found:
                if entry.name not in _VERSION_CONTROL and (kind := _kind(entry)):
                    yield entry.name, kind


def _kind(entry: os.DirEntry[str]) -> _Kind | None:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else None


@attrs.frozen(kw_only=True)
class _RulesAt:
    """The rules of one file, and how a path below the walked folder reads from where it lies.

    Attributes:
        rules: what the file says.
        above: what to put before a path: the walked folder, seen from a folder above it.
        below: how many characters to take off: the way down to a folder in it.
    """

    rules: Rules
    above: str = ""
    below: int = 0

    def verdict(self, path: str) -> bool | None:
        return self.rules.verdict(os.fsencode(self.above + path[self.below :]))


def _walk(tree: _Tree, start: str, rules: Sequence[_RulesAt] | None) -> Iterator[str]:
    """The files below a directory of the tree; `rules` None: nothing is ignored."""
    pending = [(start, rules)]
    while pending:
        directory, rules = pending.pop()
        prefix = f"{directory}/" if directory else ""
        if rules is not None:
            own = directory != start and tree.is_repository(directory)
            rules = [*([] if own else rules), *_rules_in(tree, directory)]
        below = []
        for name, kind in sorted(tree.entries(directory).items()):
            path = prefix + name
            if rules and _ignored(path + "/" * (kind == "directory"), rules):
                continue
            if kind == "directory":
                below.append((path, rules))
            elif tree.lists(path):
                yield path
        pending.extend(reversed(below))


def _ignored(path: str, rules: Sequence[_RulesAt]) -> bool:
    for each in reversed(rules):
        verdict = each.verdict(path)
        if verdict is not None:
            return verdict
    return False


def _rules_in(tree: _Tree, directory: str) -> Iterator[_RulesAt]:
    """The rules that begin to hold in a directory of the tree."""
    if tree.entries(directory).get(".gitignore") == "file":
        rules = tree.rules(directory)
        if rules:
            yield _RulesAt(rules=rules, below=len(directory) + 1 if directory else 0)


def _is_repository(folder: Path) -> bool:
    return os.path.lexists(folder / ".git")


def top_of_work_tree(folder: Path) -> Path | None:
    """Return the top of the Git work tree that holds a folder; None if there is none."""
    return next((each for each in (folder, *folder.parents) if _is_repository(each)), None)


def _is_itself_ignored(folder: Path, top: Path | None) -> bool:
    """Whether a folder of a work tree, or one above it, is ignored: Git lists nothing in it."""
    if top is None:
        return False
    below_top = [each for each in (folder, *folder.parents) if top in each.parents]
    return any(_ignored("", _rules_above(each, top)) for each in below_top)


def _rules_above(folder: Path, top: Path | None) -> list[_RulesAt]:
    """The rules of a work tree that hold in a folder of it, without those the folder itself has."""
    if top is None:
        return []
    files = [(top, ".git/info/exclude")]
    files += [(each, ".gitignore") for each in reversed(folder.parents) if each.is_relative_to(top)]
    found = [_RulesAt(rules=_read_rules(at / name), above=_way(at, folder)) for at, name in files]
    return [each for each in found if each.rules]


def _way(down_from: Path, folder: Path) -> str:
    relative = folder.relative_to(down_from).as_posix()
    return "" if relative == "." else f"{relative}/"


def _read_rules(path: Path | str, *, dir_fd: int | None = None) -> Rules:
    """The rules of a file; none if it cannot be read, or is no regular file.

    A file that is there and cannot be read is logged: what it ignores is listed.
    """
    data = b""
    try:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with os.fdopen(os.open(path, flags, dir_fd=dir_fd), "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                data = file.read(_MOST_RULES)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as fault:
        reason = fault.strerror or fault
        _log.warning("%s cannot be read (%s): the files that it ignores are listed", path, reason)
    return Rules.parse(data)
