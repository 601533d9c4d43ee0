r"""One passage of a text replaced by another, as a model asks for it.

The rule it keeps: a passage is changed only where it is meant for certain. It is looked for as it
stands, then line by line without the blanks at the ends of lines, then without those at their
beginnings, too; the first of these that finds it must find it once, unless all are meant.
What the model did not change keeps its line ends and blanks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from heapq import nlargest

import attrs

from eca_server.tools.diff import equal_runs, split_lines
from eca_server.tools.tool import ToolFault
from eca_server.workspace import Text

__all__ = ["Edited", "edit", "with_newline"]

_NEWLINE = re.compile(r"\r\n|\n|\r")
_INDENT = re.compile(r"[ \t]*")
_COMPARED = 10_000  # lines looked at for a similar one
_LIKELY = 50  # of them compared thoroughly
_LONGEST = 300  # characters of a line that is compared or shown
_SHOWN = 12  # similar lines
_SIMILAR = 0.6


@attrs.frozen(kw_only=True)
class Edited:
    """A text after an edit.

    Attributes:
        text: the whole of it.
        count: how many passages were replaced.
        exact: they were found as given, every blank included.
    """

    text: str
    count: int
    exact: bool


def with_newline(text: str, newline: str) -> str:
    """A text whose line ends are all of one kind."""
    return _NEWLINE.sub(newline, text)


def edit(
    content: Text,
    original: str,
    new: str,
    *,
    all_occurrences: bool,
    checkpoint: Callable[[], object] = lambda: None,
) -> Edited:
    """A file's text with a passage of it replaced; its line ends stay what they are.

    Raises:
        ToolFault: the passage is not there, or more than once, or would not change.
    """
    passage = with_newline(original, content.newline)
    replacement = with_newline(new, content.newline)
    if not passage:
        raise ToolFault("original_content: expected the text to replace, got an empty one.")
    if passage == replacement:
        raise ToolFault("original_content and new_content are the same: nothing would change.")
    text = content.text
    count = text.count(passage)
    if count:
        overlaps = count == 1 and text.find(passage, text.find(passage) + 1) >= 0
        _must_be_meant(count + overlaps, all_occurrences)
        return Edited(text=text.replace(passage, replacement), count=count, exact=True)
    lines = split_lines(text)
    block = _Block(passage, replacement, content.newline)
    for blanks in (str.rstrip, str.strip):
        checkpoint()
        starts = list(_starts(lines, block.passage, blanks)) if block.is_distinct else []
        overlaps = len(starts) == 1 and _overlaps(lines, starts[0], block.passage, blanks)
        _must_be_meant(len(starts) + overlaps, all_occurrences)
        pieces = [block.replaced(lines[start : start + block.size]) for start in starts]
        if starts and None not in pieces:
            return Edited(
                text="".join(_spliced(lines, starts, block.size, pieces)),
                count=len(starts),
                exact=False,
            )
    raise ToolFault(
        f"original_content was not found, not even with other blanks. "
        f"{_nearest(lines, block.passage, checkpoint)}"
    )


def _must_be_meant(count: int, all_occurrences: bool) -> None:
    if count > 1 and not all_occurrences:
        raise ToolFault(
            f"original_content is there {count} times: add lines around it that make it unique, "
            "or set all_occurrences."
        )


def _starts(
    lines: Sequence[str], passage: Sequence[str], blanks: Callable[[str], str]
) -> Iterator[int]:
    """Where the lines are those of a passage, blanks aside; no two places overlap."""
    joined = "\n".join(["", *map(blanks, lines), ""])
    wanted = "\n".join(["", *map(blanks, passage), ""])
    line = 0
    at = 0
    found = joined.find(wanted)
    while found >= 0:
        line += joined.count("\n", at, found)
        yield line
        at = found
        found = joined.find(wanted, found + len(wanted) - 1)


def _overlaps(
    lines: Sequence[str], start: int, passage: Sequence[str], blanks: Callable[[str], str]
) -> bool:
    """Whether a passage that is there once would be there again if places could overlap."""
    return next(_starts(lines[start + 1 :], passage, blanks), None) is not None


def _spliced(
    lines: Sequence[str], starts: Sequence[int], size: int, pieces: Sequence[Sequence[str] | None]
) -> Iterator[str]:
    at = 0
    for start, piece in zip(starts, pieces, strict=True):
        yield from lines[at:start]
        yield from piece or ()
        at = start + size
    yield from lines[at:]


class _Block:
    """A passage of whole lines and what stands in its place."""

    def __init__(self, passage: str, replacement: str, newline: str) -> None:
        self._newline = newline
        ends = passage.endswith(newline)
        self.passage = passage.removesuffix(newline).split(newline)
        if not ends:
            self._new = replacement.split(newline)
        else:
            self._new = replacement.removesuffix(newline).split(newline) if replacement else []
        self.size = len(self.passage)
        self.is_distinct = any(line.strip() for line in self.passage)

    def replaced(self, found: Sequence[str]) -> list[str] | None:
        """The new lines in place of the found ones; None if those are indented in another way.

        A line that the model left alone stays what it is in the file.
        """
        shift = _shift(found, self.passage)
        if shift is None:
            return None
        result: list[str] = []
        new = 0
        for run in (*equal_runs(self.passage, self._new), None):
            for line in self._new[new : run.new if run else None]:
                shifted = shift(line)
                if shifted is None:
                    return None
                result.append(shifted + self._newline)
            if run:
                result += found[run.old : run.old + run.size]
                new = run.new + run.size
        return self._ended(result, found[-1])

    def _ended(self, lines: list[str], last: str) -> list[str]:
        """Every line with an end, the last one with that of the line it stands for."""
        bare = [line.rstrip("\r\n") for line in lines]
        ended = [
            line if line != text else text + self._newline
            for line, text in zip(lines, bare, strict=True)
        ]
        if ended:
            ended[-1] = bare[-1] + last[len(last.rstrip("\r\n")) :]
        return ended


def _shift(found: Sequence[str], passage: Sequence[str]) -> Callable[[str], str | None] | None:
    """How a line of the model's is indented in the file; None if its lines are not all alike."""
    pairs = {
        (_indent(there), _indent(given))
        for there, given in zip(found, passage, strict=True)
        if given.strip()
    }
    there, given = min(pairs, key=lambda pair: len(pair[1]))
    shorter = min(len(there), len(given))
    same = next((i for i in range(shorter) if there[-1 - i] != given[-1 - i]), shorter)
    more, less = there[: len(there) - same], given[: len(given) - same]

    def shift(line: str) -> str | None:
        if not line.strip():
            return line if not less else ""
        return more + line.removeprefix(less) if line.startswith(less) else None

    alike = all(shift(f"{given}x") == f"{there}x" for there, given in pairs)
    return shift if alike else None


