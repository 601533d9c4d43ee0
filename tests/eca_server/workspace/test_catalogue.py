import errno
import os
from array import array
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eca_server.workspace import catalogue as catalogues
from eca_server.workspace.catalogue import Catalogue, Entry
from eca_server.workspace.stored_listings import StoredListings
from tests.eca_server.workspace.conftest import catalogue_of, root_of


def catalogue(paths: Sequence[str]) -> Catalogue:
    return catalogue_of([Entry(path, 0, False) for path in paths])


def search(paths: Sequence[str], query: str) -> list[str]:
    return [entry.path for entry in catalogue(paths).search(query, 100)]


def test_the_better_a_path_fits_the_earlier_it_comes():
    paths = ["m/a/i/n", "src/xmain", "main/other/file", "src/mainly", "src/b/main", "c/main", "x"]
    ordered = ["c/main", "src/b/main", "src/mainly", "src/xmain", "main/other/file", "m/a/i/n"]
    assert search(paths, "main") == ordered
    assert search(["src/foo/b", "src/foo", "foo"], "src/foo/") == ["src/foo/b"]
    assert search(["user_model.py", "model_user.py"], " user model ") == ["user_model.py"]
    assert search(["a", "b"], "\0") == search(["a", "b"], "a\0b") == []


def test_the_composition_of_characters_does_not_matter():
    composed, decomposed = "b\u00fc/\u00c9t\u00e9\u1e9e", "bu\u0308/E\u0301te\u0301\u1e9e"
    for query in (composed, decomposed, "\u00c9T", "e\u0301t", "\u00fc/"):
        assert search([decomposed], query) == [decomposed]
        assert search([composed], query) == [composed]


def rank(path: str, query: str) -> int | None:
    """Return the rank of a path by a simple, slow implementation."""

    def has_letters(text: str) -> bool:
        rest = iter(text)
        return all(letter in rest for letter in "".join(query.split()))

    path, query = path.casefold(), query.strip().casefold()
    if not query:
        return 0
    name = path if "/" in query else path.rpartition("/")[2]
    tests = [
        name == query,
        name.startswith(query),
        query in name,
        query in path,
        has_letters(name),
        has_letters(path),
    ]
    return next((number for number, fits in enumerate(tests) if fits), None)


letters = st.text("abA/1ß. \n\udcff", max_size=6)


def is_relative(path: str) -> bool:
    return not path.startswith("/") and ".." not in path.split("/")


relative = st.text("abA/1ß. \n\udcff", min_size=1, max_size=8).filter(is_relative)


@given(
    paths=st.lists(relative, max_size=30, unique=True),
    query=letters,
    limit=st.integers(0, 10),
    chunk=st.integers(1, 5),
)
@example(paths=["b", "a"], query="", limit=5, chunk=1)
def test_the_search_is_the_plain_one_only_quicker(paths, query, limit, chunk):
    fitting = [(rank(path, query), len(path), path) for path in paths]
    expected = [path for number, _, path in sorted(each for each in fitting if each[0] is not None)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogues, "_CHUNK", chunk)
        listed = catalogue(paths)
        for each in (listed, Catalogue.from_bytes(listed.to_bytes())):
            assert [entry.path for entry in each.search(query, limit)] == expected[:limit]


entries = st.builds(
    Entry,
    path=st.text("ab/ß.\udcff", max_size=9).filter(is_relative),
    root=st.integers(0, 9),
    is_directory=st.booleans(),
)


@given(st.lists(entries, max_size=9), st.integers(0, 10_000), st.integers(0, 7))
def test_a_stored_form_is_the_listing_or_an_error(listed, at, bit):
    stored = catalogue_of(listed).to_bytes()
    assert sorted(Catalogue.from_bytes(stored).search("", 10)) == sorted(set(listed))
    damaged = bytearray(stored)
    damaged[at % len(stored)] ^= 1 << bit
    for data in (bytes(damaged), stored[: at % len(stored)], b""):
        with pytest.raises(ValueError, match="listing"):
            Catalogue.from_bytes(data)


