"""A listing of files and directories: how it is searched, and its stored form.

It holds long texts and arrays in place of an object for each file, so that a listing of a million
files is small, and can be searched soon after it was read from a disk.
"""

from __future__ import annotations

import re
import sys
import zlib
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice
from typing import Final, NamedTuple, TypeAlias

from eca_server.workspace.opening import folded

_CHUNK = 4_096  # entries searched in one call, which holds the interpreter
_JOINED = 256  # paths of one length that are collected in one text
_MAGIC: Final = f"eca listing 2 {sys.byteorder} {array('I').itemsize}\n".encode()
_ENCODING: Final = ("utf-8", "surrogatepass")  # names that are not UTF-8 have lone surrogates

_Finder: TypeAlias = Callable[[str, int], int]
"""A function from a text and a start to the position of a match; negative: no match."""


class Entry(NamedTuple):
    """A file or a directory.

    Attributes:
        path: relative to its root, with `/`.
        root: the index of the root.
    """

    path: str
    root: int
    is_directory: bool


class _Texts:
    """Texts joined to one, each between two NULs, which no path contains."""

    def __init__(self, joined: str) -> None:
        self.joined = joined

    @classmethod
    def join(cls, texts: Iterable[str]) -> _Texts:
        """Join texts."""
        return cls("\0".join(["", *texts, ""]))

    @cached_property
    def starts(self) -> array[int]:
        """The position of the NUL before each text, and of the last NUL."""
        lengths = (len(text) + 1 for text in self.joined.split("\0")[1:-1])
        return array("I", accumulate(lengths, initial=0))

    def has(self, count: int) -> bool:
        """Return True if these are `count` texts."""
        is_joined = self.joined.startswith("\0") and self.joined.endswith("\0")
        return is_joined and self.joined.count("\0") == count + 1

    def __getitem__(self, number: int) -> str:
        return self.joined[self.starts[number] + 1 : self.starts[number + 1]]

    def matches(self, find: _Finder) -> Iterator[int]:
        """Yield the indexes of the texts with a match."""
        at = find(self.joined, 0)
        while at >= 0:
            number = bisect_right(self.starts, at) - 1
            yield number
            at = find(self.joined, self.starts[number + 1])


class _Chunk:
    """Entries that are searched in one call.

    Attributes:
        kinds: of each entry, twice the index of its root, plus 1 for a directory.
        names: the last names of the paths, folded.
    """

    def __init__(self, kinds: array[int], paths: _Texts, names: _Texts) -> None:
        self.kinds = kinds
        self.paths = paths
        self.names = names

    @cached_property
    def folded(self) -> _Texts:
        """The folded paths; made when names are not enough."""
        return _Texts(folded(self.paths.joined))

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> _Chunk:
        """Make a chunk of entries."""
        kinds = array("I", (2 * entry.root + entry.is_directory for entry in entries))
        names = [folded(entry.path.rpartition("/")[2]) for entry in entries]
        return cls(kinds, _Texts.join([entry.path for entry in entries]), _Texts.join(names))

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, number: int) -> Entry:
        kind = self.kinds[number]
        return Entry(self.paths[number], kind >> 1, bool(kind & 1))

    def to_parts(self) -> Iterator[bytes]:
        """Yield the stored form."""
        texts = [each.joined.encode(*_ENCODING) for each in (self.paths, self.names)]
        yield array("I", (len(self), *map(len, texts))).tobytes()
        yield self.kinds.tobytes()
        yield from texts

    @classmethod
    def read(cls, stored: _Reader) -> _Chunk:
        """Read the stored form.

        Raises:
            ValueError: it is none.
        """
        count, *lengths = stored.numbers(3)
        kinds = stored.numbers(count)
        paths, names = (_Texts(stored.text(length)) for length in lengths)
        if not 0 < count == len(kinds) <= _CHUNK or not (paths.has(count) and names.has(count)):
            raise ValueError("the parts of the listing disagree")
        return cls(kinds, paths, names)


