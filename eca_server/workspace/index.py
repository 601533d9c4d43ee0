"""The file index: which files and folders of the workspace fit what the user types.

The rules it keeps: the loop never waits for a disk; a search is answered from what is known, and
what is known is renewed behind it when it has grown old. Equal questions get equal answers, in the
same order, while the files are the same.
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

from eca_server.printable import printable_line
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.faults import FileFault
from eca_server.workspace.ignore import list_files
from eca_server.workspace.opening import open_directory
from eca_server.workspace.roots import Root

__all__ = ["Catalogue", "FileIndex", "Found"]

_FRESH = 5.0  # seconds a listing is good for
_PATIENCE = 0.1  # seconds the very first search waits for the first listing to be whole
_MOST_FILES = 500_000
_FIRST_PART, _GROWTH = 4_000, 8  # when parts of the first listing can be searched, in files
_MOST_NAMES = 50_000  # of one directory
_CHUNK = 4_096  # entries searched at a stretch, while the interpreter is held
_DIRECTORY_QUERY = re.compile(r"(~|\.{1,2})?/|~$")

_Finder: TypeAlias = Callable[[str, int], int]
"""Where in a text something stands, from a position on; negative: nowhere."""


@attrs.frozen(kw_only=True)
class Found:
    """A file or a folder that fits; its path is absolute, the root as the user opened it."""

    path: Path
    is_directory: bool


class _Entry(NamedTuple):
    path: str  # relative to the root
    root: int  # its number
    is_directory: bool


class _Chunk:
    """Some entries' names and paths, each kind one text, so that a search is one call."""

    def __init__(self, entries: Sequence[_Entry]) -> None:
        self.entries = entries
        paths = [entry.path.casefold() for entry in entries]
        self.paths = _Texts(paths)
        self.names = _Texts([path.rpartition("/")[2] for path in paths])


