"""The file index on a repository of 100,000 files, beside `git ls-files` itself.

Bound: an answer within 200 ms while the index is being built, and at the start of a server whose
predecessor has stored its listing, the first `chat/queryContext` included; 300 ms with a stored
listing of 1,000,000 files. Where nothing is stored yet, the first matches may be of the files
listed so far. The delay is how much later than asked a sleeping task of the same loop woke up, at
worst.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import trio
from report import Row, at_most, clock_of, machine, print_table
from rig import BareClient, rig

from eca_protocol.server.roots import Root
from eca_server.system.threads import SWITCH_SECONDS
from eca_server.workspace.catalogue import Catalogue, Entry
from eca_server.workspace.index import FileIndex
from eca_server.workspace.stored_listings import StoredListings
from tests.eca_server.workspace.conftest import catalogue_of

WORDS = ["alpha", "beta", "gamma", "delta", "users", "models", "views", "client", "server", "index"]
BOUND = 0.2
MILLION_BOUND = 0.3
QUERIES = ["u", "models", "users/models", "usersmod7", "delta_views_7.py", "nothing-like-it"]
SERVERS = 3
LISTINGS = ("--cached", "--others")


def make_repository(folder: Path) -> None:
    for number, (first, second) in enumerate(product(WORDS, repeat=2)):
        for package in range(50):
            directory = folder / first / second / f"package{number * 50 + package}"
            directory.mkdir(parents=True)
            for file, word in product(range(2), WORDS):
                (directory / f"{first}_{word}_{file}.py").touch()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "."], cwd=folder, check=True)


def list_by_git(folder: Path) -> None:
    for kind in LISTINGS:
        command = ["git", "ls-files", "-z", kind, "--exclude-standard"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


class Delay:
    """The worst delay of the loop since it was last asked for."""

    def __init__(self) -> None:
        self._worst = 0.0

    async def watch(self) -> None:
        while True:
            began = time.perf_counter()
            await trio.sleep(0.002)
            self._worst = max(self._worst, time.perf_counter() - began - 0.002)

    def taken(self) -> float:
        worst, self._worst = self._worst, 0.0
        return worst


async def timed(index: FileIndex, query: str) -> tuple[float, int]:
    began = time.perf_counter()
    matches = await index.search(query, limit=200)
    return time.perf_counter() - began, len(matches)


def a_million(existing: Catalogue) -> Iterator[Entry]:
    """Yield the existing files, and those that an old listing of a large workspace could have."""
    yield from existing.matches("")
    for number, (package, first, second) in enumerate(product(range(10_000), WORDS, WORDS)):
        path = f"{first}/{WORDS[package % 10]}/package{package}/{second}_{number % 7}.py"
        yield Entry(path, 0, False)


async def until_stored(folder: Path) -> None:
    while not list(folder.glob("[!.]*")):
        await trio.sleep(0.01)


async def seconds_from_storage(root: Root, folder: Path) -> float:
    """Return the seconds of the first search of an index that finds a stored listing."""
    async with trio.open_nursery() as nursery:
        index = FileIndex([root], stored_in=folder)
        nursery.start_soon(index.run)
        seconds, _ = await timed(index, "client")
        nursery.cancel_scope.cancel()
    return seconds


async def measure(folder: Path, stored: Path) -> list[Row]:
    root = Root(name="", uri="", path=folder, real_path=folder)
    by_git = clock_of(lambda: list_by_git(folder))
    floor = min(by_git() for _ in range(3))
    index = FileIndex([root], stored_in=stored)
    delay = Delay()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(index.run)
        nursery.start_soon(delay.watch)
        began = time.perf_counter()
        first, _ = await timed(index, "client")
        while_built = first
        last_of_all = "package4999"
        while not (await timed(index, last_of_all))[1]:
            while_built = max(while_built, (await timed(index, "client"))[0])
        built = time.perf_counter() - began
        delay_of_building = delay.taken()
        warm = {query: min([await timed(index, query) for _ in range(3)]) for query in QUERIES}
        delay_of_searching = delay.taken()
        await until_stored(stored)
        nursery.cancel_scope.cancel()
    from_storage = [await seconds_from_storage(root, stored) for _ in range(SERVERS)]
    listings = StoredListings(stored, [root])
    million = catalogue_of(a_million(listings.load(gitignore=True)))
    listings.save(million, gitignore=True)
    from_a_million = [await seconds_from_storage(root, stored) for _ in range(SERVERS)]
    warm_rows = [
        (repr(query), f"{seconds * 1e3:.1f}", str(n)) for query, (seconds, n) in warm.items()
    ]
    print_table("A search once the index is built", ("query", "ms", "found"), warm_rows)
    print_table(
        "Listing 100,000 files",
        ("what", "ms", "x git"),
        [
            ("git ls-files, twice", f"{floor * 1e3:.0f}", "1.00"),
            ("the index, searched meanwhile", f"{built * 1e3:.0f}", f"{built / floor:.2f}"),
        ],
    )
    worst = max(seconds for seconds, _ in warm.values())
    measured = {
        "the first search, nothing stored": first,
        "the first search, worst of those from a stored listing": max(from_storage),
        "a search while the index is built": while_built,
        "a search": worst,
        "delay of the loop, building": delay_of_building,
        "delay of the loop, searching": delay_of_searching,
    }
    rows = [row(f"{what}, 100,000 files", seconds) for what, seconds in measured.items()]
    what = "the first search from a stored listing, 1,000,000 files, worst"
    return [*rows, row(what, max(from_a_million), MILLION_BOUND)]


def row(what: str, seconds: float, bound: float = BOUND) -> Row:
    return at_most(what, seconds * 1e3, bound * 1e3, " ms", digits=0)


def queries(client: BareClient) -> list[float]:
    """Seconds until each of the first queries was answered, one after the other."""
    method = "chat/queryContext"
    return [
        clock_of(partial(client.request, method, {"query": query, "contexts": []}))()
        for query in QUERIES
    ]


def main() -> list[Row]:
    print(machine("trio"))
    sys.setswitchinterval(SWITCH_SECONDS)
    with tempfile.TemporaryDirectory() as temporary, rig() as here:
        folder = Path(temporary).resolve() / "files"
        make_repository(folder)
        rows = trio.run(measure, folder, folder.with_name("stored"))
        with here.server(root=here.folder) as client:
            queries(client)  # compiles the modules, as an installation does
        with here.server(root=folder) as client:
            first_of_all, *_ = queries(client)
            trio.run(until_stored, here.folder / ".cache" / "eca-python" / "listings")
        first, others = [], []
        for _ in range(SERVERS):
            with here.server(root=folder) as client:
                wait, *rest = queries(client)
            first.append(wait)
            others += rest
    return [
        *rows,
        row("the first chat/queryContext, nothing stored", first_of_all),
        row(f"the first chat/queryContext of the next {SERVERS} servers, worst", max(first)),
        row("the queries right behind it, worst", max(others)),
    ]
