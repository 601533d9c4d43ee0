from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from eca_server.workspace import index as room
from eca_server.workspace.catalogue import Catalogue, Entry
from eca_server.workspace.ignore import list_files
from eca_server.workspace.index import FileIndex, FileMatch
from eca_server.workspace.stored_listings import StoredListings
from tests.eca_server.workspace.conftest import root_of


@pytest.fixture
def project(project: Path) -> Path:
    for name in ("src/main.py", "src/util/text.py", "README.md", "build/out.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    (project / ".gitignore").write_text("build\n")
    return project


@pytest.fixture
async def index(
    project: Path, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> AsyncIterator[FileIndex]:
    """Run an index; the clock is stopped, so that no deadline passes."""
    index = FileIndex([root_of(project)])
    nursery.start_soon(index.run)
    yield index
    nursery.cancel_scope.cancel()


def names(matches: Sequence[FileMatch], folder: Path) -> list[str]:
    return [each.path.relative_to(folder).as_posix() + "/" * each.is_directory for each in matches]


async def test_files_and_folders_are_found(index, project):
    assert names(await index.search("main", limit=10), project) == ["src/main.py"]
    assert names(await index.search("util", limit=10), project) == ["src/util/", "src/util/text.py"]
    assert await index.search("out.py", limit=10) == []


async def test_a_blank_query_gives_the_roots_then_all(index, project):
    assert names(await index.search("", limit=10), project) == [
        "./",
        "src/",
        "src/util/",
        "README.md",
        ".gitignore",
        "src/main.py",
        "src/util/text.py",
    ]
    assert names(await index.search(" ", limit=2), project) == ["./", "src/"]


async def test_ignored_files_are_found_where_the_rules_are_off(project, nursery, mock_clock):
    index = FileIndex([root_of(project)], gitignore=False)
    nursery.start_soon(index.run)
    assert names(await index.search("out.py", limit=10), project) == ["build/out.py"]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("gitignore", [True, False])
async def test_rules_that_cannot_be_read_are_reported(
    project, nursery, mock_clock, monkeypatch, gitignore
):
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != ".gitignore")
    problems: list[str] = []
    (project / "src" / ".gitignore").write_text("x\n")
    roots = [root_of(project)]
    index = FileIndex(roots, gitignore=gitignore, on_problem=problems.append)
    nursery.start_soon(index.run)
    await index.search("main", limit=10)
    nursery.cancel_scope.cancel()
    files = (project / ".gitignore", project / "src" / ".gitignore")
    expected = {f"Could not read `{file}`" for file in files if gitignore and file.exists()}
    assert {problem.partition(":")[0] for problem in problems} == expected
    assert len(problems) == len(expected)


async def test_of_roots_in_each_other_each_file_is_found_once(project, nursery, mock_clock):
    index = FileIndex([root_of(project), root_of(project / "src")])
    nursery.start_soon(index.run)
    assert names(await index.search("py", limit=10), project) == ["src/main.py", "src/util/text.py"]
    assert names(await index.search("", limit=2), project) == ["./", "src/"]
    nursery.cancel_scope.cancel()


async def run_and_search(roots: Sequence[Path], query: str) -> list[FileMatch]:
    index = FileIndex([root_of(each) for each in roots])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(index.run)
        matches = await index.search(query, limit=100)
        nursery.cancel_scope.cancel()
    return matches


async def test_of_two_roots_that_are_one_directory_each_file_is_found_once(
    project, mock_clock, tmp_path
):
    (tmp_path / "alias").symlink_to(project)
    roots = [tmp_path / "alias", project]
    matches = await run_and_search(roots, "main")
    assert names(matches, roots[0]) == ["src/main.py"]


@pytest.mark.parametrize("nested_first", [True, False])
async def test_files_of_nested_roots_count_once(project, mock_clock, monkeypatch, nested_first):
    monkeypatch.setattr(room, "_MOST_FILES", 8)
    outer = project / "outer"
    for number in range(4):
        (outer / "inner").mkdir(parents=True, exist_ok=True)
        (outer / f"{number}.py").touch()
        (outer / "inner" / f"{number}.py").touch()
    roots = [outer, outer / "inner"]
    matches = await run_and_search(roots[::-1] if nested_first else roots, ".py")
    assert len(matches) == 8


async def test_a_large_root_leaves_room_for_the_next_one(project, outside, mock_clock, monkeypatch):
    monkeypatch.setattr(room, "_MOST_FILES", 4)
    assert names(await run_and_search([project, outside], "secret"), outside) == ["secret"]
    matches = await run_and_search([outside, project], "")
    assert sum(not each.is_directory for each in matches) == 4


async def test_a_root_whose_link_leads_elsewhere_now_takes_no_files_from_others(
    project, outside, mock_clock, tmp_path
):
    (tmp_path / "alias").symlink_to(project / "src")
    roots = [root_of(each) for each in (tmp_path / "alias", project, project / "src")]
    (tmp_path / "alias").unlink()
    (tmp_path / "alias").symlink_to(outside)
    for present in (roots, roots[:2]):
        index = FileIndex(present)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(index.run)
            matches = await index.search("main", limit=10)
            nursery.cancel_scope.cancel()
        assert names(matches, project) == ["src/main.py"]


async def test_a_root_whose_link_leads_elsewhere_now_has_no_files(
    project, nursery, mock_clock, outside, tmp_path
):
    alias = tmp_path / "alias"
    alias.symlink_to(project)
    (outside / "main.py").touch()
    index = FileIndex([root_of(alias)])
    nursery.start_soon(index.run)
    assert len(await index.search("main", limit=10)) == 1
    alias.unlink()
    alias.symlink_to(outside)
    for _ in range(2):
        assert await index.search("main", limit=10) == []
        mock_clock.jump(10)
    nursery.cancel_scope.cancel()


async def test_a_root_that_is_a_link_stays_as_the_user_opened_it(
    project, nursery, mock_clock, tmp_path
):
    (tmp_path / "alias").symlink_to(project)
    index = FileIndex([root_of(tmp_path / "alias")])
    nursery.start_soon(index.run)
    paths = [each.path for each in await index.search("main", limit=10)]
    assert paths == [tmp_path / "alias" / "src" / "main.py"]
    nursery.cancel_scope.cancel()


class Listings:
    """A counter of listings that pauses each before a chosen file until it is released."""

    def __init__(self, hold_before: int = 0) -> None:
        self.begun = 0
        self.resume = threading.Event()
        self.resume.set()
        self._hold_before = hold_before

    def __call__(self, folder: Path, **arguments: Any) -> Iterator[str]:
        self.begun += 1
        for number, path in enumerate(list_files(folder, **arguments)):
            if number == self._hold_before:
                while not self.resume.wait(0.01):
                    arguments["checkpoint"]()
            yield path


class Searches:
    """Searches that run while a test moves the clock."""

    def __init__(self, index: FileIndex, nursery: trio.Nursery, clock: trio.testing.MockClock):
        self._index = index
        self._nursery = nursery
        self._clock = clock
        self._ended: dict[str, list[FileMatch]] = {}

    async def start(self, query: str, seconds: float) -> None:
        """Start a search, and move the clock when it waits."""

        async def search() -> None:
            self._ended[query] = await self._index.search(query, limit=10)

        self._ended.pop(query, None)
        self._nursery.start_soon(search)
        await trio.testing.wait_all_tasks_blocked()
        self._clock.jump(seconds)
        await trio.testing.wait_all_tasks_blocked()

    def has_ended(self, query: str) -> bool:
        return query in self._ended

    async def matches(self, query: str) -> list[FileMatch]:
        """Return the matches of a started search; the clock is stopped."""
        while query not in self._ended:
            await trio.lowlevel.checkpoint()
        return self._ended[query]


async def test_a_search_waits_a_moment_for_a_renewal(
    index, project, mock_clock, monkeypatch, nursery
):
    listings = Listings()
    monkeypatch.setattr(room, "list_files", listings)
    await index.search("new", limit=10)
    (project / "new").touch()
    mock_clock.jump(4.9)
    assert await index.search("new", limit=10) == []
    assert listings.begun == 1
    listings.resume.clear()
    mock_clock.jump(0.2)
    searches = Searches(index, nursery, mock_clock)
    await searches.start("new", 0.09)
    assert not searches.has_ended("new")
    mock_clock.jump(0.02)
    assert await searches.matches("new") == []
    assert names(await index.search("main", limit=10), project) == ["src/main.py"]
    listings.resume.set()
    while not await index.search("new", limit=10):
        await trio.lowlevel.checkpoint()
    assert listings.begun == 2


async def test_a_query_longer_than_a_path_has_no_matches(index):
    assert await index.search("main".ljust(4096), limit=10) != []
    assert await index.search("main".ljust(4097), limit=10) == []


async def test_a_search_is_abandoned_when_it_is_cancelled(index, project, monkeypatch):
    entered, resume = threading.Event(), threading.Event()

    def matches(_: Catalogue, query: str) -> Iterator[Entry]:
        entered.set()
        resume.wait()
        return iter(())

    await index.search("main", limit=10)
    monkeypatch.setattr(Catalogue, "matches", matches)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(index.search, "main", limit=10))
        await trio.to_thread.run_sync(entered.wait)
        nursery.cancel_scope.cancel()
    assert not resume.is_set()
    resume.set()


