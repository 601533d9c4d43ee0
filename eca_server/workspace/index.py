"""The file index: a search for the files and directories of the workspace.

The rules of this module: the event loop never waits for a disk. A search uses the last listing,
and an old listing is renewed in the background. Equal queries get equal answers, in the same order,
while the files are unchanged.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

import attrs
import trio

from eca_protocol.server.roots import Root
from eca_server.printable import printable_line
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.errors import FileError
from eca_server.workspace.ignore import list_files
from eca_server.workspace.opening import open_directory

_FRESH = 5.0  # seconds until a listing is stale
_PATIENCE = 0.1  # seconds that a search waits for the complete first listing
_FIRST_PATIENCE = (
    1.0  # the same while nothing is listed: the web page's popup asks once, at its start
)
_MOST_FILES = 500_000
_GROWTH = 8  # each searchable part of the first listing is that much larger
_MOST_NAMES = 50_000  # of one directory
_CHUNK = 4_096  # entries searched in one call, which holds the interpreter
_DIRECTORY_QUERY = re.compile(r"(~|\.{1,2})?/|~$")

_Finder: TypeAlias = Callable[[str, int], int]
"""A function from a text and a start to the position of a match; negative: no match."""


@attrs.frozen(kw_only=True)
class FileMatch:
    """A file or directory that matches a query.

    Attributes:
        path: absolute, below the root as the user opened it.
    """

    path: Path
    is_directory: bool


class _Entry(NamedTuple):
    path: str  # relative to the root
    root: int  # index of the root
    is_directory: bool


class _Chunk:
    """Entries whose names, and whose paths, are joined to one text each, searched in one call."""

    def __init__(self, entries: Sequence[_Entry]) -> None:
        self.entries = entries
        paths = [entry.path.casefold() for entry in entries]
        self.paths = _Texts(paths)
        self.names = _Texts([path.rpartition("/")[2] for path in paths])


class _Texts:
    """Texts joined to one, each between two NULs, which no path contains."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._joined = "\0".join(["", *texts, ""])
        self._starts = [0]
        for text in texts:
            self._starts.append(self._starts[-1] + len(text) + 1)

    def matches(self, find: _Finder) -> Iterator[int]:
        """Yield the indexes of the texts with a match."""
        at = find(self._joined, 0)
        while at >= 0:
            number = bisect_right(self._starts, at) - 1
            yield number
            at = find(self._joined, self._starts[number + 1])


class Catalogue:
    """An immutable listing that can be searched."""

    def __init__(self, entries: Iterable[_Entry]) -> None:
        ordered = _shortest_first(entries)
        self._chunks = [
            _Chunk(ordered[start : start + _CHUNK]) for start in range(0, len(ordered), _CHUNK)
        ]

    @property
    def is_empty(self) -> bool:
        """True if nothing is listed."""
        return not self._chunks

    def search(self, query: str, limit: int) -> list[_Entry]:
        """Return the entries that match, best first; a blank query matches all.

        The order: the name is the query, the name begins with it, the name contains it, the path
        contains it, the path has its letters in this order. Among equals the shorter path comes
        first. Case does not matter.
        """
        query = query.strip().casefold()
        return list(islice(self._ranked(query) if query else self._all(), limit))

    def _all(self) -> Iterator[_Entry]:
        return (entry for chunk in self._chunks for entry in chunk.entries)

    def _ranked(self, query: str) -> Iterator[_Entry]:
        yielded: set[int] = set()
        for in_names, find in _tiers(query):
            for number, chunk in enumerate(self._chunks):
                texts = chunk.names if in_names else chunk.paths
                for match in texts.matches(find):
                    position = number * _CHUNK + match
                    if position not in yielded:
                        yielded.add(position)
                        yield chunk.entries[match]


def _shortest_first(entries: Iterable[_Entry]) -> list[_Entry]:
    """Return entries by length, then by path, in short sorts: a long one would hold all threads."""
    by_length: defaultdict[int, list[_Entry]] = defaultdict(list)
    for entry in entries:
        by_length[len(entry.path)].append(entry)
    return [entry for _, alike in sorted(by_length.items()) for entry in sorted(alike)]


def _tiers(query: str) -> Iterator[tuple[bool, _Finder]]:
    """Yield the finders of a query, best first, each with whether it searches in names."""
    if "\0" in query:
        return
    in_names = "/" not in query
    yield in_names, _containing(f"\0{query}\0")
    yield in_names, _containing(f"\0{query}")
    yield in_names, _containing(query)
    if in_names:
        yield False, _containing(query)
    letters = "".join(query.split())
    yield in_names, _with_letters(letters)
    if in_names:
        yield False, _with_letters(letters)


def _containing(part: str) -> _Finder:
    return lambda text, start: text.find(part, start)


def _with_letters(letters: str) -> _Finder:
    """Return a finder of letters in order; it never backtracks."""
    steps = (rf"[^\x00{re.escape(letter)}]*+{re.escape(letter)}" for letter in letters)
    pattern = re.compile(r"\x00" + "".join(steps))

    def find(text: str, start: int) -> int:
        match = pattern.search(text, start)
        return match.start() if match else -1

    return find


