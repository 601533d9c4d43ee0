r"""The replacement of a passage of a text, as a model requests it.

The rule of this module: a passage is replaced only if the match is unambiguous. It is searched for
exactly, then by lines without trailing whitespace, then also without leading whitespace. The first
search with a result must have one match, unless all occurrences are requested. Lines that the model
did not change keep their line ends and whitespace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from heapq import nlargest

import attrs

from eca_server.agent.tools.diff import equal_runs, split_lines
from eca_server.agent.tools.tool import ToolError
from eca_server.workspace.reading import Text

_NEWLINE = re.compile(r"\r\n|\n|\r")
_INDENT = re.compile(r"[ \t]*")
_COMPARED = 10_000  # lines compared roughly in the search for a similar one
_LIKELY = 50  # lines of them compared in full
_LONGEST = 300  # characters of a line that are compared or shown
_SHOWN = 12  # similar lines
_SIMILAR = 0.6


@attrs.frozen(kw_only=True)
class EditResult:
    """A text after an edit.

    Attributes:
        count: the number of replaced passages.
        exact: whether the match was exact, with all whitespace.
    """

    text: str
    count: int
    exact: bool


def with_newline(text: str, newline: str) -> str:
    """Return a text with one kind of line ends."""
    return _NEWLINE.sub(newline, text)


def edit(
    content: Text,
    original: str,
    new: str,
    *,
    all_occurrences: bool,
    checkpoint: Callable[[], object] = lambda: None,
) -> EditResult:
    """Replace a passage of a file's text; preserve its line ends.

    Raises:
        ToolError: the passage is missing, ambiguous, or would not change.
    """
    passage = with_newline(original, content.newline)
    replacement = with_newline(new, content.newline)
    if not passage:
        raise ToolError("original_content: expected the text to replace, got an empty string.")
    if passage == replacement:
        raise ToolError("original_content and new_content are equal: nothing would change.")
    text = content.text
    count = text.count(passage)
    if count:
        overlaps = count == 1 and text.find(passage, text.find(passage) + 1) >= 0
        _check_unambiguous(count + overlaps, all_occurrences)
        return EditResult(text=text.replace(passage, replacement), count=count, exact=True)
    lines = split_lines(text)
    block = _Block(passage, replacement, content.newline)
    problem = "was not found, even with whitespace ignored"
    for blanks in (str.rstrip, str.strip):
        checkpoint()
        starts = list(_starts(lines, block.passage, blanks)) if block.is_distinct else []
        overlaps = len(starts) == 1 and _overlaps(lines, starts[0], block.passage, blanks)
        _check_unambiguous(len(starts) + overlaps, all_occurrences)
        pieces = [block.replaced(lines[start : start + block.size]) for start in starts]
        if starts and None not in pieces:
            return EditResult(
                text="".join(_spliced(lines, starts, block.size, pieces)),
                count=len(starts),
                exact=False,
            )
        if starts:
            problem = "matches with a different indentation only: indent both texts as in the file"
    raise ToolError(f"original_content {problem}. {_nearest(lines, block.passage, checkpoint)}")


def _check_unambiguous(count: int, all_occurrences: bool) -> None:
    if count > 1 and not all_occurrences:
        raise ToolError(
            f"original_content was found {count} times: add surrounding lines to make it unique, "
            "or set all_occurrences."
        )


def _starts(
    lines: Sequence[str], passage: Sequence[str], blanks: Callable[[str], str]
) -> Iterator[int]:
    """Yield the line numbers where a passage starts, whitespace ignored, without overlaps."""
    joined = "\n".join(["", *map(blanks, lines), ""])
    target = "\n".join(["", *map(blanks, passage), ""])
    line = 0
    at = 0
    position = joined.find(target)
    while position >= 0:
        line += joined.count("\n", at, position)
        yield line
        at = position
        position = joined.find(target, position + len(target) - 1)


def _overlaps(
    lines: Sequence[str], start: int, passage: Sequence[str], blanks: Callable[[str], str]
) -> bool:
    """Return True if a passage also matches at an overlapping position."""
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
    """A passage of whole lines and its replacement."""

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

    def replaced(self, matched: Sequence[str]) -> list[str] | None:
        """Return the new lines for matched ones; None if their indentation is inconsistent.

        A line that the model did not change stays as in the file.
        """
        shift = _shift(matched, self.passage)
        if shift is None:
            return None
        result: list[str] = []
        new = last_unchanged = 0
        for run in (*equal_runs(self.passage, self._new), None):
            for line in self._new[new : run.new if run else None]:
                shifted = shift(line)
                if shifted is None:
                    return None
                result.append(shifted + self._newline)
            if run:
                result += matched[run.old : run.old + run.size]
                new = run.new + run.size
                last_unchanged = new if run.size else last_unchanged
        return self._ended(result, matched[-1], is_changed=last_unchanged < len(self._new))

    def _ended(self, lines: list[str], last: str, *, is_changed: bool) -> list[str]:
        """Return the lines with line ends.

        The last one gets the end of the last matched line, if it is changed or the file ends there.
        """
        bare = [line.rstrip("\r\n") for line in lines]
        ended = [
            line if line != text else text + self._newline
            for line, text in zip(lines, bare, strict=True)
        ]
        end = last[len(last.rstrip("\r\n")) :]
        if ended and (is_changed or not end):
            ended[-1] = bare[-1] + end
        return ended


def _shift(matched: Sequence[str], passage: Sequence[str]) -> Callable[[str], str | None] | None:
    """Return a function that indents a line of the model as in the file, or None.

    None means that the indentation of the lines differs in more than one way. The function returns
    None for a line that would be indented by tabs and spaces in place of one of them.
    """
    pairs = {
        (_indent(actual), _indent(written))
        for actual, written in zip(matched, passage, strict=True)
        if written.strip()
    }
    actual, written = min(pairs, key=lambda pair: len(pair[1]))
    shorter = min(len(actual), len(written))
    same = next((i for i in range(shorter) if actual[-1 - i] != written[-1 - i]), shorter)
    more, less = actual[: len(actual) - same], written[: len(written) - same]

    def shift(line: str) -> str | None:
        if not line.strip():
            return line if not less else ""
        return more + line.removeprefix(less) if line.startswith(less) else None

    def shift_new(line: str) -> str | None:
        deeper = _indent(line.removeprefix(less))
        mixes = more and not set(deeper).isdisjoint(set(less) - set(more))
        if mixes or (more.endswith(" ") and "\t" in deeper):
            return None  # how deep it is in the file is unknown
        return shift(line)

    is_consistent = all(shift(f"{written}x") == f"{actual}x" for actual, written in pairs)
    return shift_new if is_consistent else None


def _indent(line: str) -> str:
    match = _INDENT.match(line)
    return match[0] if match else ""


def _nearest(lines: Sequence[str], passage: Sequence[str], checkpoint: Callable[[], object]) -> str:
    """Return the most similar lines of the file, as a sentence for the model."""
    index, longest = max(enumerate(passage), key=lambda each: len(each[1].strip()))
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(longest.strip()[:_LONGEST])
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
        return "No line of the file is similar: read the file again."
    shown = lines[start : start + min(len(passage), _SHOWN)]
    text = "\n".join(line.rstrip("\r\n")[:_LONGEST] for line in shown)
    return f"The most similar lines are {start + 1} to {start + len(shown)}:\n{text}"