class _Texts:
    """Texts in one, each between two NULs, which no path holds."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._joined = "\0".join(["", *texts, ""])
        self._starts = [0]
        for text in texts:
            self._starts.append(self._starts[-1] + len(text) + 1)

    def matches(self, find: _Finder) -> Iterator[int]:
        """The numbers of the texts in which `find` finds something."""
        at = find(self._joined, 0)
        while at >= 0:
            number = bisect_right(self._starts, at) - 1
            yield number
            at = find(self._joined, self._starts[number + 1])


class Catalogue:
    """A listing that can be searched; it never changes."""

    def __init__(self, entries: Iterable[_Entry]) -> None:
        ordered = _shortest_first(entries)
        self._chunks = [
            _Chunk(ordered[start : start + _CHUNK]) for start in range(0, len(ordered), _CHUNK)
        ]

    def search(self, query: str, limit: int) -> list[_Entry]:
        """The entries that fit, best first; all of them fit a blank query.

        First come those whose name is the query, then those whose name begins with it, whose name
        contains it, whose path contains it, and whose path has its letters in this order. Among
        equals the shorter path comes first. Case does not matter.
        """
        query = query.strip().casefold()
        return list(islice(self._ranked(query) if query else self._all(), limit))

    def _all(self) -> Iterator[_Entry]:
        return (entry for chunk in self._chunks for entry in chunk.entries)

    def _ranked(self, query: str) -> Iterator[_Entry]:
        seen: set[int] = set()
        for in_names, find in _tiers(query):
            for number, chunk in enumerate(self._chunks):
                texts = chunk.names if in_names else chunk.paths
                for match in texts.matches(find):
                    place = number * _CHUNK + match
                    if place not in seen:
                        seen.add(place)
                        yield chunk.entries[match]


def _shortest_first(entries: Iterable[_Entry]) -> list[_Entry]:
    """By length, then by path, in many short sorts: a long one would hold all threads."""
    by_length: defaultdict[int, list[_Entry]] = defaultdict(list)
    for entry in entries:
        by_length[len(entry.path)].append(entry)
    return [entry for _, alike in sorted(by_length.items()) for entry in sorted(alike)]


def _tiers(query: str) -> Iterator[tuple[bool, _Finder]]:
    """How to look for a query, the best way first: in names, or in whole paths."""
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
    """The first place of each letter is as good as any, so that nothing is tried twice."""
    steps = (rf"[^\x00{re.escape(letter)}]*+{re.escape(letter)}" for letter in letters)
    pattern = re.compile(r"\x00" + "".join(steps))

    def find(text: str, start: int) -> int:
        found = pattern.search(text, start)
        return found.start() if found else -1

    return find


class FileIndex:
    """The files and folders of the roots, kept fresh while `run` runs.

    Attributes:
        gitignore: what Git ignores is left out, from the next listing on.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        *,
        gitignore: bool = True,
        on_problem: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Nothing is listed yet.

        Args:
            roots: the folders of the workspace.
            gitignore: leave out what Git ignores.
            on_problem: called, after each listing, with a sentence for the user.
        """
        self._workspace = Workspace(roots)
        self.gitignore = gitignore
        self._on_problem = on_problem
        self._catalogue = Catalogue([])
        self._whole = trio.Event()
        self._wanted = trio.Event()
        self._stale_at = -math.inf

    async def run(self) -> None:
        """List the roots whenever a search finds the listing too old; it never returns."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            began = trio.current_time()
            self._catalogue = await trio.to_thread.run_sync(self._listing, abandon_on_cancel=True)
            self._whole.set()
            took = trio.current_time() - began
            self._stale_at = began + took + max(_FRESH, took)

    async def search(self, query: str, *, limit: int) -> list[Found]:
        """The files and folders that fit what the user typed, best first; at once.

        A blank query gives the roots, then the rest, short paths first. One that begins with `/`,
        `~/`, `./` or `../` lists that directory, or what in its parent begins with its last name.

        Args:
            query: as typed.
            limit: how many at most.
        """
        if _DIRECTORY_QUERY.match(query):
            return await trio.to_thread.run_sync(
                self._in_directory, query, limit, abandon_on_cancel=True
            )
        if trio.current_time() >= self._stale_at:
            self._stale_at = math.inf
            self._wanted.set()
        with trio.move_on_after(_PATIENCE):
            await self._whole.wait()
        found = await trio.to_thread.run_sync(self._catalogue.search, query, limit)
        roots = self._workspace.roots
        entries = [
            Found(path=roots[each.root].path / each.path, is_directory=each.is_directory)
            for each in found
        ]
        if query.strip():
            return entries
        return [*(Found(path=root.path, is_directory=True) for root in roots), *entries][:limit]

    def _listing(self) -> Catalogue:
        """List all roots, in a worker thread; of the first listing, parts are shown on the way."""
        entries: list[_Entry] = []
        next_part = math.inf if self._whole.is_set() else _FIRST_PART
        for entry in self._entries():
            entries.append(entry)
            if len(entries) >= next_part:
                self._catalogue = Catalogue(entries)
                next_part *= _GROWTH
        return Catalogue(entries)

    def _entries(self) -> Iterator[_Entry]:
        left = _MOST_FILES
        for number, root in enumerate(self._workspace.roots):
            elsewhere = self._prefixes_of_roots_in(root)
            seen = {""}
            for path in self._files_of(root, left):
                left -= 1
                if path.startswith(elsewhere):
                    continue
                yield _Entry(path, number, False)
                if self.gitignore and path.rpartition("/")[2] == ".gitignore":
                    self._check_rules(root.path / path)
                directory = path.rpartition("/")[0]
                while directory not in seen:
                    seen.add(directory)
                    yield _Entry(directory, number, True)
                    directory = directory.rpartition("/")[0]

    def _files_of(self, root: Root, limit: int) -> Iterator[str]:
        """The files of a root; none of one that leads elsewhere by now."""
        with contextlib.suppress(FileFault):
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

    def _in_directory(self, query: str, limit: int) -> list[Found]:
        """What a typed path can go on with; in a worker thread."""
        parent, _, name = query.rpartition("/")
        for directory, beginning in ((query, ""), (f"{parent}/", name)):
            try:
                place = self._workspace.locate(directory)
                with open_directory(place.real_path) as opened, opened.scan() as entries:
                    return _completions(place.path, entries, beginning, limit)
            except (OSError, FileFault):
                continue
        return []


def _completions(
    directory: Path, entries: Iterator[os.DirEntry[str]], beginning: str, limit: int
) -> list[Found]:
    """The entries of a directory that begin like this, hidden ones last."""
    fitting = [each for each in islice(entries, _MOST_NAMES) if _begins(each.name, beginning)]
    fitting.sort(key=lambda each: (each.name.startswith("."), each.name.casefold()))
    found = (_found(directory, each) for each in fitting)
    return list(islice((each for each in found if each is not None), limit))


def _begins(name: str, beginning: str) -> bool:
    return name.casefold().startswith(beginning.casefold())


def _found(directory: Path, entry: os.DirEntry[str]) -> Found | None:
    """An entry of a directory, if it is a file or a folder, or a link to one."""
    try:
        is_directory = entry.is_dir()
        if not is_directory and not entry.is_file():
            return None
    except OSError:
        return None
    return Found(path=directory / entry.name, is_directory=is_directory)