def _indent(line: str) -> str:
    found = _INDENT.match(line)
    return found[0] if found else ""


def _nearest(lines: Sequence[str], passage: Sequence[str], checkpoint: Callable[[], object]) -> str:
    """The lines of the file that are most like the passage, in words for the model."""
    index, wanted = max(enumerate(passage), key=lambda each: len(each[1].strip()))
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted.strip()[:_LONGEST])
    likely: list[tuple[float, int]] = []
    for number, line in enumerate(lines[:_COMPARED]):
        if not number % 100:
            checkpoint()
        matcher.set_seq1(line.strip()[:_LONGEST])
        if matcher.real_quick_ratio() >= _SIMILAR and matcher.quick_ratio() >= _SIMILAR:
            likely.append((matcher.quick_ratio(), -number))
    best, start = _SIMILAR, -1
    for _, negative in nlargest(_LIKELY, likely):
        checkpoint()
        matcher.set_seq1(lines[-negative].strip()[:_LONGEST])
        if matcher.ratio() > best:
            best, start = matcher.ratio(), max(-negative - index, 0)
    if start < 0:
        return "No line of the file is like it."
    shown = lines[start : start + min(len(passage), _SHOWN)]
    text = "\n".join(line.rstrip("\r\n")[:_LONGEST] for line in shown)
    return f"The most similar lines are {start + 1} to {start + len(shown)}:\n{text}"
