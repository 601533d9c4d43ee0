"""The search for lines that match a regular expression.

The rule of this module: no pattern and no file can exhaust the process. Files are read in pieces, a
pattern has a time limit for each line, and a binary file has no lines.

Everything that accesses the disk belongs into a worker thread.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import unicodedata
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from eca_server.agent.tools.output import cut_mark
from eca_server.agent.tools.tool import ToolError
from eca_server.config.matchers import BadMatcher, compile_matcher
from eca_server.workspace.errors import FileError, NotText
from eca_server.workspace.gitignore import Rules
from eca_server.workspace.opening import Descent, Directory
from eca_server.workspace.reading import Checkpoint, open_regular

if TYPE_CHECKING:
    import regex

LARGEST_SEARCHED = 10 * 1024 * 1024
"""The maximum size of a searched file in bytes, unless the file itself was requested."""

MOST_MATCHES = 20_000
"""The maximum number of matches; the search of a file stops after one more."""

_PIECE = 1 << 20
_LONGEST_LINE = 16 * 1024 * 1024
_SECONDS = 0.3  # for one line; a stop may have to wait as long
_SHOWN = 400  # characters of a line
_BEFORE = 100  # of them before the match, if the line is longer
_ALTERNATIVES = 100
_BRACES = re.compile(r"\{([^{}]*)\}")
_PLAIN_NAME = re.compile(r"[\w.*?+@~ -]+", re.ASCII)
_UTF_8 = codecs.getincrementaldecoder("utf-8-sig")
_UTF_16 = codecs.getincrementaldecoder("utf-16")
_LINE_BOUND = re.compile(r"\\[AZzGK]|\(\?[^:i]|[*+?}]\+")


class LineMatch(NamedTuple):
    """A matching line.

    Attributes:
        path: the file, relative to the searched directory.
        line: its number, from 1.
    """

    path: str
    line: int
    text: str


class Pattern:
    """A regular expression that matches within one line.

    Args:
        text: as the model wrote it.

    Raises:
        ToolError: it is invalid or too large.
    """

    def __init__(self, text: str) -> None:
        if not text or "\0" in text:
            raise ToolError(f"pattern: expected a regular expression, got {text!r}.")
        self.text = text
        try:
            text.encode()
            self._line = compile_matcher(text)
            self._lines = compile_matcher(f"(?m){text}")
        except (BadMatcher, UnicodeEncodeError) as error:
            raise ToolError(f"pattern: {error}.") from error
        # A line that matches alone also matches among other lines, except for these constructs.
        self._skips = _LINE_BOUND.search(text) is None

    def may_match(self, text: str) -> bool:
        """Return False if no line of a text can match; this is fast."""
        if self._skips:
            try:
                return self._lines.search(text, timeout=_SECONDS) is not None
            except TimeoutError:
                self._skips = False
        return True

    def find(self, line: str) -> int | None:
        """Return the start of the first match in a line, or None.

        Raises:
            TimeoutError: it takes too long.
        """
        match: regex.Match[str] | None = self._line.search(line, timeout=_SECONDS)
        return None if match is None else match.start()


class Include:
    """A glob for the searched files; None: all files but those in the directories `without`.

    The glob is as in Git: without `/` it matches a file's name in any directory, else its path
    below the searched directory; `**` is any number of directories, `{a,b}` is a or b; a leading
    `!` excludes the matching files. Composed and decomposed characters are the same.

    Raises:
        ToolError: it has too many alternatives.
    """

    def __init__(self, glob: str | None, without: Collection[str] = ()) -> None:
        self._without = tuple(f"{each}/" for each in without)
        self._excludes = glob is not None and glob.startswith("!")
        globs = [] if glob is None else _alternatives(glob.removeprefix("!").removeprefix("./"))
        globs = [each + "**" * each.endswith("/") for each in globs]
        self._rules = None if glob is None else Rules.parse(_composed("\n".join(globs)))
        names = [each.rpartition("/")[2] for each in globs]
        plain = all(_PLAIN_NAME.fullmatch(name) and "**" not in name for name in names)
        self.names: tuple[str, ...] = tuple(names) if plain and not self._excludes else ()
        """Globs for names, one of which every searched file matches; empty: unknown."""

    def wants(self, path: str) -> bool:
        """Return True if a file is searched; the path is relative to the searched directory."""
        if self._rules is None or path.startswith(self._without):
            return not path.startswith(self._without)
        return (self._rules.verdict(_composed(path)) is True) is not self._excludes


def _composed(text: str) -> bytes:
    return os.fsencode(text if text.isascii() else unicodedata.normalize("NFC", text))


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
            raise ToolError(f"include: expected at most {_ALTERNATIVES} alternatives, got more.")
    return complete


def search(
    start: Directory,
    names: Iterable[str],
    pattern: Pattern,
    *,
    checkpoint: Checkpoint = lambda: None,
) -> Generator[LineMatch, None, None]:
    """Yield the matching lines, file by file; skip files that are large or cannot be read.

    Args:
        start: an open directory.
        names: the files, relative to it; those behind a link are skipped.
        pattern: the pattern.
        checkpoint: called between pieces of the work; an exception of it ends the search.

    Raises:
        ToolError: the pattern takes too long.
    """
    with Descent(start) as descent:
        for name in names:
            checkpoint()
            with contextlib.suppress(OSError, FileError), _opened(descent, name) as file:
                if os.fstat(file.fileno()).st_size <= LARGEST_SEARCHED:
                    yield from _matches_in(file, name, pattern, checkpoint)


def search_file(
    parent: Directory, name: str, pattern: Pattern, *, checkpoint: Checkpoint
) -> Generator[LineMatch, None, None]:
    """Yield the matching lines of a file of any size in an open directory.

    Raises:
        ToolError: the pattern takes too long.
        FileError: it is binary, or not a regular file.
        OSError: it cannot be read.
    """
    with Descent(parent) as descent, _opened(descent, name) as file:
        yield from _matches_in(file, name, pattern, checkpoint)


def confirm(
    start: Directory, matches: Sequence[LineMatch], *, checkpoint: Checkpoint = lambda: None
) -> Iterator[LineMatch]:
    """Yield the matches of a different program that are in the files below a directory.

    That program uses paths, and may have followed a link that was swapped in meanwhile.

    Args:
        start: the open directory that the program searched.
        matches: its matches, sorted by path.
        checkpoint: called between pieces of the work; an exception of it ends the check.
    """
    with Descent(start) as descent:
        for name, group in groupby(matches, key=attrgetter("path")):
            checkpoint()
            with (
                contextlib.suppress(OSError, FileError),
                _opened(descent, name) as file,
            ):
                yield from _existing(file, list(group), checkpoint)


def _existing(
    file: BinaryIO, matches: Sequence[LineMatch], checkpoint: Checkpoint
) -> Iterator[LineMatch]:
    before = 0
    remaining = list(matches)
    for text in _texts(file, checkpoint):
        lines = text.split("\n")
        in_piece = [each for each in remaining if each.line <= before + len(lines)]
        for each in in_piece:
            line = lines[each.line - before - 1]
            if _is_shortened(each.text, line):
                yield each
        remaining = remaining[len(in_piece) :]
        if not remaining:
            return
        before += len(lines)


@contextlib.contextmanager
def _opened(descent: Descent, name: str) -> Iterator[BinaryIO]:
    """Open a regular file below the start of a descent, unbuffered."""
    directory, _, base = name.rpartition("/")
    opened = descent.open(directory)
    with os.fdopen(open_regular(opened, base, name), "rb", buffering=0) as file:
        yield file


def _matches_in(
    file: BinaryIO, name: str, pattern: Pattern, checkpoint: Checkpoint
) -> list[LineMatch]:
    matches: list[LineMatch] = []
    before = 0
    try:
        for text in _texts(file, checkpoint):
            if pattern.may_match(text):
                for number, line in enumerate(text.split("\n"), before + 1):
                    start = pattern.find(line)
                    if start is not None:
                        matches.append(LineMatch(name, number, shorten_line(line, start)))
                        if len(matches) > MOST_MATCHES:
                            return matches
            before += text.count("\n") + 1
    except TimeoutError:
        raise ToolError(
            f"pattern: it takes too long on line {number} of {name!r}. Simplify it."
        ) from None
    return matches


def _texts(file: BinaryIO, checkpoint: Checkpoint) -> Iterator[str]:
    """Yield the text of a file in pieces of whole lines, without the last line end."""
    rest = ""
    decoder = None
    while data := file.read(_PIECE):
        checkpoint()
        decoder = decoder or _decoder(data)
        text = decoder.decode(data)
        if "\0" in text:
            raise NotText("it is binary: it has a NUL")
        if len(rest) > _LONGEST_LINE:
            raise NotText(f"it has a line of more than {_LONGEST_LINE:,} characters")
        complete, newline, last = text.rpartition("\n")
        if newline:
            lines = rest + complete
            yield lines.replace("\r\n", "\n").removesuffix("\r") if "\r" in lines else lines
            rest = last
        else:
            rest += last
    if rest:
        yield rest.removesuffix("\r")


def _decoder(beginning: bytes) -> codecs.IncrementalDecoder:
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _UTF_16("replace")
    return _UTF_8("surrogateescape")


def _is_shortened(text: str, line: str) -> bool:
    """Return True if a text is a result of `shorten_line` for a line, for any match."""
    whole = _printed(line)
    return text == whole if len(whole) <= _SHOWN else text[:_SHOWN] in whole


def _printed(line: str) -> str:
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def shorten_line(line: str, start: int) -> str:
    """Return a line, or the part around a match if the line is long."""
    text = _printed(line)
    if len(text) <= _SHOWN:
        return text
    first = max(min(start - _BEFORE, len(text) - _SHOWN), 0)
    part = text[first : first + _SHOWN]
    return f"{part} {cut_mark(len(text.encode()) - len(part.encode()))}"