async def test_a_client_that_asks_once_gets_the_present_files(index, project, mock_clock):
    await index.search("new", limit=10)
    (project / "new").touch()
    mock_clock.jump(3600)
    assert names(await index.search("new", limit=10), project) == ["new"]


async def test_removed_files_are_no_matches(index, project):
    (project / "src" / "text").touch()
    (project / "text").mkdir()
    (project / "text" / "text.py").touch()
    assert len(await index.search("text", limit=10)) == 4
    shutil.rmtree(project / "text")
    (project / "text").touch()
    (project / "src" / "text").unlink()
    assert names(await index.search("text", limit=1), project) == ["src/util/text.py"]


async def test_files_behind_a_new_link_are_no_matches(index, project, outside):
    (project / "src" / "util" / "secret").touch()
    assert len(await index.search("secret", limit=10)) == 1
    shutil.rmtree(project / "src" / "util")
    (project / "src" / "util").symlink_to(outside)
    assert await index.search("secret", limit=10) == []


@pytest.mark.parametrize("released", [True, False])
async def test_a_stored_listing_of_a_different_project_hides_nothing(
    project, nursery, mock_clock, monkeypatch, released
):
    folder = project.parent / "listings"
    different = Catalogue([Entry(name, 0, False) for name in ("maine", "man")])
    StoredListings(folder, [root_of(project)]).save(different, gitignore=True)
    listings = Listings()
    listings.resume.clear()
    monkeypatch.setattr(room, "list_files", listings)
    index = FileIndex([root_of(project)], stored_in=folder)
    nursery.start_soon(index.run)
    searches = Searches(index, nursery, mock_clock)
    await searches.start("main", 0.9)
    assert not searches.has_ended("main")
    if released:
        listings.resume.set()
    else:
        mock_clock.jump(0.2)
    expected = ["src/main.py"] if released else []
    assert names(await searches.matches("main"), project) == expected
    nursery.cancel_scope.cancel()