class FileIndex:
    """The files and directories of the roots, kept up to date by `run`.

    Attributes:
        gitignore: leave out the files that Git ignores, from the next listing on.
        first_part: files after which a part of the first listing can be searched.
    """

    first_part = 4_000

    def __init__(
        self,
        roots: Sequence[Root],
        *,
        gitignore: bool = True,
        on_problem: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Create an empty index.

        Args:
            roots: the roots of the workspace.
            gitignore: leave out the files that Git ignores.
            on_problem: called, after each listing, with a sentence for the user.
        """
        self._workspace = Workspace(roots)
        self.gitignore = gitignore
        self._on_problem = on_problem
        self._catalogue = Catalogue([])
        self._is_complete = trio.Event()
        self._refresh_requested = trio.Event()
        self._stale_at = -math.inf

    async def run(self) -> None:
        """List the roots whenever a search finds the listing stale; never return."""
        while True:
            await self._refresh_requested.wait()
            self._refresh_requested = trio.Event()
            started = trio.current_time()
            self._catalogue = await trio.to_thread.run_sync(self._listing, abandon_on_cancel=True)
            self._is_complete.set()
            duration = trio.current_time() - started
            self._stale_at = started + duration + max(_FRESH, duration)

    async def search(self, query: str, *, limit: int) -> list[FileMatch]:
        """Return the files and directories that match a query, best first, without delay.

        A blank query gives the roots, then the rest, short paths first. A query that begins with
        `/`, `~/`, `./` or `../` lists that directory, or completes its last name.

        `limit`: the maximum number of matches.
        """
        if _DIRECTORY_QUERY.match(query):
            return await trio.to_thread.run_sync(
                self._in_directory, query, limit, abandon_on_cancel=True
            )
        if trio.current_time() >= self._stale_at:
            self._stale_at = math.inf
            self._refresh_requested.set()
        with trio.move_on_after(_FIRST_PATIENCE if self._catalogue.is_empty else _PATIENCE):
            await self._is_complete.wait()
        matches = await trio.to_thread.run_sync(self._catalogue.search, query, limit)
        roots = self._workspace.roots
        entries = [
            FileMatch(path=roots[each.root].path / each.path, is_directory=each.is_directory)
            for each in matches
        ]
        if query.strip():
            return entries
        return [*(FileMatch(path=root.path, is_directory=True) for root in roots), *entries][:limit]

    def _listing(self) -> Catalogue:
        """List all roots, in a worker thread; publish parts of the first listing."""
        entries: list[_Entry] = []
        next_part = math.inf if self._is_complete.is_set() else self.first_part
        for entry in self._entries():
            entries.append(entry)
            if len(entries) >= next_part:
                self._catalogue = Catalogue(entries)
                next_part *= _GROWTH
        return Catalogue(entries)

    def _entries(self) -> Iterator[_Entry]:
        remaining = _MOST_FILES
        for number, root in enumerate(self._workspace.roots):
            nested_roots = self._prefixes_of_roots_in(root)
            directories = {""}
            for path in self._files_of(root, remaining):
                remaining -= 1
                if path.startswith(nested_roots):
                    continue
                yield _Entry(path, number, False)
                if self.gitignore and path.rpartition("/")[2] == ".gitignore":
                    self._check_rules(root.path / path)
                directory = path.rpartition("/")[0]
                while directory not in directories:
                    directories.add(directory)
                    yield _Entry(directory, number, True)
                    directory = directory.rpartition("/")[0]

    def _files_of(self, root: Root, limit: int) -> Iterator[str]:
        """Yield the files of a root; none if its path leads to a different directory now."""
        with contextlib.suppress(FileError):
            yield from list_files(
                root.real_path,
                limit=limit,
                gitignore=self.gitignore,
                checkpoint=trio.from_thread.check_cancelled,
            )

    def _check_rules(self, file: Path) -> None:
        """Report a `.gitignore` that cannot be read; in a worker thread."""
        if not os.access(file, os.R_OK) and os.path.lexists(file):
            trio.from_thread.run_sync(
                self._on_problem,
                f"Could not read `{printable_line(str(file))}`: the files that it ignores are "
                "listed and searched. Make the file readable.",
            )

    def _prefixes_of_roots_in(self, root: Root) -> tuple[str, ...]:
        return tuple(
            f"{each.real_path.relative_to(root.real_path).as_posix()}/"
            for each in self._workspace.roots
            if root.real_path in each.real_path.parents
        )

    def _in_directory(self, query: str, limit: int) -> list[FileMatch]:
        """Return the completions of a typed path; in a worker thread."""
        parent, _, name = query.rpartition("/")
        for directory, beginning in ((query, ""), (f"{parent}/", name)):
            try:
                place = self._workspace.locate(directory)
                with open_directory(place.real_path) as opened, opened.scan() as entries:
                    return _completions(place.path, entries, beginning, limit)
            except (OSError, FileError):
                continue
        return []


def _completions(
    directory: Path, entries: Iterator[os.DirEntry[str]], beginning: str, limit: int
) -> list[FileMatch]:
    """Return the entries of a directory with this beginning, hidden ones last."""
    matching = [each for each in islice(entries, _MOST_NAMES) if _begins(each.name, beginning)]
    matching.sort(key=lambda each: (each.name.startswith("."), each.name.casefold()))
    matches = (_match(directory, each) for each in matching)
    return list(islice((each for each in matches if each is not None), limit))


def _begins(name: str, beginning: str) -> bool:
    return name.casefold().startswith(beginning.casefold())


def _match(directory: Path, entry: os.DirEntry[str]) -> FileMatch | None:
    """Return an entry if it is a file or a directory, or a link to one."""
    try:
        is_directory = entry.is_dir()
        if not is_directory and not entry.is_file():
            return None
    except OSError:
        return None
    return FileMatch(path=directory / entry.name, is_directory=is_directory)
