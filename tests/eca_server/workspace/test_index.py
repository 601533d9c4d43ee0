import os
import shutil
import stat
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from eca_protocol.server.roots import Root
from eca_server.workspace import index as room
from eca_server.workspace.catalogue import Catalogue, Entry
from eca_server.workspace.ignore import list_files
from eca_server.workspace.index import FileIndex, FileMatch
from eca_server.workspace.stored_listings import StoredListings
from tests.eca_server.workspace.conftest import catalogue_of, root_of

Start = Callable[..., FileIndex]


@pytest.fixture
def project(project: Path) -> Path:
    for name in ("src/main.py", "src/util/text.py", "README.md", "build/out.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    (project / ".gitignore").write_text("build\n")
    return project


@pytest.fixture
async def start(
    project: Path, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> AsyncIterator[Start]:
    """Run indexes, of the project unless roots are given; the clock stands still."""

    def start(*roots: Path | Root, **options: Any) -> FileIndex:
        of_all = [root if isinstance(root, Root) else root_of(root) for root in roots or [project]]
        index = FileIndex(of_all, **options)
        nursery.start_soon(index.run)
        return index

    yield start
    nursery.cancel_scope.cancel()


@pytest.fixture
def index(start: Start) -> FileIndex:
    return start()


def names(matches: Sequence[FileMatch], folder: Path) -> list[str]:
    return [each.path.relative_to(folder).as_posix() + "/" * each.is_directory for each in matches]


async def search_index(index: FileIndex, query: str, folder: Path, limit: int = 10) -> str:
    return " ".join(names(await index.search(query, limit=limit), folder))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("main", "src/main.py"),
        ("util", "src/util/ src/util/text.py"),
        ("out.py", ""),
        ("", "./ src/ src/util/ README.md .gitignore src/main.py src/util/text.py"),
        ("./", "build/ README.md src/ .gitignore"),
        ("./src", "src/main.py src/util/"),
        ("./src/", "src/main.py src/util/"),
        ("./src/U", "src/util/"),
        ("./src/main.py", "src/main.py"),
        ("./.", "build/ README.md src/ .gitignore"),
        ("./nothing/", ""),
        ("./nothing", ""),
        ("./\0", ""),
        ("main".ljust(4096), "src/main.py"),
        ("main".ljust(4097), ""),  # longer than a path
    ],
    ids=range(15),
)
async def test_files_and_folders_are_found(index, project, query, expected, mock_clock):
    assert await search_index(index, query, project) == expected
    if query == "":
        assert await search_index(index, " ", project, limit=2) == "./ src/"


@pytest.mark.parametrize("gitignore", [True, False])
async def test_rules_hold_unless_they_are_off_and_are_reported_if_they_cannot_be_read(
    start, project, monkeypatch, gitignore, mock_clock
):
    if not gitignore:
        assert await search_index(start(gitignore=False), "out.py", project) == "build/out.py"
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != ".gitignore")
    problems: list[str] = []
    (project / "src" / ".gitignore").write_text("x\n")
    index = start(gitignore=gitignore, on_problem=problems.append)
    await index.search("main", limit=10)
    files = (project / ".gitignore", project / "src" / ".gitignore")
    expected = {f"Could not read `{file}`" for file in files if gitignore}
    assert {problem.partition(":")[0] for problem in problems} == expected
    assert len(problems) == len(expected)


@pytest.mark.parametrize("nested_first", [True, False])
async def test_files_of_nested_roots_count_once(
    start, project, monkeypatch, nested_first, mock_clock
):
    index = start(project, project / "src")
    assert await search_index(index, "py", project) == "src/main.py src/util/text.py"
    assert await search_index(index, "", project, limit=2) == "./ src/"
    monkeypatch.setattr(room, "_MOST_FILES", 8)
    outer = project / "outer"
    (outer / "inner").mkdir(parents=True)
    for number in range(4):
        (outer / f"{number}.py").touch()
        (outer / "inner" / f"{number}.py").touch()
    roots = [outer, outer / "inner"]
    index = start(*(reversed(roots) if nested_first else roots))
    assert len(await index.search(".py", limit=100)) == 8


