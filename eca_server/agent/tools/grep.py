"""`grep`: search for a regular expression in the files that Git tracks or does not ignore."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import attrs

from eca_server.agent.tools.files import Files, checkpoint, in_thread, printable
from eca_server.agent.tools.output import Cap, counted, cut_end
from eca_server.agent.tools.ripgrep import RipgrepUnavailable, find_ripgrep, ripgrep
from eca_server.agent.tools.schemas import integer, object_schema, required, string
from eca_server.agent.tools.search import (
    LARGEST_SEARCHED,
    MOST_MATCHES,
    Include,
    LineMatch,
    Pattern,
    confirm,
    search,
    search_file,
)
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.workspace import git
from eca_server.workspace.boundary import Place, errors_naming, open_place
from eca_server.workspace.errors import NotText
from eca_server.workspace.ignore import list_files
from eca_server.workspace.opening import Directory, open_directory
from eca_server.workspace.reading import Checkpoint
from eca_server.workspace.worktree import top_of_work_tree

_CACHED_SECONDS = 60.0  # an answer of Git
_WATCHED = (".git/index", ".git/info/exclude", ".gitignore")

_MAX_RESULTS = 1_000
_CONFIRMING_SECONDS = 10.0
_CONFIRMED_AT_ONCE = 200  # lines
_SUMMARY_PATTERN = 22  # characters
_MOST_FILES = 1_000_000


@attrs.frozen(kw_only=True)
class _Answer:
    """A cached answer of Git; `state` is that of the watched files before."""

    state: tuple[tuple[int, int] | None, ...]
    requested_at: float
    names: tuple[str, ...]


class IgnoredAndTracked:
    """The ignored files that Git tracks, which a search by rules alone would miss.

    The answer of Git is cached until its index or the rules at the top change, and for a minute at
    most, since Git takes as long as the search itself. The cache is safe for threads.
    """

    def __init__(self, *, most_directories: int = 50) -> None:
        self._most = most_directories
        self._answers: dict[Path, _Answer] = {}

    def below(self, start: Directory, *, checkpoint: Checkpoint) -> tuple[str, ...]:
        """Return the files below an open directory, relative to it; none if Git fails."""
        folder = start.path
        top = top_of_work_tree(folder)
        if top is None:
            return ()
        state = tuple(_state(top / name) for name in _WATCHED)
        now = time.monotonic()
        answer = self._answers.get(folder)
        if answer is None or answer.state != state or now - answer.requested_at > _CACHED_SECONDS:
            if len(self._answers) >= self._most:
                self._answers.clear()
            names = _listed(git.list_paths(start, "-ci", top=top, checkpoint=checkpoint))
            answer = _Answer(state=state, requested_at=now, names=names)
            self._answers[folder] = answer
        return answer.names


def _listed(names: Iterable[str]) -> tuple[str, ...]:
    with contextlib.suppress(git.GitUnavailable, OSError):
        return tuple(names)
    return ()


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@attrs.frozen(kw_only=True)
class Grep:
    """The tool `grep`."""

    files: Files
    seconds: float = 30.0
    _tracked: IgnoredAndTracked = attrs.field(factory=IgnoredAndTracked, init=False, repr=False)

    name: ClassVar = "grep"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Search for a regular expression in a file, or in all text files below a directory that "
        f"Git does not ignore, up to {LARGEST_SEARCHED // 2**20} MiB each. A match cannot span "
        "lines. Begin the pattern with `(?i)` to ignore case. The output has a line "
        "`path:line:text` for each matching line."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        path=required(
            string("The directory or file: absolute, or relative to the first workspace root.")
        ),
        pattern=required(string("The regular expression to search for.")),
        include=string(
            "Glob of the files to search: `*.py`, `*.{ts,tsx}`, `src/**/*.c`; "
            "a leading `!` excludes the files instead."
        ),
        max_results=integer(
            f"Maximum number of lines in the output. Default: {_MAX_RESULTS}.", minimum=1
        ),
    )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Searching for 'PATTERN'`, with the pattern shortened."""
        pattern = arguments.get("pattern")
        text = printable(pattern) if isinstance(pattern, str) else ""
        if len(text) > _SUMMARY_PATTERN:
            text = f"{text[:_SUMMARY_PATTERN]}..."
        return f"Searching for '{text}'" if text else "Searching"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Compile the pattern and resolve the path.

        Raises:
            ToolError: an argument is invalid.
        """
        place = await in_thread(self.files.workspace.locate, arguments["path"])
        # Both the library's import and a large pattern take time.
        pattern = await in_thread(Pattern, arguments["pattern"])
        private = await in_thread(self.files.workspace.private_below, place.real_path)
        include = Include(arguments.get("include"), private)
        most: int = arguments.get("max_results", _MAX_RESULTS)

        return PreparedCall(
            run=partial(in_thread, self._searched, place, pattern, include, most),
            summary=self.summary(arguments),
            places=(place,),
        )

    def _searched(self, place: Place, pattern: Pattern, include: Include, most: int) -> ToolOutput:
        cap = attrs.evolve(self.files.cap, lines=min(most, self.files.cap.lines))
        try:
            with open_place(place) as folder:
                if folder is None:
                    result = _in_file(place, pattern, self.seconds)
                else:
                    result = self._in_folder(place, folder, pattern, include, cap)
        except (FileNotFoundError, NotADirectoryError):
            raise ToolError(f"{str(place.path)!r} does not exist.") from None
        parts = [_output(result.lines, cap)]
        if not result.lines and ("\\n" in pattern.text or "\n" in pattern.text):
            parts.append("A match cannot span lines: remove \\n from the pattern.")
        if result.is_cut:
            parts.append(
                f"The search was stopped after {self.seconds:g} s and is incomplete: narrow it."
            )
        if result.has_changed:
            parts.append("Some files changed during the search: search again.")
        return ToolOutput.of("\n".join(parts))

    def _in_folder(
        self, place: Place, folder: Directory, pattern: Pattern, include: Include, cap: Cap
    ) -> _Result:
        deadline = _Deadline(self.seconds)
        program = find_ripgrep()
        result = _collected(
            self._below(folder, pattern, include, program=program, checkpoint=deadline)
        )
        if program is not None:
            result = _confirm_shown(folder, result, cap)
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
    ) -> Generator[LineMatch, None, None]:
        gitignore = self.files.leaves_out_ignored(folder)
        if program is not None:
            with contextlib.suppress(RipgrepUnavailable):
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
    """The matching lines of a search in order.

    Attributes:
        is_cut: whether the search was stopped before its end.
        has_changed: whether files changed during the search.
    """

    lines: Sequence[LineMatch]
    is_cut: bool
    has_changed: bool = False


def _in_file(place: Place, pattern: Pattern, seconds: float) -> _Result:
    deadline = _Deadline(seconds)
    with errors_naming(place), open_directory(place.real_path.parent) as parent:
        lines = search_file(parent, place.real_path.name, pattern, checkpoint=deadline)
        try:
            result = _collected(lines)
        except NotText as error:
            raise ToolError(f"Expected a text file, {error}: {str(place.path)!r}.") from error
    return attrs.evolve(result, lines=[each._replace(path=place.text) for each in result.lines])


def _collected(lines: Generator[LineMatch, None, None]) -> _Result:
    """Collect the first matches, each once, sorted; stop at the deadline."""
    matches: set[LineMatch] = set()
    is_cut = True
    with contextlib.closing(lines), contextlib.suppress(_DeadlinePassed):
        matches.update(islice(lines, MOST_MATCHES + 1))
        is_cut = False
    return _Result(lines=sorted(matches), is_cut=is_cut)


def _confirm_shown(folder: Directory, result: _Result, cap: Cap) -> _Result:
    """Confirm the matches that are shown to the model; the others are only counted."""
    deadline = _Deadline(_CONFIRMING_SECONDS)
    matches: list[LineMatch] = []
    checked = size = 0
    try:
        while checked < len(result.lines) and len(matches) < cap.lines and size <= cap.size:
            piece = result.lines[checked : checked + _CONFIRMED_AT_ONCE]
            for each in confirm(folder, piece, checkpoint=deadline):
                matches.append(each)
                size += len(each.path) + len(each.text)
            checked += len(piece)
    except _DeadlinePassed:
        return _Result(lines=matches, is_cut=True)
    return _Result(
        lines=[*matches, *result.lines[checked:]],
        is_cut=result.is_cut,
        has_changed=len(matches) < checked,
    )


def _below_text(directory: str, path: str) -> str:
    """Join a path to a directory as the model wrote it."""
    return path if directory in {".", "./"} else f"{directory.rstrip('/')}/{path}"


def _output(matches: Sequence[LineMatch], cap: Cap) -> str:
    if not matches:
        return "No line matches."
    number = counted(min(len(matches), MOST_MATCHES), "line")
    count = "more than " * (len(matches) > MOST_MATCHES) + number
    files = counted(len({each.path for each in matches}), "file")
    hint = f"{count} in {files} match; to see the others narrow the pattern, the path or include"
    lines = (f"{printable(each.path)}:{each.line}:{each.text}" for each in matches)
    return cut_end("\n".join(lines), cap, hint=hint)


class _DeadlinePassed(Exception):
    """The deadline of a search has passed."""


class _Deadline:
    """A checkpoint that also raises `_DeadlinePassed` after a deadline."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def __call__(self) -> None:
        checkpoint()
        if time.monotonic() > self._end:
            raise _DeadlinePassed
