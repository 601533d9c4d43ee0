"""`grep`: lines that match a regular expression, in the files that Git does not ignore."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import attrs

from eca_server.llm.history import TextPart
from eca_server.tools.files import Files, checkpoint, in_thread, printable
from eca_server.tools.output import Cap, cut_end
from eca_server.tools.ripgrep import RipgrepUnusable, find_ripgrep, ripgrep
from eca_server.tools.search import (
    LARGEST_SEARCHED,
    MOST_FOUND,
    Found,
    Include,
    Pattern,
    search,
)
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput
from eca_server.tools.tracked import IgnoredAndTracked
from eca_server.workspace import Checkpoint, Place, list_files

__all__ = ["Grep"]

_MAX_RESULTS = 1_000
_SECONDS = 30.0
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

        return PreparedCall(run=run, summary=self.summary(arguments), paths=(path,))

    def _searched(self, place: Place, pattern: Pattern, include: Include, most: int) -> ToolOutput:
        deadline = _Deadline()
        real_path = place.real_path
        if real_path.is_dir():
            lines = self._below(real_path, pattern, include, deadline)
        elif real_path.exists():
            names = [real_path.name]
            lines = search(real_path.parent, names, pattern, largest=None, checkpoint=deadline)
        else:
            raise ToolFault(f"There is nothing at {str(place.path)!r}.")
        found: set[Found] = set()
        with contextlib.closing(lines), contextlib.suppress(_TookTooLong):
            found.update(islice(lines, MOST_FOUND + 1))
        if real_path.is_dir():
            found = {each._replace(path=_below_text(place.text, each.path)) for each in found}
        else:
            found = {each._replace(path=place.text) for each in found}
        cap = attrs.evolve(self.files.cap, lines=min(most, self.files.cap.lines))
        parts = [_told(sorted(found), cap)]
        if not found and "\\n" in pattern.text:
            parts.append("A match lies within one line: leave \\n out.")
        if deadline.over:
            parts.append(f"The search was ended after {_SECONDS:g} s: there may be more.")
        return ToolOutput(parts=(TextPart("\n".join(parts)),))

    def _below(
        self, folder: Path, pattern: Pattern, include: Include, checkpoint: Checkpoint
    ) -> Generator[Found, None, None]:
        gitignore = self.files.leaves_out_ignored(folder)
        program = find_ripgrep()
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


def _below_text(directory: str, path: str) -> str:
    """A path below a directory, written as the model wrote the directory."""
    return path if directory in {".", "./"} else f"{directory.rstrip('/')}/{path}"


def _told(found: Sequence[Found], cap: Cap) -> str:
    if not found:
        return "No line matches."
    count = str(len(found)) if len(found) <= MOST_FOUND else f"more than {MOST_FOUND}"
    hint = (
        f"{count} lines in {len({each.path for each in found})} files match; to see the others "
        "narrow the pattern, the path or include"
    )
    lines = (f"{printable(each.path)}:{each.line}:{each.text}" for each in found)
    return cut_end("\n".join(lines), cap, hint=hint)


class _TookTooLong(Exception):
    """The time for a search is over."""


class _Deadline:
    """A checkpoint that also ends what takes too long."""

    def __init__(self) -> None:
        self._end = time.monotonic() + _SECONDS
        self.over = False

    def __call__(self) -> None:
        checkpoint()
        if time.monotonic() > self._end:
            self.over = True
            raise _TookTooLong