async def test_a_root_that_git_ignores_is_listed_whole(start, project, mock_clock):
    (project / ".git").mkdir()
    assert await search_index(start(project, project / "build"), "out", project) == "build/out.py"


async def test_a_large_root_leaves_room_for_the_next_one(
    start, project, outside, monkeypatch, mock_clock
):
    monkeypatch.setattr(room, "_MOST_FILES", 4)
    assert await search_index(start(project, outside), "secret", outside) == "secret"
    matches = await start(outside, project).search("", limit=100)
    assert sum(not each.is_directory for each in matches) == 4


async def test_a_root_that_is_a_link_stays_as_the_user_opened_it(
    start, project, tmp_path, mock_clock
):
    (tmp_path / "alias").symlink_to(project)
    assert (
        await search_index(start(tmp_path / "alias"), "main", tmp_path / "alias") == "src/main.py"
    )
    index = start(tmp_path / "alias", project)  # two roots that are one directory
    assert await search_index(index, "main", tmp_path / "alias") == "src/main.py"


async def test_a_turned_link_takes_no_files_from_other_roots(
    start, project, outside, tmp_path, mock_clock
):
    alias = tmp_path / "alias"
    alias.symlink_to(project / "src")
    roots = [root_of(each) for each in (alias, project, project / "src")]
    alias.unlink()
    alias.symlink_to(outside)
    for present in (roots, roots[:2]):
        assert await search_index(start(*present), "main", project) == "src/main.py"


@pytest.mark.parametrize("kind", ["link", "folder"])
async def test_a_turned_root_has_no_files(start, project, mock_clock, outside, tmp_path, kind):
    root = project
    if kind == "link":
        root = tmp_path / "alias"
        root.symlink_to(project)
    (outside / "main.py").touch()
    index = start(root)
    if kind == "link":
        assert len(await index.search("main", limit=10)) == 1
        root.unlink()
    else:
        shutil.rmtree(root)
    root.symlink_to(outside)
    for _ in range(2):
        assert await index.search("main", limit=10) == []
        mock_clock.jump(10)
    assert index._has_all.is_set()


class Listings:
    """A counter of a folder's listings that pauses each before a chosen file until released.

    A thread that an earlier test has abandoned may begin to list that test's folder only now.
    """

    def __init__(self, folder: Path, hold_before: int = 0) -> None:
        self.folder = folder
        self.begun = 0
        self.is_held = False
        self.resume = threading.Event()
        self.resume.set()
        self.hold_before = hold_before

    def __call__(self, folder: Path, **arguments: Any) -> Iterator[str]:
        is_own = folder == self.folder
        self.begun += is_own
        for number, path in enumerate(list_files(folder, **arguments)):
            if is_own and number == self.hold_before:
                while not self.resume.wait(0.01):
                    self.is_held = True
                    arguments["checkpoint"]()
            yield path


@pytest.fixture
def listings(project: Path, monkeypatch: pytest.MonkeyPatch) -> Listings:
    listings = Listings(project.resolve())
    monkeypatch.setattr(room, "list_root", listings)
    return listings


class Search:
    """A search that runs while a test moves the clock."""

    def __init__(self, clock: trio.testing.MockClock) -> None:
        self._clock = clock
        self._matches: list[FileMatch] | None = None

    async def run(self, index: FileIndex, query: str) -> None:
        self._matches = await index.search(query, limit=10)

    async def has_ended_after(self, seconds: float) -> bool:
        await trio.testing.wait_all_tasks_blocked()
        self._clock.jump(seconds)
        await trio.testing.wait_all_tasks_blocked()
        return self._matches is not None

    async def matches(self) -> list[FileMatch]:
        while self._matches is None:
            await trio.lowlevel.checkpoint()
        return self._matches


@pytest.fixture
def started(nursery: trio.Nursery, mock_clock: trio.testing.MockClock) -> Callable[..., Search]:
    """Start searches of an index."""

    def start_search(index: FileIndex, query: str) -> Search:
        search = Search(mock_clock)
        nursery.start_soon(search.run, index, query)
        return search

    return start_search


