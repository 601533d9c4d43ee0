"""The list of the files below a directory that Git does not ignore.

Git lists them where it can be used, and those of a nested repository by its own rules. Otherwise
its rules are read here: the `.gitignore` files from
the top of the work tree down, and `info/exclude`. Each path from Git is checked on the disk, since
Git also names removed files and directories of other repositories, and spells a name as it was
added where the disk ignores case or composes characters. Links to directories are not
followed, and each directory is opened from its parent, so that a listing ends and stays below its
directory even if a link is swapped in meanwhile. Pipes, devices, sockets and the directories of
version control are never listed.

Everything here accesses the disk: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs

from eca_server.workspace import git
from eca_server.workspace.errors import FileError
from eca_server.workspace.gitignore import Rules
from eca_server.workspace.opening import Descent, Directory, folded, open_directory
from eca_server.workspace.reading import Checkpoint
from eca_server.workspace.worktree import top_of_work_tree

_log = logging.getLogger("eca_server.workspace")

_Kind: TypeAlias = Literal["file", "link", "directory"]

_VERSION_CONTROL = {".git", ".hg", ".svn", ".bzr", ".jj", "_darcs", "CVS"}
_DEEPEST = 100  # levels of directories
_MOST_REPOSITORIES = 64  # nested ones listed by Git
_MOST_RULES = 256 * 1024  # bytes of a `.gitignore`


def list_files(
    directory: Path | Directory,
    *,
    limit: int,
    gitignore: bool = True,
    links: bool = True,
    without: Collection[str] = (),
    may_repeat: bool = False,
    checkpoint: Checkpoint = lambda: None,
) -> Iterator[str]:
    """Yield the files below a directory, relative to it, with `/`.

    A name that is not UTF-8 is decoded by `os.fsdecode`. The order is Git's or, where the tree is
    walked, by name in each directory; it is stable while the files are unchanged.

    Args:
        directory: a real path, or an open directory.
        limit: the maximum number of files.
        gitignore: leave out the files that Git ignores (`index.ignoreFiles`).
        links: include symbolic links to files.
        without: directories to leave out, as relative paths with `/`.
        may_repeat: yield a few files repeatedly, in place of remembering all of them.
        checkpoint: called now and then; an exception of it ends the listing.

    Raises:
        PathChanged: the path leads to a different directory now.
    """
    with ExitStack() as stack:
        if not isinstance(directory, Directory):
            try:
                directory = stack.enter_context(open_directory(directory))
            except OSError:
                return
        descent = stack.enter_context(Descent(directory))
        tree = _Tree(directory, descent, checkpoint=checkpoint, links=links, without=without)
        paths = _by_rules(tree) if gitignore else _walk(tree, "", None)
        yield from islice(_each_once(paths) if gitignore and not may_repeat else paths, limit)


def list_root(directory: Path, *, gitignore: bool, **options: Any) -> Iterator[str]:
    """Yield the files below a root as `list_files`; all of them if Git ignores each one.

    Then the user has opened an ignored directory, such as one in a home directory whose repository
    ignores all but a few files.
    """
    is_empty = True
    for path in list_files(directory, gitignore=gitignore, **options):
        is_empty = False
        yield path
    if is_empty and gitignore:
        yield from list_files(directory, gitignore=False, **options)


def _each_once(paths: Iterator[str]) -> Iterator[str]:
    """Yield each path once: Git repeats a file in conflict, and a walk what Git has printed."""
    yielded: set[str] = set()
    for path in paths:
        if path not in yielded:
            yielded.add(path)
            yield path


def _by_rules(tree: _Tree) -> Iterator[str]:
    """Yield the files that are not ignored; walk, also for the rest, if Git breaks off."""
    top = top_of_work_tree(tree.path)
    if top is not None:
        with contextlib.suppress(git.GitUnavailable, OSError), ExitStack() as stack:
            tracked = stack.enter_context(tree.git_listing("", "--cached", top=top))
            others = stack.enter_context(tree.git_listing("", "--others", top=top))
            yield from _existing(tree, "", tracked)
            yield from _existing(tree, "", others)
            return
    if not _is_itself_ignored(tree.path, top):
        yield from _walk(tree, "", _rules_above(tree.path, top))


def _existing(tree: _Tree, directory: str, names: Iterator[str]) -> Iterator[str]:
    """Yield the existing files of Git's names, of other repositories the files in them."""
    prefix = f"{directory}/" if directory else ""
    for name in names:
        path = prefix + name.rstrip("/")
        kind = tree.kind(path)
        if kind is None:
            path = tree.spelled(path)
            kind = tree.kind(path)
        if kind == "file" or (kind == "link" and tree.lists(path)):
            yield path
        elif kind == "directory":
            yield from _nested(tree, path)