async def test_the_first_searches_are_answered_from_what_a_slow_disk_gave(
    project, nursery, autojump_clock, monkeypatch
):
    listings = Listings(hold_before=2)
    listings.resume.clear()
    monkeypatch.setattr(room, "list_files", listings)
    index = FileIndex([root_of(project)])
    index.first_part = 2
    nursery.start_soon(index.run)
    while not (matches := (await index.search("", limit=10))[1:]):
        await trio.lowlevel.checkpoint()
    assert names(matches, project) == ["README.md", ".gitignore"]
    listings.resume.set()
    while not await index.search("main", limit=10):
        await trio.lowlevel.checkpoint()
    assert listings.begun == 1
    nursery.cancel_scope.cancel()


async def test_the_first_search_waits_for_the_first_files(
    project, nursery, mock_clock, monkeypatch
):
    """The web page asks once, while it starts, and shows the answer until the user types."""
    resume, list_files = threading.Event(), room.list_files

    def slow(folder: Path, **arguments: Any) -> Iterator[str]:
        resume.wait()
        yield from list_files(folder, **arguments)

    async def search() -> None:
        matches.extend(await index.search("", limit=10))

    monkeypatch.setattr(room, "list_files", slow)
    index = FileIndex([root_of(project)])
    matches: list[FileMatch] = []
    nursery.start_soon(index.run)
    nursery.start_soon(search)
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(0.9)
    await trio.testing.wait_all_tasks_blocked()
    assert matches == []
    resume.set()
    while not matches:
        await trio.lowlevel.checkpoint()
    assert "README.md" in names(matches[1:], project)
    nursery.cancel_scope.cancel()


