"""`grep`: lines that match a regular expression, in the files that Git does not ignore."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

import attrs

from eca_server.llm.history import TextPart
from eca_server.tools.files import Files, checkpoint, in_thread, printable
from eca_server.tools.output import Cap, counted, cut_end
from eca_server.tools.ripgrep import RipgrepUnusable, find_ripgrep, ripgrep
from eca_server.tools.search import (
    LARGEST_SEARCHED,
    MOST_FOUND,
    Found,
    Include,
    Pattern,
    confirmed,
    search,
)
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput
from eca_server.tools.tracked import IgnoredAndTracked
from eca_server.workspace import Checkpoint, Directory, Place, list_files, open_place
from eca_server.workspace.opening import open_directory

__all__ = ["Grep"]

_MAX_RESULTS = 1_000
_SECONDS = 30.0
_CONFIRMING_SECONDS = 10.0
_CONFIRMED_AT_ONCE = 200  # lines
_SUMMARY_PATTERN = 22  # characters
_MOST_FILES = 1_000_000


@attrs.frozen(kw_only=True)
class Grep:
    """The tool `grep`."""

    files: Files
    _tracked: IgnoredAndTracked = attrs.field(factory=IgnoredAndTracked, init=False, repr=False)

    name: ClassVar = "grep"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Search for a regular expression in a file, or in all text files below a directory that "
        "Git does not ignore (those of more than "
        f"{LARGEST_SEARCHED // 2**20} MiB are left out). A match lies within one line; `(?i)` "
        "at the beginning ignores case. The answer has a line `path:line:text` for each "
        "matching line."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "description": "A directory or a file: absolute, or relative to the first "
                "workspace root.",
            },
            "pattern": {"type": "string", "description": "The regular expression."},
            "include": {
                "type": "string",
                "description": "Which files, as a glob: `*.py`, `*.{ts,tsx}`, `src/**/*.c`; "
                "behind `!` which not.",
            },
            "max_results": {
                "type": "integer",
                "minimum": 1,
                "description": f"How many lines at most. Default: {_MAX_RESULTS}.",
            },
        },
        "required": ["path", "pattern"],
    }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Searching for 'pattern'`, the pattern cut to a few words."""
        pattern = arguments.get("pattern")
        words = printable(pattern) if isinstance(pattern, str) else ""
        if len(words) > _SUMMARY_PATTERN:
            words = f"{words[:_SUMMARY_PATTERN]}..."
        return f"Searching for '{words}'" if words else "Searching"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Read the pattern, and find out where the path leads.

        Raises:
            ToolFault: one of the arguments cannot be used.
        """
        path: str = arguments["path"]
        place = await in_thread(lambda: self.files.workspace.locate(path))
        # The library's import takes a while; so may a large pattern.
        pattern = await in_thread(lambda: Pattern(arguments["pattern"]))
        include = Include(arguments.get("include"))
        most: int = arguments.get("max_results", _MAX_RESULTS)

        async def run() -> ToolOutput:
            return await in_thread(lambda: self._searched(place, pattern, include, most))

        return PreparedCall(run=run, summary=self.summary(arguments), places=(place,))

    def _searched(self, place: Place, pattern: Pattern, include: Include, most: int) -> ToolOutput:
        cap = attrs.evolve(self.files.cap, lines=min(most, self.files.cap.lines))
        try:
            with open_place(place) as folder:
                if folder is None:
                    result = _in_file(place, pattern)
                else:
                    result = self._in_folder(place, folder, pattern, include, cap)
        except (FileNotFoundError, NotADirectoryError):
            raise ToolFault(f"There is nothing at {str(place.path)!r}.") from None
        parts = [_told(result.lines, cap)]
        if not result.lines and "\\n" in pattern.text:
            parts.append("A match lies within one line: leave \\n out.")
        if result.is_cut:
            parts.append(f"The search was ended after {_SECONDS:g} s: there may be more.")
        if result.has_changed:
            parts.append("Some files changed while they were searched: search again.")
        return ToolOutput(parts=(TextPart("\n".join(parts)),))

    def _in_folder(
        self, place: Place, folder: Directory, pattern: Pattern, include: Include, cap: Cap
    ) -> _Result:
        deadline = _Deadline(_SECONDS)
        program = find_ripgrep()
        result = _collected(
            self._below(folder, pattern, include, program=program, checkpoint=deadline)
        )
        if program is not None:
            result = _confirmed_as_far_as_shown(folder, result, cap)
        lines = [each._replace(path=_below_text(place.text, each.path)) for each in result.lines]
        return attrs.evolve(result, lines=lines)

    def _below(
        self,
        folder: Directory,
        pattern: Pattern,
        include: Include,
        *,
        program: str | None,
        checkpoint: Checkpoint,
    ) -> Generator[Found, None, None]:
        gitignore = self.files.leaves_out_ignored(folder)
        if program is not None:
            with contextlib.suppress(RipgrepUnusable):
                yield from ripgrep(
                    program, folder, pattern, include, gitignore=gitignore, checkpoint=checkpoint
                )
                if gitignore:
                    tracked = filter(
                        include.wants, self._tracked.below(folder, checkpoint=checkpoint)
                    )
                    yield from search(folder, tracked, pattern, checkpoint=checkpoint)
                return
        names = list_files(
            folder, limit=_MOST_FILES, gitignore=gitignore, links=False, checkpoint=checkpoint
        )
        yield from search(folder, filter(include.wants, names), pattern, checkpoint=checkpoint)


@attrs.frozen(kw_only=True)
class _Result:
    """The lines of a search in order, and what they may lack."""

    lines: Sequence[Found]
    is_cut: bool
    has_changed: bool = False


def _in_file(place: Place, pattern: Pattern) -> _Result:
    deadline = _Deadline(_SECONDS)
    names = [place.real_path.name]
    with open_directory(place.real_path.parent) as parent:
        result = _collected(search(parent, names, pattern, largest=None, checkpoint=deadline))
    return attrs.evolve(result, lines=[each._replace(path=place.text) for each in result.lines])


def _collected(lines: Generator[Found, None, None]) -> _Result:
    """The first lines in order, each once, and whether the time was over before the last."""
    found: set[Found] = set()
    is_cut = True
    with contextlib.closing(lines), contextlib.suppress(_TookTooLong):
        found.update(islice(lines, MOST_FOUND + 1))
        is_cut = False
    return _Result(lines=sorted(found), is_cut=is_cut)


def _confirmed_as_far_as_shown(folder: Directory, result: _Result, cap: Cap) -> _Result:
    """Confirm the lines that the model will read; the others are only counted."""
    deadline = _Deadline(_CONFIRMING_SECONDS)
    kept: list[Found] = []
    looked_at = size = 0
    try:
        while looked_at < len(result.lines) and len(kept) < cap.lines and size <= cap.size:
            piece = result.lines[looked_at : looked_at + _CONFIRMED_AT_ONCE]
            for each in confirmed(folder, piece, checkpoint=deadline):
                kept.append(each)
                size += len(each.path) + len(each.text)
            looked_at += len(piece)
    except _TookTooLong:
        return _Result(lines=kept, is_cut=True)
    return _Result(
        lines=[*kept, *result.lines[looked_at:]],
        is_cut=result.is_cut,
        has_changed=len(kept) < looked_at,
    )


def _below_text(directory: str, path: str) -> str:
    """A path below a directory, written as the model wrote the directory."""
    return path if directory in {".", "./"} else f"{directory.rstrip('/')}/{path}"


def _told(found: Sequence[Found], cap: Cap) -> str:
    if not found:
        return "No line matches."
    count = "more than " * (len(found) > MOST_FOUND) + counted(min(len(found), MOST_FOUND), "line")
    files = counted(len({each.path for each in found}), "file")
    hint = f"{count} in {files} match; to see the others narrow the pattern, the path or include"
    lines = (f"{printable(each.path)}:{each.line}:{each.text}" for each in found)
    return cut_end("\n".join(lines), cap, hint=hint)


class _TookTooLong(Exception):
    """The time for a search is over."""


class _Deadline:
    """A checkpoint that also ends what takes too long."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def __call__(self) -> None:
        checkpoint()
        if time.monotonic() > self._end:
            raise _TookTooLong
