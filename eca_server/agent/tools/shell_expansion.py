"""The expansion of braces and globs in a shell's words.

The rule of this module: the result contains every expansion that bash would produce. Otherwise
`Unsure` is raised.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator

import attrs

from eca_server.agent.tools.shell_syntax import UNKNOWN, Word

_MOST_WORDS = 200
_MOST_ENTRIES = 20_000
_MOST_MATCHES = 2_000
_LONGEST_NAME = 255
_SEQUENCE = re.compile(
    r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.(-?\d{1,9}))?", re.ASCII
)
_ODD_BRACKET = re.compile(r"\[(?=[^]]*(?:\[[.:=]|\\|-))")
_MAGIC = re.compile(r"[*?\[]")


class Unsure(Exception):
    """A word whose expansion only the shell knows; the message says why."""


def with_braces(word: Word) -> list[Word]:
    """Return the words that the braces of a word make; a word without braces makes itself.

    Raises:
        Unsure: there are too many, or they depend on quotes.
    """
    text = word.text
    if "{" not in word.active or "}" not in text or not ("," in text or ".." in text):
        return [word]
    if "{}" in text or not _is_balanced(text):
        raise Unsure("braces that do not come in pairs")
    if text.count("{") > _MOST_WORDS:
        raise Unsure(f"more than {_MOST_WORDS} pairs of braces")
    texts = _braced(word.text, _MOST_WORDS)
    if texts == [word.text]:
        return [word]
    if word.is_quoted or UNKNOWN in word.text:
        raise Unsure("braces in a word with quotes or expansions")
    return [attrs.evolve(word, text=text, nested=()) for text in texts]


def _is_balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += {"{": 1, "}": -1}.get(char, 0)
        if depth < 0:
            return False
    return depth == 0


def _braced(text: str, most: int) -> list[str]:
    """Expand the first valid pair of braces, and then the rest."""
    start = text.find("{")
    while start >= 0:
        parts, end = _parts(text, start)
        if parts:
            heads = [each for part in parts for each in _braced(part, most)]
            tails = _braced(text[end:], most)
            if len(heads) * len(tails) > most:
                raise Unsure(f"braces that make more than {most} words")
            return [text[:start] + head + tail for head in heads for tail in tails]
        start = text.find("{", start + 1)
    return [text]


def _parts(text: str, start: int) -> tuple[list[str], int]:
    """Return the alternatives of the braces at `start`, and their end; none: plain text."""
    depth, begin = 0, start + 1
    parts: list[str] = []
    for at in range(start, len(text)):
        char = text[at]
        if char == "{":
            depth += 1
        elif char == "," and depth == 1:
            parts.append(text[begin:at])
            begin = at + 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                if parts:
                    return [*parts, text[begin:at]], at + 1
                return _sequence(text[begin:at]), at + 1
    if parts:
        raise Unsure("braces that may not be closed")
    return [], start


def _sequence(text: str) -> list[str]:
    match = _SEQUENCE.fullmatch(text)
    if match is None:
        if ".." in text:
            raise Unsure("braces with `..` that may be a sequence")
        return []
    first, last = match[1], match[2]
    if first.isalpha() != last.isalpha():
        return []
    if first.isalpha():
        low, high = sorted((ord(first), ord(last)))
        return list(map(chr, range(low, high + 1)))
    low, high = sorted((int(first), int(last)))
    if high - low >= _MOST_WORDS:
        raise Unsure(f"braces that make more than {_MOST_WORDS} words")
    width = max(len(first), len(last)) if "0" in {first.lstrip("-")[0], last.lstrip("-")[0]} else 0
    numbers = [str(number) for number in range(low, high + 1)]
    return [*numbers, *(number.zfill(width) for number in numbers if width)]


def matches_parent(part: str) -> bool:
    """Return True if a glob may match `..`, as `.*` and `.?` do in many shells."""
    if not part.startswith(".") or part == ".." or not _MAGIC.search(part):
        return False
    if len(part) > _LONGEST_NAME or _ODD_BRACKET.search(part):
        return True
    return fnmatch.fnmatchcase("..", part.replace("[^", "[!"))


def glob_matches(path: str) -> list[str]:
    """Return the files that an absolute glob may match now; read the disk.

    Raises:
        Unsure: there are too many files.
    """
    parts = path.split("/")
    first = next((at for at, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    paths = ["/".join(parts[:first]) or "/"]
    entry_count = 0
    for part in parts[first:]:
        if not _MAGIC.search(part):
            paths = [f"{each}/{part}" for each in paths]
            continue
        matches: list[str] = []
        for folder in paths:
            for name in _names(folder):
                entry_count += 1
                if entry_count > _MOST_ENTRIES:
                    raise Unsure("a glob over too many files")
                if _may_match(name, part):
                    matches.append(f"{folder}/{name}")
        paths = matches
    if len(paths) > _MOST_MATCHES:
        raise Unsure("a glob that matches too many files")
    return [each for each in paths if os.path.lexists(each)]


def _names(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry.name for entry in entries)
    except OSError:
        return


def _may_match(name: str, part: str) -> bool:
    if name.startswith(".") and not part.startswith("."):
        return False
    pattern = re.sub(r"\[.*\]", "*", part) if _ODD_BRACKET.search(part) else part
    return fnmatch.fnmatchcase(name, pattern.replace("[^", "[!"))
