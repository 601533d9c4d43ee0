"""The patterns of `.gitignore`, compiled so that matching takes linear time.

A hostile repository brings its own patterns. Python's regular expressions backtrack over every
position of several `*`, and hold the interpreter meanwhile. In a glob the earliest match behind a
`*` is always as good as a later one, so atomic groups and possessive repeats suppress the
backtracking. Each pattern is matched in time linear in the length of the name. No group has a
possessive repeat: Python before 3.11.5 consumes what the last repetition failed to match.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Self

_MOST_PATTERNS = 10_000
_LONGEST_PATTERN = 4096  # bytes, as of a path
_BATCH = 500  # patterns in one regular expression
_WITHOUT_TRAILING_BLANKS = re.compile(rb"((?:\\.|[^\\])*?) *", re.DOTALL)
_MANY_STARS = re.compile(rb"(?<![^/])\*{3,}(?![^/])")
_ONE = b"[^/]"
_ONE_FOLLOWS = b"(?=[^/])"  # a name is never empty
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
    """A valid pattern that matches nothing."""


class Rules:
    """The patterns of one file, in reverse order."""

    def __init__(self, patterns: Sequence[tuple[bytes, bool]]) -> None:
        self._batches: list[tuple[re.Pattern[bytes], list[bool]]] = []
        for start in range(0, len(patterns), _BATCH):
            batch = patterns[start : start + _BATCH]
            joined = b"|".join(b"(%s)" % regex for regex, _ in batch)
            self._batches.append((re.compile(joined, re.DOTALL), [each for _, each in batch]))

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse the content of a file; skip invalid patterns."""
        return cls(list(islice(_patterns(data), _MOST_PATTERNS))[::-1])

    def __bool__(self) -> bool:
        return bool(self._batches)

    def verdict(self, path: bytes) -> bool | None:
        """Return True if a path is ignored, False if it is included again, None without a match.

        Args:
            path: relative to the directory of the rules, with `/`, and with a final `/` for a
                directory. None of its parents is ignored.
        """
        for regex, ignored in self._batches:
            if match := regex.fullmatch(path):
                return ignored[(match.lastindex or 0) - 1]
        return None


def _patterns(data: bytes) -> Iterator[tuple[bytes, bool]]:
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if len(line) > _LONGEST_PATTERN or line.startswith(b"#"):
            continue
        trimmed = _WITHOUT_TRAILING_BLANKS.fullmatch(line.removesuffix(b"\r"))
        if trimmed is None:  # it ends in a backslash, which escapes nothing
            continue
        glob = trimmed[1]
        ignored = not glob.startswith(b"!")
        try:
            yield _regex(glob if ignored else glob[1:]), ignored
        except _Unmatchable:
            continue


def _regex(glob: bytes) -> bytes:
    """Return a regular expression for a whole path, where directories end in `/`."""
    end = b"/?"
    if glob.endswith(b"/"):
        glob, end = glob[:-1], b"/"
    if not glob:
        raise _Unmatchable
    if b"/" not in glob:
        return b"(?>%s*)" % _PARENT + _name(glob) + end
    names = _MANY_STARS.sub(b"**", glob).removeprefix(b"/").split(b"/")
    if names[-1] == b"**":
        return _below(names[:-1]) + (b".+" if end == b"/?" else b".+/")
    return _below(names[:-1]) + _name(names[-1]) + end


def _below(names: Sequence[bytes]) -> bytes:
    """Return a regular expression for directories, each with its `/`; `**` is any number."""
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
    """Return a regular expression for one name; `**` beside other characters is a `*`."""
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
    """Return a regular expression for a `[...]`, and the position behind the `]`."""
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
    matching = (set(range(256)) - members if negated else members) - {ord("/")}
    codes = b"".join(b"\\x%02x" % each for each in sorted(matching))
    regex = b"[%s]" % codes if matching else _NEVER
    return regex, at + 1


def _member(glob: bytes, at: int) -> tuple[int, int]:
    at += glob[at : at + 1] == b"\\"
    if at >= len(glob):
        raise _Unmatchable
    return glob[at], at + 1