async def test_the_first_search_uses_a_stored_listing(project, nursery, mock_clock, monkeypatch):
    folder = project.parent / "cache" / "listings"
    listings = Listings()
    monkeypatch.setattr(room, "list_files", listings)

    def start() -> FileIndex:
        index = FileIndex([root_of(project)], stored_in=folder)
        index.stored_from = 3
        nursery.start_soon(index.run)
        return index

    def stored() -> list[str]:
        listed = StoredListings(folder, [root_of(project)]).load(gitignore=True)
        return [entry.path for entry in listed.search("py", 10)]

    async def until_stored(*paths: str) -> int:
        while await trio.to_thread.run_sync(stored) != list(paths):
            await trio.sleep(0)
        (file,) = folder.glob("[!.]*")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        return file.stat().st_ino

    await (first := start()).search("main", limit=10)
    written = await until_stored("src/main.py", "src/util/text.py")
    while listings.begun < 3:  # then the second is stored, if it is
        mock_clock.jump(10)
        await first.search("main", limit=10)
    assert await until_stored("src/main.py", "src/util/text.py") == written
    (project / "src" / "main.py").unlink()
    (project / "new.py").touch()
    listings.resume.clear()
    index = start()
    searches = Searches(index, nursery, mock_clock)
    await searches.start("py", 0.2)
    assert names(await searches.matches("py"), project) == ["src/util/text.py"]
    listings.resume.set()
    while len(await index.search("py", limit=10)) < 2:
        await trio.sleep(0)
    assert await until_stored("new.py", "src/util/text.py") != written
    nursery.cancel_scope.cancel()


async def test_a_setting_changed_during_a_listing_counts_from_the_next_one(
    project, nursery, mock_clock, monkeypatch, tmp_path
):
    listings = Listings()
    listings.resume.clear()
    monkeypatch.setattr(room, "list_files", listings)
    second = tmp_path / "second"
    (second / "build").mkdir(parents=True)
    (second / ".gitignore").write_text("build\n")
    (second / "build" / "out.py").touch()
    roots = [root_of(project), root_of(second)]
    index = FileIndex(roots, stored_in=tmp_path / "listings")
    index.stored_from = 1
    nursery.start_soon(index.run)
    nursery.start_soon(partial(index.search, "x", limit=1))
    while not listings.begun:
        await trio.sleep(0)
    index.gitignore = False
    listings.resume.set()

    def stored() -> Catalogue:
        return StoredListings(tmp_path / "listings", roots).load(gitignore=True)

    while not (listed := await trio.to_thread.run_sync(stored)):
        await trio.sleep(0)
    assert listed.search("out.py", 1) == []
    nursery.cancel_scope.cancel()