def _nested(tree: _Tree, directory: str) -> Iterator[str]:
    """Yield the files of a directory that has its own rules, such as a submodule."""
    if tree.is_repository(directory) and tree.repositories_left:
        tree.repositories_left -= 1
        with contextlib.suppress(FileError, OSError):
            top = tree.path / directory
            with tree.git_listing(directory, "--cached", "--others", top=top) as names:
                yield from _existing(tree, directory, names)
            return
    yield from _walk(tree, directory, [])


class _Tree:
    """The entries below a directory; each directory is read once, links are not followed."""

    def __init__(
        self,
        start: Directory,
        descent: Descent,
        *,
        checkpoint: Checkpoint,
        links: bool,
        without: Collection[str],
    ) -> None:
        self.start = start
        self.path = start.path
        self.checkpoint = checkpoint
        self._descent = descent
        self._links = links
        self._without = frozenset(without)
        self._time_limit = git.TimeLimit()
        self.repositories_left = _MOST_REPOSITORIES
        self._entries: dict[str, dict[str, _Kind]] = {}
        self._last_directory: str | None = None
        self._last_entries: dict[str, _Kind] = {}
        self._spellings: dict[str, dict[str, str]] = {}

    def git_listing(
        self, directory: str, *kinds: str, top: Path
    ) -> AbstractContextManager[Iterator[str]]:
        """Return a context manager of the paths that Git prints for a directory."""
        return git.listing(
            self._descent.open(directory),
            *kinds,
            top=top,
            checkpoint=self.checkpoint,
            time_limit=self._time_limit,
        )

    def entries(self, directory: str) -> dict[str, _Kind]:
        """Return the entries of a directory (`""`: the start) that may be listed."""
        entries = self._entries.get(directory)
        if entries is None:
            real = directory == "" or self.kind(directory) == "directory"
            entries = self._read(directory) if real else {}
            self._entries[directory] = entries
        return entries

    def kind(self, path: str) -> _Kind | None:
        """Return the kind of an entry; None if it cannot be listed."""
        directory, _, name = path.rpartition("/")
        if directory != self._last_directory:
            if path.count("/") > _DEEPEST:
                return None
            entries = self.entries(directory)
            self._last_directory, self._last_entries = directory, entries
        return self._last_entries.get(name)

    def spelled(self, path: str) -> str:
        """Return a path of Git as the disk spells it: case and composed characters may differ."""
        if path.count("/") > _DEEPEST or self.kind(path):
            return path
        directory, slash, name = path.rpartition("/")
        directory = self.spelled(directory) if directory else ""
        names = self._spellings.get(directory)
        if names is None:
            names = {folded(each): each for each in self.entries(directory)}
            self._spellings[directory] = names
        return f"{directory}{slash}{names.get(folded(name), name)}"

    def lists(self, path: str) -> bool:
        """Return True if a path is a file, or a link to one where links are listed."""
        kind = self.kind(path)
        if kind != "link":
            return kind == "file"
        return self._links and self._leads_to_a_file(path)

    def is_repository(self, directory: str) -> bool:
        """Return True if a directory is the top of a work tree."""
        with contextlib.suppress(OSError, FileError):
            opened = self._descent.open(directory)
            os.stat(opened.at(".git"), dir_fd=opened.fd, follow_symlinks=False)
            return True
        return False

    def rules(self, directory: str) -> Rules:
        """Return the rules in the `.gitignore` of a directory."""
        with contextlib.suppress(OSError, FileError):
            opened = self._descent.open(directory)
            return _read_rules(opened.at(".gitignore"), dir_fd=opened.fd)
        return Rules.parse(b"")

    def _leads_to_a_file(self, link: str) -> bool:
        directory, _, name = link.rpartition("/")
        with contextlib.suppress(OSError, FileError):
            opened = self._descent.open(directory)
            return stat.S_ISREG(os.stat(opened.at(name), dir_fd=opened.fd).st_mode)
        return False

    def _read(self, directory: str) -> dict[str, _Kind]:
        self.checkpoint()
        kinds: dict[str, _Kind] = {}
        prefix = f"{directory}/" if directory else ""
        suppress = contextlib.suppress(OSError, FileError)
        with suppress, self._descent.open(directory).scan() as entries:
            for entry in entries:
                kind = _kind(entry)
                if kind is not None:
                    kinds[entry.name] = kind
        for name in _VERSION_CONTROL.intersection(kinds):
            del kinds[name]
        for path in self._without:
            if path.startswith(prefix):
                kinds.pop(path[len(prefix) :], None)
        return kinds