async def test_a_search_waits_a_moment_for_a_renewal(start, project, mock_clock, listings, started):
    index = start()
    await index.search("new", limit=10)
    (project / "new").touch()
    mock_clock.jump(4.9)
    assert await index.search("new", limit=10) == []
    assert listings.begun == 1
    listings.resume.clear()
    mock_clock.jump(0.2)
    search = started(index, "new")
    assert not await search.has_ended_after(0.09)
    mock_clock.jump(0.02)
    assert await search.matches() == []
    assert await search_index(index, "main", project) == "src/main.py"
    listings.resume.set()
    while not await index.search("new", limit=10):
        await trio.lowlevel.checkpoint()
    assert listings.begun == 2
    (project / "newer").touch()
    mock_clock.jump(3600)  # a client that asks once gets the present files
    assert await search_index(index, "newer", project) == "newer"


async def test_a_search_is_abandoned_when_it_is_cancelled(index, monkeypatch, mock_clock):
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


async def test_removed_files_and_those_behind_a_new_link_are_no_matches(
    index, project, outside, mock_clock
):
    (project / "src" / "text").touch()
    (project / "src" / "util" / "secret").touch()
    (project / "text").mkdir()
    (project / "text" / "text.py").touch()
    assert len(await index.search("text", limit=10)) == 4
    assert len(await index.search("secret", limit=10)) == 1
    shutil.rmtree(project / "text")
    (project / "text").touch()
    (project / "src" / "text").unlink()
    assert await search_index(index, "text", project, limit=1) == "src/util/text.py"
    shutil.rmtree(project / "src" / "util")
    (project / "src" / "util").symlink_to(outside)
    assert await index.search("secret", limit=10) == []


@pytest.mark.parametrize("released", [True, False])
async def test_a_stored_listing_of_a_different_project_hides_nothing(
    start, project, mock_clock, listings, started, released
):
    folder = project.parent / "listings"
    different = catalogue_of([Entry(name, 0, False) for name in ("maine", "man")])
    StoredListings(folder, [root_of(project)]).save(different, gitignore=True)
    listings.resume.clear()
    search = started(start(stored_in=folder), "main")
    assert not await search.has_ended_after(0.9)
    if released:
        listings.resume.set()
    else:
        mock_clock.jump(0.2)
    expected = ["src/main.py"] if released else []
    assert names(await search.matches(), project) == expected


async def test_a_stored_listing_leads_to_nothing_outside_the_roots(
    start, project, outside, listings, mock_clock
):
    folder = project.parent / "listings"
    paths = [str(outside), "..", "../project", f"../{outside.name}", "src/../src", "src"]
    paths += ["/src", "src/", "./src", "src//main.py", 2000 * "src/" + "main.py"]
    kinds = [(root, is_directory) for root in (0, 1) for is_directory in (True, False)]
    stored = catalogue_of(Entry(path, *kind) for path in paths for kind in kinds)
    StoredListings(folder, [root_of(project)]).save(stored, gitignore=True)
    listings.resume.clear()
    index = start(stored_in=folder)
    index.stored_from = 1
    assert await search_index(index, "", project) == "./ src/"


async def test_a_slow_disk_gives_the_first_files(project, nursery, mock_clock, listings, started):
    listings.hold_before = 2
    listings.resume.clear()
    index = FileIndex([root_of(project)])
    index.first_part = 2
    nursery.start_soon(index.run)
    search, other = started(index, ""), started(index, "main")
    while not listings.is_held:
        await trio.lowlevel.checkpoint()
    mock_clock.jump(0.1)
    assert names((await search.matches())[1:], project) == ["README.md", ".gitignore"]
    assert not await other.has_ended_after(0.8)
    mock_clock.jump(0.1)
    assert await other.matches() == []
    listings.resume.set()
    while not await index.search("main", limit=10):
        await trio.lowlevel.checkpoint()
    assert listings.begun == 1
    nursery.cancel_scope.cancel()


async def test_the_first_search_waits_for_the_first_files(
    start, project, listings, started, mock_clock
):
    """The web page asks once, while it starts, and shows the answer until the user types."""
    listings.resume.clear()
    search = started(start(), "")
    assert not await search.has_ended_after(0.9)
    listings.resume.set()
    assert "README.md" in names((await search.matches())[1:], project)