async def test_the_index_ends_though_a_listing_hangs(project, mock_clock, monkeypatch):
    entered, resume, returned = threading.Event(), threading.Event(), threading.Event()

    def hanging(folder: Path, **arguments: Any) -> Iterator[str]:
        try:
            entered.set()
            resume.wait()
            arguments["checkpoint"]()
            yield "never"
        finally:
            returned.set()

    monkeypatch.setattr(room, "list_files", hanging)
    index = FileIndex([root_of(project)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(index.run)
        nursery.start_soon(partial(index.search, "a", limit=1))
        await trio.to_thread.run_sync(entered.wait)
        nursery.cancel_scope.cancel()
    assert not returned.is_set()
    resume.set()
    await trio.to_thread.run_sync(returned.wait)


@pytest.mark.parametrize(
    ("place", "query"),
    [
        ((room.Workspace, "locate"), "/net/x"),
        ((room, "list_files"), "x"),
        ((StoredListings, "load"), "x"),
    ],
)
async def test_a_disk_that_hangs_takes_no_thread_from_others(
    project, nursery, mock_clock, monkeypatch, place, query
):
    entered, resume = threading.Semaphore(0), threading.Event()

    def hanging(*_: Any, **__: Any) -> Iterator[str]:
        entered.release()
        resume.wait()
        raise FileNotFoundError

    monkeypatch.setattr(*place, hanging)
    index = FileIndex([root_of(project)], stored_in=project.parent / "listings")
    nursery.start_soon(index.run)
    threads = trio.to_thread.current_default_thread_limiter()
    free = threads.available_tokens
    for _ in range(3):
        nursery.start_soon(partial(index.search, query, limit=1))
    await trio.to_thread.run_sync(entered.acquire)
    await trio.testing.wait_all_tasks_blocked()
    assert threads.available_tokens == free
    nursery.cancel_scope.cancel()
    resume.set()


async def test_an_index_without_roots_finds_nothing(nursery, mock_clock):
    index = FileIndex([])
    nursery.start_soon(index.run)
    assert await index.search("", limit=10) == []
    assert await index.search("./", limit=10) == []
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("./", ["build/", "README.md", "src/", ".gitignore"]),
        ("./src", ["src/main.py", "src/util/"]),
        ("./src/", ["src/main.py", "src/util/"]),
        ("./src/U", ["src/util/"]),
        ("./src/main.py", ["src/main.py"]),
        ("./.", ["build/", "README.md", "src/", ".gitignore"]),
        ("./nothing/", []),
        ("./nothing", []),
        ("./\0", []),
    ],
)
async def test_a_typed_directory_is_listed(index, project, query, expected):
    assert names(await index.search(query, limit=10), project) == expected


async def test_a_directory_outside_is_listed(index, project, outside, monkeypatch):
    monkeypatch.setenv("HOME", str(outside))
    secret = [FileMatch(path=outside / "secret", is_directory=False)]
    for query in ("~", "~/", "~/sec", "../outside/", f"{outside}/", f"{outside}/se"):
        assert await index.search(query, limit=10) == secret


async def test_a_root_swapped_for_a_link_has_no_files(project, outside, nursery):
    index = FileIndex([root_of(project)])
    shutil.rmtree(project)
    project.symlink_to(outside)
    nursery.start_soon(index.run)
    assert await index.search("secret", limit=10) == []
    assert index._has_all.is_set()
    nursery.cancel_scope.cancel()


async def test_of_a_directory_only_files_and_folders_are_listed(index, outside):
    os.mkfifo(outside / "pipe")
    (outside / "zero").symlink_to("/dev/zero")
    (outside / "loop").symlink_to("loop")
    (outside / "folder").symlink_to(".")
    assert names(await index.search("../outside/", limit=10), outside) == ["folder/", "secret"]
    assert names(await index.search("../outside/", limit=1), outside) == ["folder/"]