def _kind(entry: os.DirEntry[str]) -> _Kind | None:
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "link" if entry.is_symlink() else None


@attrs.frozen(kw_only=True)
class _RulesAt:
    """The rules of one file, and how to make a path of the walk relative to them.

    Attributes:
        prefix: put before a path: the start of the walk, relative to the directory of the rules.
        skip: characters to remove from a path: the directory of the rules and its `/`.
    """

    rules: Rules
    prefix: str = ""
    skip: int = 0

    def verdict(self, path: str) -> bool | None:
        return self.rules.verdict(os.fsencode(self.prefix + path[self.skip :]))


def _walk(tree: _Tree, start: str, rules: Sequence[_RulesAt] | None) -> Iterator[str]:
    """Yield the files below a directory of the tree; `rules` None: nothing is ignored."""
    pending = [(start, rules)]
    while pending:
        directory, rules = pending.pop()
        prefix = f"{directory}/" if directory else ""
        if rules is not None:
            if directory != start and tree.is_repository(directory):
                yield from _nested(tree, directory)
                continue
            rules = [*rules, *_rules_in(tree, directory)]
        subdirectories = []
        for name, kind in sorted(tree.entries(directory).items()):
            path = prefix + name
            tree.checkpoint()  # a folder may have thousands of names and of rules
            if rules and _ignored(path + "/" * (kind == "directory"), rules):
                continue
            if kind == "directory":
                subdirectories.append((path, rules))
            elif tree.lists(path):
                yield path
        pending.extend(reversed(subdirectories))


def _ignored(path: str, rules: Sequence[_RulesAt]) -> bool:
    for each in reversed(rules):
        verdict = each.verdict(path)
        if verdict is not None:
            return verdict
    return False


def _rules_in(tree: _Tree, directory: str) -> Iterator[_RulesAt]:
    """Yield the rules that a directory of the tree adds."""
    if tree.entries(directory).get(".gitignore") == "file":
        rules = tree.rules(directory)
        if rules:
            yield _RulesAt(rules=rules, skip=len(directory) + 1 if directory else 0)


def _is_itself_ignored(directory: Path, top: Path | None) -> bool:
    """Return True if a directory of a work tree, or a parent of it, is ignored."""
    if top is None:
        return False
    below_top = [each for each in (directory, *directory.parents) if top in each.parents]
    return any(_ignored("", _rules_above(each, top)) for each in below_top)


def _rules_above(directory: Path, top: Path | None) -> list[_RulesAt]:
    """Return the rules of a work tree that apply to a directory, without its own `.gitignore`."""
    if top is None:
        return []
    files = [(top, ".git/info/exclude")]
    files += [
        (each, ".gitignore") for each in reversed(directory.parents) if each.is_relative_to(top)
    ]
    rules = [
        _RulesAt(rules=_read_rules(at / name), prefix=_prefix(at, directory)) for at, name in files
    ]
    return [each for each in rules if each.rules]


def _prefix(above: Path, directory: Path) -> str:
    relative = directory.relative_to(above).as_posix()
    return "" if relative == "." else f"{relative}/"


def _read_rules(path: Path | str, *, dir_fd: int | None = None) -> Rules:
    """Return the rules of a file; none if it cannot be read or is not a regular file.

    An existing file that cannot be read is logged.
    """
    data = b""
    try:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with os.fdopen(os.open(path, flags, dir_fd=dir_fd), "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                data = file.read(_MOST_RULES)
                if len(data) == _MOST_RULES:
                    data = data[: data.rfind(b"\n") + 1]  # a part of a pattern ignores more
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        reason = error.strerror or error
        _log.warning("could not read %s (%s): the files that it ignores are listed", path, reason)
    return Rules.parse(data)