async def test_a_first_search_uses_a_stored_listing(start, project, mock_clock, listings, started):
    folder = project.parent / "cache" / "listings"

    def start_stored() -> FileIndex:
        index = start(stored_in=folder)
        index.stored_from = 3
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

    await (first := start_stored()).search("main", limit=10)
    written = await until_stored("src/main.py", "src/util/text.py")
    while listings.begun < 3:  # then the second is stored, if it is
        mock_clock.jump(10)
        await first.search("main", limit=10)
    assert await until_stored("src/main.py", "src/util/text.py") == written
    (project / "src" / "main.py").unlink()
    (project / "new.py").touch()
    listings.resume.clear()
    index = start_stored()
    search = started(index, "py")  # it does not wait: the clock stands still
    assert names(await search.matches(), project) == ["src/util/text.py"]
    listings.resume.set()
    while len(await index.search("py", limit=10)) < 2:
        mock_clock.jump(0.1)  # the listing begins after the search
    assert await until_stored("new.py", "src/util/text.py") != written


async def test_a_setting_counts_from_the_next_listing(
    start, project, nursery, listings, tmp_path, mock_clock
):
    listings.resume.clear()
    second = tmp_path / "second"
    shutil.copytree(project, second)
    index = start(project, second, stored_in=tmp_path / "listings")
    index.stored_from = 1
    nursery.start_soon(partial(index.search, "x", limit=1))
    while not listings.begun:
        await trio.sleep(0)
    index.gitignore = False
    listings.resume.set()
    stored = StoredListings(tmp_path / "listings", [root_of(project), root_of(second)])
    while not (listed := await trio.to_thread.run_sync(partial(stored.load, gitignore=True))):
        await trio.sleep(0)
    assert listed.search("out.py", 1) == []


@pytest.mark.parametrize(
    ("place", "query"),
    [
        ((room.Workspace, "locate"), "/net/x"),
        ((room, "list_root"), "x"),
        ((StoredListings, "load"), "x"),
    ],
)
async def test_a_hung_disk_takes_no_thread(project, nursery, mock_clock, monkeypatch, place, query):
    entered, resume = threading.Semaphore(0), threading.Event()

    def hanging(*_: Any, **__: Any) -> Iterator[str]:
        entered.release()
        resume.wait()
        raise FileNotFoundError

    monkeypatch.setattr(*place, hanging)
    index = FileIndex([root_of(project)], stored_in=project.parent / "listings")
    nursery.start_soon(index.run)  # in the nursery that is cancelled below
    threads = trio.to_thread.current_default_thread_limiter()
    free = threads.available_tokens
    for _ in range(3):
        nursery.start_soon(partial(index.search, query, limit=1))
    await trio.to_thread.run_sync(entered.acquire)
    await trio.testing.wait_all_tasks_blocked()
    assert threads.available_tokens == free
    nursery.cancel_scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    resume.set()


async def test_an_index_without_roots_finds_nothing(nursery, mock_clock):
    index = FileIndex([])
    nursery.start_soon(index.run)
    assert await index.search("", limit=10) == await index.search("./", limit=10) == []
    nursery.cancel_scope.cancel()


async def test_a_typed_path_is_completed_with_composed_and_decomposed_characters(
    index, project, mock_clock
):
    for query, name in {"\xc9t": "e\u0301te\u0301", "\ud55c": "\u1112\u1161\u11ab"}.items():
        (project / name).touch()
        assert await search_index(index, f"./{query}", project) == name


async def test_a_directory_outside_is_listed_without_pipes_and_devices(
    index, outside, monkeypatch, mock_clock
):
    monkeypatch.setenv("HOME", str(outside))
    secret = [FileMatch(path=outside / "secret", is_directory=False)]
    for query in ("~", "~/", "~/sec", "../outside/", f"{outside}/", f"{outside}/se"):
        assert await index.search(query, limit=10) == secret
    os.mkfifo(outside / "pipe")
    for name, target in {"zero": "/dev/zero", "loop": "loop", "folder": "."}.items():
        (outside / name).symlink_to(target)
    assert await search_index(index, "../outside/", outside) == "folder/ secret"
    assert await search_index(index, "../outside/", outside, limit=1) == "folder/"