class Collection:
    """Entries while they are collected for a catalogue, those of one length in long texts."""

    def __init__(self) -> None:
        self._texts: defaultdict[int, _Alike] = defaultdict(_Alike)
        self._count = 0

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        text = entry.path + chr(2 * entry.root + entry.is_directory)
        self._texts[len(text)].add(text)
        self._count += 1

    def __len__(self) -> int:
        """Return the number of added entries, repeated ones included."""
        return self._count

    def ordered(self, *, drains: bool = False) -> Iterator[Entry]:
        """Yield each entry once, by length, then by path; `drains`: forget those of each length.

        They are sorted in short sorts: a long one would hold all threads.
        """
        for length in sorted(self._texts):
            last = ""
            for text in (self._texts.pop(length) if drains else self._texts[length]).sorted(length):
                if text != last:
                    kind = ord(text[-1])
                    yield Entry(text[:-1], kind >> 1, bool(kind & 1))
                last = text


class _Alike:
    """Texts of one length, most of them joined."""

    def __init__(self) -> None:
        self._joined: list[str] = []
        self._latest: list[str] = []

    def add(self, text: str) -> None:
        self._latest.append(text)
        if len(self._latest) == _JOINED:
            self._joined.append("".join(self._latest))
            self._latest.clear()

    def sorted(self, length: int) -> list[str]:
        texts = [*self._latest]
        for joined in self._joined:
            texts += [joined[at : at + length] for at in range(0, len(joined), length)]
        texts.sort()
        return texts


class Catalogue:
    """An immutable listing that can be searched.

    Args:
        entries: ordered as by `Collection.ordered`.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._chunks = [*_chunks(iter(entries))]

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def to_bytes(self) -> bytes:
        """Return the stored form, which this machine can read."""
        parts = [part for chunk in self._chunks for part in chunk.to_parts()]
        return b"".join([_MAGIC, _checksum(parts), *parts])

    @classmethod
    def from_bytes(cls, data: bytes) -> Catalogue:
        """Return the listing of a stored form; its entries may lie outside the roots.

        Raises:
            ValueError: the data are something else, or damaged.
        """
        stored = _Reader(data)
        if stored.piece(len(_MAGIC)) != _MAGIC:
            raise ValueError("not a listing of this version and machine")
        checksum = stored.piece(4)
        if checksum != _checksum([stored.rest]):
            raise ValueError("the listing is damaged")
        catalogue = cls()
        while stored.rest:
            catalogue._chunks.append(_Chunk.read(stored))
        return catalogue

    def search(self, query: str, limit: int) -> list[Entry]:
        """Return the first entries of `matches`."""
        return list(islice(self.matches(query), limit))

    def matches(self, query: str) -> Iterator[Entry]:
        """Yield the entries that match, best first; a blank query matches all.

        The order: the name is the query, the name begins with it, the name contains it, the path
        contains it, the path has its letters in this order. Among equals the shorter path comes
        first. Neither case nor the composition of characters matters.
        """
        query = folded(query.strip())
        return self._ranked(query) if query else self._all()

    def _all(self) -> Iterator[Entry]:
        return (chunk[number] for chunk in self._chunks for number in range(len(chunk)))

    def _ranked(self, query: str) -> Iterator[Entry]:
        yielded: set[int] = set()
        for in_names, find in _tiers(query):
            for number, chunk in enumerate(self._chunks):
                texts = chunk.names if in_names else chunk.folded
                for match in texts.matches(find):
                    position = number * _CHUNK + match
                    if position not in yielded:
                        yielded.add(position)
                        yield chunk[match]


class _Reader:
    """Stored data that are read piece by piece."""

    def __init__(self, data: bytes) -> None:
        self.rest = memoryview(data)

    def piece(self, length: int) -> memoryview:
        piece, self.rest = self.rest[:length], self.rest[length:]
        return piece

    def numbers(self, count: int) -> array[int]:
        numbers = array("I")
        numbers.frombytes(self.piece(count * numbers.itemsize))
        return numbers

    def text(self, length: int) -> str:
        return str(self.piece(length), *_ENCODING)


def _chunks(ordered: Iterator[Entry]) -> Iterator[_Chunk]:
    while part := list(islice(ordered, _CHUNK)):
        yield _Chunk.of(part)


def _checksum(parts: Iterable[bytes | memoryview]) -> bytes:
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return value.to_bytes(4, "big")


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
