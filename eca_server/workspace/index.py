"""The file index: a search for the files and directories of the workspace.

The rules of this module: the event loop never waits for a disk, and a disk that hangs blocks only
the threads of the index. A search uses the last listing, that of a server before if there is no
other; while the first listing grows, a search uses its beginning. An old listing is renewed in the
background, and a search waits only a moment for the new one. A removed file is never a match. Equal
queries get equal answers, in the same order, while all files are listed and unchanged. Nothing
watches the files: a watch costs a handle for every directory, also an ignored one, and searches are
rare.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import attrs
import trio

from eca_protocol.server.roots import Root
from eca_server.printable import printable_line
from eca_server.system.threads import run_in_thread
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.catalogue import Catalogue, Collection, Entry
from eca_server.workspace.errors import FileError
from eca_server.workspace.ignore import list_root
from eca_server.workspace.opening import folded, open_directory, real_path_of
from eca_server.workspace.stored_listings import StoredListings

_FRESH = 5.0  # seconds until a listing is stale
_PATIENCE = 0.1  # seconds that a search waits for a listing
_MATCH_PATIENCE = 1.0  # the same without a match: the web page's popup asks once, at its start
_MOST_REMOVED = 5_000  # matches of one search that do not exist
_MOST_FILES = 1_000_000
_GROWTH = 8  # each searchable part of the first listing is that much larger
_MOST_NAMES = 50_000  # of one directory
_LONGEST_QUERY = 4096  # characters
_COMPLETION_THREADS = 2
_SEARCH_THREADS = 4
_T = TypeVar("_T")
_DIRECTORY_QUERY = re.compile(r"(~|\.{1,2})?/|~$")


@attrs.frozen(kw_only=True)
class FileMatch:
    """A file or directory that matches a query.

    Attributes:
        path: absolute, below the root as the user opened it.
    """

    path: Path
    is_directory: bool


class FileIndex:
    """The files and directories of the roots, kept up to date by `run`.

    Attributes:
        gitignore: leave out the files that Git ignores, from the next listing on.
        first_part: files after which a part of the first listing can be searched.
        stored_from: entries from which on a listing is stored.
    """

    first_part = 4_000
    stored_from = 20_000

    def __init__(
        self,
        roots: Sequence[Root],
        *,
        gitignore: bool = True,
        stored_in: Path | None = None,
        on_problem: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Create an empty index.

        Args:
            roots: the roots of the workspace.
            gitignore: leave out the files that Git ignores.
            stored_in: the folder in which listings of large workspaces are stored.
            on_problem: called, after each listing, with a sentence for the user.
        """
        self._workspace = Workspace(roots)
        self.gitignore = gitignore
        self._stored = None if stored_in is None else StoredListings(stored_in, roots)
        self._on_problem = on_problem
        self._catalogue = Catalogue()
        self._has_some = trio.Event()
        self._has_all = trio.Event()
        self._refresh_requested = trio.Event()
        self._requested_at = self._stale_at = -math.inf
        self._is_listed = trio.Event()  # since the last request
        self._completion_threads = trio.CapacityLimiter(_COMPLETION_THREADS)
        self._search_threads = trio.CapacityLimiter(_SEARCH_THREADS)
        self._listing_threads = trio.CapacityLimiter(1)

    async def run(self) -> None:
        """List the roots whenever a search finds the listing stale; never return."""
        while True:
            await self._refresh_requested.wait()
            self._refresh_requested = trio.Event()
            if not self._has_all.is_set():
                await self._load()
            if len(self._catalogue) >= self.stored_from:
                await trio.sleep(_PATIENCE)  # let the search that requested it end first
            started, gitignore = trio.current_time(), self.gitignore
            self._catalogue = await self._in_listing_thread(partial(self._listing, gitignore))
            self._set_has_all()
            duration = trio.current_time() - started
            self._stale_at = started + duration + max(_FRESH, duration)
            self._is_listed.set()
            if self._stored is not None and len(self._catalogue) >= self.stored_from:
                save = partial(self._stored.save, self._catalogue, gitignore=gitignore)
                await self._in_listing_thread(save)

    async def _load(self) -> None:
        """Use the listing that a server before has stored."""
        if self._stored is not None:
            load = partial(self._stored.load, gitignore=self.gitignore)
            before = await self._in_listing_thread(load)
            if before:
                self._catalogue = before
                self._set_has_all()

    def _set_has_all(self) -> None:
        self._has_some.set()
        self._has_all.set()

    async def _in_listing_thread(self, function: Callable[[], _T]) -> _T:
        return await run_in_thread(function, abandon_on_cancel=True, limiter=self._listing_threads)

    async def search(self, query: str, *, limit: int) -> list[FileMatch]:
        """Return the existing files and directories that match a query, best first.

        It waits at most 0.1 s for a whole and new listing (a large one is not renewed as fast, so
        its searches do not wait), and at most 1 s if without it nothing matches.

        A blank query gives the roots, then the rest, short paths first. A query that begins with
        `/`, `~/`, `./` or `../` lists that directory, or completes its last name. A query that is
        longer than any path has no matches.

        `limit`: the maximum number of matches.
        """
        if len(query) > _LONGEST_QUERY:
            return []
        if _DIRECTORY_QUERY.match(query):
            complete = partial(self._in_directory, query, limit)
            return await trio.to_thread.run_sync(
                complete, abandon_on_cancel=True, limiter=self._completion_threads
            )
        started = trio.current_time()
        if started >= self._stale_at:
            self._requested_at, self._stale_at = started, math.inf
            self._is_listed = trio.Event()
            self._refresh_requested.set()
        is_listed = self._is_listed
        with trio.move_on_at(started + _MATCH_PATIENCE):
            await self._has_some.wait()
        with trio.move_on_at(started + _PATIENCE):
            await self._has_all.wait()
        if len(self._catalogue) < self.stored_from:  # a larger one takes longer to renew
            with trio.move_on_at(self._requested_at + _PATIENCE):
                await is_listed.wait()
        entries, may_have_more = await self._matches(query, limit)
        if may_have_more:
            with trio.move_on_at(started + _MATCH_PATIENCE):
                await is_listed.wait()
            entries, _ = await self._matches(query, limit)
        if query.strip():
            return entries
        roots = [FileMatch(path=each.path, is_directory=True) for each in self._workspace.roots]
        return [*roots, *entries][:limit]

    async def _matches(self, query: str, limit: int) -> tuple[list[FileMatch], bool]:
        """Search the present catalogue; return also whether only a new one may have matches."""
        catalogue, is_whole = self._catalogue, self._has_all.is_set()

        def search() -> tuple[list[FileMatch], bool]:
            presence = _Presence(self._workspace.roots)
            matches = list(islice(presence.filter(catalogue.matches(query)), limit))
            return matches, not matches and (presence.removed > 0 or not is_whole)

        return await self.in_search_thread(search)

    async def in_search_thread(self, function: Callable[[], _T]) -> _T:
        """Call a function that accesses the disk in one of the few threads of searches."""
        return await trio.to_thread.run_sync(
            function, abandon_on_cancel=True, limiter=self._search_threads
        )

    def _listing(self, gitignore: bool) -> Catalogue:
        """List all roots, in a worker thread; publish parts of the first listing."""
        entries = Collection()
        next_part = math.inf if self._has_all.is_set() else self.first_part
        for entry in self._entries(gitignore):
            entries.add(entry)
            if len(entries) >= next_part:
                self._catalogue = Catalogue(entries.ordered())
                trio.from_thread.run_sync(self._has_some.set)
                next_part *= _GROWTH
        return Catalogue(entries.ordered(drains=True))

    def _entries(self, gitignore: bool) -> Iterator[Entry]:
        """Yield the entries of each directory once, though roots are nested or the same.

        Each root gets an equal share of the files that may still be listed, so that a large root
        leaves room for the next ones.
        """
        remaining = _MOST_FILES
        roots = self._present_roots()
        for position, (directory, number) in enumerate(roots.items()):
            root = self._workspace.roots[number]
            nested = [each for each in roots if directory in each.parents]
            share = remaining // (len(roots) - position)
            directories = {""}
            for path in self._files_of(directory, nested, share, gitignore):
                remaining -= 1
                yield Entry(path, number, False)
                parent, _, name = path.rpartition("/")
                if gitignore and name == ".gitignore":
                    self._check_rules(root.path / path)
                while parent not in directories:
                    directories.add(parent)
                    yield Entry(parent, number, True)
                    parent = parent.rpartition("/")[0]

    def _present_roots(self) -> dict[Path, int]:
        """Return the directories of the roots, each once, with the index of a root.

        A root whose path leads to a different directory now is left out.
        """
        roots: dict[Path, int] = {}
        for number, root in enumerate(self._workspace.roots):
            with contextlib.suppress(FileError):
                if real_path_of(root.path) == root.real_path:
                    roots.setdefault(root.real_path, number)
        return roots

    def _files_of(
        self, directory: Path, nested: Sequence[Path], limit: int, gitignore: bool
    ) -> Iterator[str]:
        """Yield the files of a root, without those of nested ones; none if it was replaced."""
        with contextlib.suppress(FileError):
            yield from list_root(
                directory,
                limit=limit,
                gitignore=gitignore,
                without=[each.relative_to(directory).as_posix() for each in nested],
                may_repeat=True,
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


class _Presence:
    """The check that matches still exist below their roots; each directory is checked once.

    It is the only one: a stored listing may name anything.

    Attributes:
        removed: the number of matches that do not exist.
    """

    def __init__(self, roots: Sequence[Root]) -> None:
        self.removed = 0
        self._roots = roots
        self._directories = {
            (number, ""): os.path.realpath(root.path) == str(root.real_path)
            for number, root in enumerate(roots)
        }

    def filter(self, entries: Iterator[Entry]) -> Iterator[FileMatch]:
        """Yield the existing matches; end after very many that do not exist."""
        for entry in entries:
            if entry.root < len(self._roots) and self._exists(entry):
                path = self._roots[entry.root].path / entry.path
                yield FileMatch(path=path, is_directory=entry.is_directory)
                continue
            self.removed += 1
            if self.removed == _MOST_REMOVED:
                return

    def _exists(self, entry: Entry) -> bool:
        """Return True if an entry is below its root, without a link on the path to it."""
        path = entry.path
        parent = path.rpartition("/")[0]
        return not path.startswith("/") and self._has(entry.root, parent) and self._is(entry)

    def _has(self, root: int, directory: str) -> bool:
        """Return True if a directory is below its root; check each one once."""
        checked, unchecked = self._directories, []
        while (root, directory) not in checked:
            unchecked.append(directory)
            directory = directory.rpartition("/")[0]
        exists = checked[root, directory]
        for each in reversed(unchecked):
            exists = checked[root, each] = exists and self._is(Entry(each, root, True))
        return exists

    def _is(self, entry: Entry) -> bool:
        """Return True if an entry exists in its directory."""
        name = entry.path.rpartition("/")[2]
        if name in {"", os.curdir, os.pardir} or os.path.split(name)[0]:
            return False
        try:
            status = os.lstat(f"{self._roots[entry.root].real_path}{os.sep}{entry.path}")
        except (OSError, ValueError):
            return False
        return stat.S_ISDIR(status.st_mode) == entry.is_directory


def _completions(
    directory: Path, entries: Iterator[os.DirEntry[str]], beginning: str, limit: int
) -> list[FileMatch]:
    """Return the entries of a directory with this beginning, hidden ones last."""
    matching = [each for each in islice(entries, _MOST_NAMES) if _begins(each.name, beginning)]
    matching.sort(key=lambda each: (each.name.startswith("."), each.name.casefold()))
    matches = (_match(directory, each) for each in matching)
    return list(islice((each for each in matches if each is not None), limit))


def _begins(name: str, beginning: str) -> bool:
    return folded(name).startswith(folded(beginning))


def _match(directory: Path, entry: os.DirEntry[str]) -> FileMatch | None:
    """Return an entry if it is a file or a directory, or a link to one."""
    try:
        is_directory = entry.is_dir()
        if not is_directory and not entry.is_file():
            return None
    except OSError:
        return None
    return FileMatch(path=directory / entry.name, is_directory=is_directory)