def forged(*parts: bytes | tuple[int, ...]) -> bytes:
    """Return a stored form with a valid checksum."""
    data = [part if isinstance(part, bytes) else array("I", part).tobytes() for part in parts]
    return b"".join([catalogues._MAGIC, catalogues._checksum(data), *data])


@pytest.mark.parametrize(
    "data",
    [
        forged((0, 1, 1), b"\0" * 2),
        forged((1, 6, 6), (), b"\0abcd\0" * 2),
        forged((1, 6, 5), (0,), b"\0abcd\0" * 2),
        forged((1, 6, 6), (0,), b"\0abcd\0", b"\0ab\0d\0"),
        forged((1, 6, 6), (0,), b"\0ab\0d\0", b"\0abcd\0"),
        forged((1, 6, 6), (0,), b"\0abcde\0abcd\0"),
        forged((1, 6, 6), (0,), b"\0ab\xff\xff\0" * 2),
        forged((2, 6, 6), (0, 0), b"\0abcd\0" * 2),
        forged((2**32 - 1, 2**32 - 1, 0), b"abcd"),
        forged(b"a"),
    ],
    ids=lambda data: f"{len(data)} bytes",
)
def test_a_forged_listing_counts_as_absent(tmp_path, data):
    with pytest.raises(ValueError):
        Catalogue.from_bytes(data)
    stored = StoredListings(tmp_path, [root_of(tmp_path)])
    stored.save(catalogue(["a"]), gitignore=True)
    (file,) = tmp_path.glob("[!.]*")
    assert len(stored.load(gitignore=True)) == 1
    file.write_bytes(data)
    assert len(stored.load(gitignore=True)) == 0


def test_only_changed_listings_are_written_and_the_oldest_are_forgotten(tmp_path):
    listed = [catalogue(["a"]), catalogue(["a", "b"])]
    folder = tmp_path / "listings"

    def at(number: int) -> StoredListings:
        return StoredListings(folder, [root_of(tmp_path / str(number))])

    def newest() -> Path:
        return max(folder.glob("[!.]*"), key=lambda file: file.stat().st_mtime)

    for number in range(20):
        at(number).save(listed[0], gitignore=True)
        os.utime(newest(), (number, number))
    (folder / ".abandoned").touch()
    os.utime(folder / ".abandoned", (0, 0))
    last = at(19)
    before = newest().stat().st_ino
    assert len(last.load(gitignore=True)) == 1
    last.save(listed[0], gitignore=True)
    assert newest().stat().st_ino == before
    last.save(listed[1], gitignore=True)
    assert newest().stat().st_ino != before
    assert len(last.load(gitignore=True)) == 2
    assert len(last.load(gitignore=False)) == len(at(0).load(gitignore=True)) == 0
    assert [each.name for each in folder.glob(".*")] == [".gitignore"]
    assert len(list(folder.glob("[!.]*"))) == 16


@pytest.mark.parametrize("fault", ["removed", "damaged", "replaced", "a folder", "a pipe", "full"])
def test_a_listing_is_written_unless_the_disk_has_it(tmp_path, monkeypatch, fault):
    stored, different = (StoredListings(tmp_path, [root_of(tmp_path)]) for _ in range(2))
    stored.save(catalogue(["a"]), gitignore=True)
    (file,) = tmp_path.glob("[!.]*")
    if fault == "damaged":
        file.write_bytes(file.read_bytes()[:-1])
    elif fault == "replaced":
        different.save(catalogue(["b"]), gitignore=True)
    else:
        file.unlink()
    if fault == "a folder":
        file.mkdir()
    elif fault == "a pipe":
        os.mkfifo(file)
    elif fault == "full":
        monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "full")))
    if fault != "replaced":
        assert len(stored.load(gitignore=True)) == 0
    stored.save(catalogue(["a"]), gitignore=True)
    is_possible = fault in {"removed", "damaged", "replaced", "a pipe"}
    paths = [each.path for each in stored.load(gitignore=True).search("", 2)]
    assert paths == (["a"] if is_possible else [])
