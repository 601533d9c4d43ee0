"""Lines that match a regular expression, in files: what is searched, and the search itself.

The rule it keeps: no pattern and no file takes the process with it. Files are read in pieces, a
pattern has a time limit for each line, and what is binary counts as having no lines.

Everything here that touches the disk belongs into a worker thread.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from eca_server.config.matchers import BadMatcher, compile_matcher
from eca_server.tools.output import cut_mark
from eca_server.tools.tool import ToolFault
from eca_server.workspace import Checkpoint, Directory, FileError
from eca_server.workspace.descent import Descent
from eca_server.workspace.gitignore import Rules
from eca_server.workspace.reading import open_regular

if TYPE_CHECKING:
    import regex

__all__ = [
    "LARGEST_SEARCHED",
    "MOST_FOUND",
    "Found",
    "Include",
    "Pattern",
    "confirmed",
    "search",
    "shown",
]

LARGEST_SEARCHED = 10 * 1024 * 1024
"""Bytes of a file that is searched if it was not named itself."""

MOST_FOUND = 20_000
"""Lines that are looked for; a file with more of them is left after one more."""

_PIECE = 1 << 20
_LONGEST_LINE = 16 * 1024 * 1024
_SECONDS = 0.3  # for one line; a stop may have to wait as long
_SHOWN = 400  # characters of a line
_BEFORE = 100  # of them before the match, if the line is longer
_ALTERNATIVES = 100
_BRACES = re.compile(r"\{([^{}]*)\}")
_PLAIN_NAME = re.compile(r"[\w.*?+@~ -]+")
_LINE_BOUND = re.compile(r"\\[AZzGK]|\(\?[^:i]|[*+?}]\+")


class Found(NamedTuple):
    """A line that matches.

    Attributes:
        path: the file, relative to what was searched.
        line: its number, from 1.
        text: as much of it as is shown.
    """

    path: str
    line: int
    text: str


class Pattern:
    """A regular expression that matches within one line.

    Args:
        text: as the model wrote it.

    Raises:
        ToolFault: it is none, or too large.
    """

    def __init__(self, text: str) -> None:
        if not text or "\0" in text:
            raise ToolFault(f"pattern: expected a regular expression, got {text!r}.")
        self.text = text
        try:
            text.encode()
            self._line = compile_matcher(text)
            self._lines = compile_matcher(f"(?m){text}")
        except (BadMatcher, UnicodeEncodeError) as fault:
            raise ToolFault(f"pattern: {fault}.") from fault
        # If a line matches alone, it matches among others too, but for what is said about them.
        self._skips = _LINE_BOUND.search(text) is None

    def may_match(self, text: str) -> bool:
        """Whether any of the lines of a text can match; this is quick if none does."""
        if self._skips:
            try:
                return self._lines.search(text, timeout=_SECONDS) is not None
            except TimeoutError:
                self._skips = False
        return True

    def find(self, line: str) -> int | None:
        """Where the first match in a line starts.

        Raises:
            TimeoutError: it takes too long.
        """
        found: regex.Match[str] | None = self._line.search(line, timeout=_SECONDS)
        return None if found is None else found.start()


class Include:
    """Which files are searched, by a glob; None: all.

    A glob is Git's: without `/` it is for a file's name wherever the file is, else for its path
    below what is searched; `**` is any number of directories, `{a,b}` is a or b; behind `!` it
    says what is not searched.

    Raises:
        ToolFault: it has too many alternatives.
    """

    def __init__(self, glob: str | None) -> None:
        self._excludes = glob is not None and glob.startswith("!")
        globs = [] if glob is None else _alternatives(glob.removeprefix("!").removeprefix("./"))
        globs = [each + "**" * each.endswith("/") for each in globs]
        self._rules = None if glob is None else Rules.parse(os.fsencode("\n".join(globs)))
        names = [each.rpartition("/")[2] for each in globs]
        plain = all(_PLAIN_NAME.fullmatch(name) and "**" not in name for name in names)
        self.names: tuple[str, ...] = tuple(names) if plain and not self._excludes else ()
        """Globs for the names alone that every searched file fits; empty: nothing is said."""

    def wants(self, path: str) -> bool:
        """Whether a file is searched; the path is relative to what is searched."""
        if self._rules is None:
            return True
        return (self._rules.verdict(os.fsencode(path)) is True) is not self._excludes


def _alternatives(glob: str) -> list[str]:
    pending, complete = [glob], list[str]()
    while pending:
        each = pending.pop()
        braces = _BRACES.search(each)
        if braces is None:
            complete.append(each)
        else:
            ends = each[: braces.start()], each[braces.end() :]
            pending += [part.join(ends) for part in braces[1].split(",")]
        if len(pending) + len(complete) > _ALTERNATIVES:
            raise ToolFault(f"include: expected at most {_ALTERNATIVES} alternatives.")
    return complete


def search(
    start: Directory,
    names: Iterable[str],
    pattern: Pattern,
    *,
    largest: int | None = LARGEST_SEARCHED,
    checkpoint: Checkpoint = lambda: None,
) -> Generator[Found, None, None]:
    """The lines that match, file by file; files that cannot be read have none.

    Args:
        start: an open directory.
        names: the files, relative to it; those behind a link have no lines.
        pattern: what to look for.
        largest: files of more bytes are left out.
        checkpoint: called between pieces of the work; what it raises ends it.

    Raises:
        ToolFault: the pattern takes too long.
    """
    with Descent(start) as descent:
        for name in names:
            checkpoint()
            with contextlib.suppress(OSError, FileError), _opened(descent, name) as file:
                if largest is None or os.fstat(file.fileno()).st_size <= largest:
                    yield from _found(file, name, pattern, checkpoint)


def confirmed(
    start: Directory, found: Sequence[Found], *, checkpoint: Checkpoint = lambda: None
) -> Iterator[Found]:
    """Those lines another program found that stand in the files below a directory.

    That program goes by paths, and may have followed a link that was swapped in while it did.

    Args:
        start: the open directory the program searched.
        found: what it found, ordered by path.
        checkpoint: called between pieces of the work; what it raises ends it.
    """
    with Descent(start) as descent:
        for name, group in groupby(found, key=attrgetter("path")):
            checkpoint()
            with (
                contextlib.suppress(OSError, FileError, _NoText),
                _opened(descent, name) as file,
            ):
                yield from _standing(file, list(group), checkpoint)


def _standing(file: BinaryIO, wanted: Sequence[Found], checkpoint: Checkpoint) -> Iterator[Found]:
    """The lines that stand in a file where they were found."""
    before = 0
    left = list(wanted)
    for text in _texts(file, checkpoint):
        lines = text.split("\n")
        there = [each for each in left if each.line <= before + len(lines)]
        for each in there:
            line = lines[each.line - before - 1]
            if _is_shown(each.text, line):
                yield each
        left = left[len(there) :]
        if not left:
            return
        before += len(lines)


@contextlib.contextmanager
def _opened(descent: Descent, name: str) -> Iterator[BinaryIO]:
    """A regular file below the start of a descent, unbuffered."""
    directory, _, base = name.rpartition("/")
    opened = descent.open(directory)
    with os.fdopen(open_regular(opened, base, name), "rb", buffering=0) as file:
        yield file


def _found(file: BinaryIO, name: str, pattern: Pattern, checkpoint: Checkpoint) -> list[Found]:
    found: list[Found] = []
    before = 0
    try:
        for text in _texts(file, checkpoint):
            if pattern.may_match(text):
                for number, line in enumerate(text.split("\n"), before + 1):
                    start = pattern.find(line)
                    if start is not None:
                        found.append(Found(name, number, shown(line, start)))
                        if len(found) > MOST_FOUND:
                            return found
            before += text.count("\n") + 1
    except TimeoutError:
        raise ToolFault(f"pattern: it takes too long on line {number} of {name!r}.") from None
    except (_NoText, OSError):
        return []
    return found


class _NoText(Exception):
    """A file without lines."""


def _texts(file: BinaryIO, checkpoint: Checkpoint) -> Iterator[str]:
    """The lines of a file, many at a time, the last one of them without its end."""
    rest = ""
    decoder = None
    while data := file.read(_PIECE):
        checkpoint()
        decoder = decoder or _decoder(data)
        text = decoder.decode(data)
        if "\0" in text or len(rest) > _LONGEST_LINE:
            raise _NoText
        complete, newline, last = text.rpartition("\n")
        if newline:
            yield (rest + complete).replace("\r\n", "\n").removesuffix("\r")
            rest = last
        else:
            rest += last
    if rest:
        yield rest.removesuffix("\r")


def _decoder(beginning: bytes) -> codecs.IncrementalDecoder:
    utf_16 = beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    name, errors = ("utf-16", "replace") if utf_16 else ("utf-8-sig", "surrogateescape")
    return codecs.getincrementaldecoder(name)(errors)


def _is_shown(text: str, line: str) -> bool:
    """Whether a text is what `shown` gives for a line, wherever the match in it starts."""
    whole = _printed(line)
    return text == whole if len(whole) <= _SHOWN else text[:_SHOWN] in whole


def _printed(line: str) -> str:
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def shown(line: str, start: int) -> str:
    """What is shown of a line: all of it or, if it is long, what is around a match."""
    text = _printed(line)
    if len(text) <= _SHOWN:
        return text
    first = max(min(start - _BEFORE, len(text) - _SHOWN), 0)
    part = text[first : first + _SHOWN]
    return f"{part} {cut_mark(len(text.encode()) - len(part.encode()))}"
