"""The language of `.gitignore`: patterns compiled so that no pattern and no name takes long.

A hostile repository brings its own patterns. Python's regular expressions try every way to place
several `*`, and hold the interpreter meanwhile, so none of that is left to them: in a glob the
earliest place for what follows a `*` is always as good as a later one, and atomic groups and
possessive repeats hold the engine to it. Matching is linear in the name for each pattern.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Self

__all__ = ["Rules"]

_MOST_PATTERNS = 10_000
_LONGEST_PATTERN = 4096  # bytes; no path is longer
_BATCH = 500  # patterns of one regular expression
_WITHOUT_TRAILING_BLANKS = re.compile(rb"((?:\\.|[^\\])*?) *", re.DOTALL)
_MANY_STARS = re.compile(rb"(?<![^/])\*{3,}(?![^/])")
_ONE = b"[^/]"
_ONE_FOLLOWS = b"(?=[^/])"  # no name is empty
_PARENT = rb"(?:[^/]++/(?!\Z))"  # a directory above the entry itself
_NEVER = b"(?!)"
_CLASSES = {
    b"alnum": string.ascii_letters + string.digits,
    b"alpha": string.ascii_letters,
    b"blank": " \t",
    b"cntrl": "".join(map(chr, range(32))) + "\x7f",
    b"digit": string.digits,
    b"graph": string.ascii_letters + string.digits + string.punctuation,
    b"lower": string.ascii_lowercase,
    b"print": string.ascii_letters + string.digits + string.punctuation + " ",
    b"punct": string.punctuation,
    b"space": " \t\n\v\f\r",
    b"upper": string.ascii_uppercase,
    b"xdigit": string.hexdigits,
}


class _Unmatchable(ValueError):
    """A pattern that Git reads and that matches nothing."""


class Rules:
    """The patterns of one file, the last one first."""

    def __init__(self, patterns: Sequence[tuple[bytes, bool]]) -> None:
        self._batches: list[tuple[re.Pattern[bytes], list[bool]]] = []
        for start in range(0, len(patterns), _BATCH):
            batch = patterns[start : start + _BATCH]
            joined = b"|".join(b"(%s)" % regex for regex, _ in batch)
            self._batches.append((re.compile(joined, re.DOTALL), [each for _, each in batch]))

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The rules of a file's content; what is no pattern is left out."""
        return cls(list(islice(_patterns(data), _MOST_PATTERNS))[::-1])

    def __bool__(self) -> bool:
        return bool(self._batches)

    def verdict(self, path: bytes) -> bool | None:
        """Whether a path is ignored; None if no pattern speaks of it.

        Args:
            path: relative to the folder of the rules, with `/` between names, and behind a
                directory's. None of its parents is ignored.
        """
        for regex, ignored in self._batches:
            if found := regex.fullmatch(path):
                return ignored[(found.lastindex or 0) - 1]
        return None


def _patterns(data: bytes) -> Iterator[tuple[bytes, bool]]:
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if len(line) > _LONGEST_PATTERN or line.startswith(b"#"):
            continue
        trimmed = _WITHOUT_TRAILING_BLANKS.fullmatch(line.removesuffix(b"\r"))
        if trimmed is None:  # a backslash at its end escapes nothing
            continue
        glob = trimmed[1]
        ignored = not glob.startswith(b"!")
        try:
            yield _regex(glob if ignored else glob[1:]), ignored
        except _Unmatchable:
            continue


def _regex(glob: bytes) -> bytes:
    """A glob as a regular expression for a whole path, where directories end in `/`."""
    end = b"/?"
    if glob.endswith(b"/"):
        glob, end = glob[:-1], b"/"
    if not glob:
        raise _Unmatchable
    if b"/" not in glob:
        return _PARENT + b"*+" + _name(glob) + end
    names = _MANY_STARS.sub(b"**", glob).removeprefix(b"/").split(b"/")
    if names[-1] == b"**":
        return _below(names[:-1]) + (b".+" if end == b"/?" else b".+/")
    return _below(names[:-1]) + _name(names[-1]) + end


def _below(names: Sequence[bytes]) -> bytes:
    """Directories, each with its `/`; `**` among them is any number of them."""
    groups: list[list[bytes]] = [[]]
    for name in names:
        if name == b"**":
            groups.append([])
        else:
            groups[-1].append(_name(name) + b"/")
    first, *others = (b"".join(group) for group in groups)
    if not others:
        return first
    *middle, last = others
    anywhere = [b"(?>%s*?%s)" % (_PARENT, group) for group in middle]
    return first + b"".join(anywhere) + _PARENT + b"*" + last


def _name(glob: bytes) -> bytes:
    """A glob without `/` as a regular expression for one name; `**` beside others is a `*`."""
    chunks = [b""]
    at = 0
    while at < len(glob):
        character = glob[at : at + 1]
        at += 1
        if character == b"*":
            chunks.append(b"")
        elif character == b"?":
            chunks[-1] += _ONE
        elif character == b"[":
            regex, at = _character_class(glob, at)
            chunks[-1] += regex
        elif character == b"\\":
            if at == len(glob):
                raise _Unmatchable
            chunks[-1] += re.escape(glob[at : at + 1])
            at += 1
        else:
            chunks[-1] += re.escape(character)
    first, *others = chunks
    if not others:
        return first
    *middle, last = others
    steps = [b"(?>[^/]*?%s)" % chunk for chunk in middle if chunk]
    return _ONE_FOLLOWS + first + b"".join(steps) + b"[^/]*" + last


def _character_class(glob: bytes, at: int) -> tuple[bytes, int]:
    """The bytes between `[` and `]` as a regular expression, and where the glob goes on."""
    negated = glob[at : at + 1] in {b"!", b"^"}
    at += negated
    members: set[int] = set()
    start = at
    previous: int | None = None
    while at == start or glob[at : at + 1] != b"]":
        if named := re.match(rb"\[:([^]]*):\]", glob[at:]):
            if named[1] not in _CLASSES:
                raise _Unmatchable
            members |= set(_CLASSES[named[1]].encode())
            at += named.end()
            previous = None
        elif glob[at : at + 1] == b"-" and previous is not None and glob[at + 1 : at + 2] != b"]":
            last, at = _member(glob, at + 1)
            members |= set(range(previous, last + 1))
            previous = None
        else:
            previous, at = _member(glob, at)
            members.add(previous)
    found = (set(range(256)) - members if negated else members) - {ord("/")}
    regex = b"[%s]" % b"".join(b"\\x%02x" % each for each in sorted(found)) if found else _NEVER
    return regex, at + 1


def _member(glob: bytes, at: int) -> tuple[int, int]:
    at += glob[at : at + 1] == b"\\"
    if at >= len(glob):
        raise _Unmatchable
    return glob[at], at + 1
