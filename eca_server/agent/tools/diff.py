r"""Unified hunks of a change with three lines of context (ruling W-35).

The rule of this module: the work is limited, whatever the texts are. Lines that occur once in each
text are matched first, which is fast. The lines between them are compared in full while that is
cheap; the rest counts as replaced.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from eca_protocol.messages import FileChangeDetails
from eca_server.agent.tools.output import Cap, cut_end

_CONTEXT = 3
_THOROUGH = 1_000_000  # pairs of lines compared in one diff
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_NO_NEWLINE = "\\ No newline at end of file"


class Run(NamedTuple):
    """Equal lines of two texts: their start in each, and their number."""

    old: int
    new: int
    size: int


class _Change(NamedTuple):
    """The replacement of lines `old:old_end` by `new:new_end`."""

    old: int
    old_end: int
    new: int
    new_end: int


def split_lines(text: str) -> list[str]:
    r"""Split a text into lines with their ends, which are `\n`, `\r\n` and `\r` only."""
    return _LINE.findall(text)


def file_change(
    path: str,
    before: str,
    after: str,
    *,
    cap: Cap,
    checkpoint: Callable[[], object] = lambda: None,
) -> FileChangeDetails:
    """Return the details of a change for a client: hunks within the cap, and counts of lines."""
    old, new = split_lines(before), split_lines(after)
    changes = list(_changes(old, new, checkpoint))
    diff = "\n".join(line for group in _grouped(changes) for line in _hunk(old, new, group))
    return FileChangeDetails(
        path=path,
        diff=cut_end(diff, cap, hint="the change itself is complete"),
        lines_added=sum(each.new_end - each.new for each in changes),
        lines_removed=sum(each.old_end - each.old for each in changes),
    )


def equal_runs(
    old: Sequence[str], new: Sequence[str], checkpoint: Callable[[], object] = lambda: None
) -> Iterator[Run]:
    """Yield the common lines of two texts as runs in order, without overlaps."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    shorter -= head
    tail = next((i for i in range(shorter) if old[-1 - i] != new[-1 - i]), shorter)
    old_end, new_end = len(old) - tail, len(new) - tail
    yield Run(0, 0, head)
    budget = _THOROUGH
    at = Run(head, head, 0)
    for anchor in (*_anchors(old[head:old_end], new[head:new_end], head), Run(old_end, new_end, 0)):
        checkpoint()
        cost = (anchor.old - at.old) * (anchor.new - at.new)
        if 0 < cost <= budget:
            budget -= cost
            between = SequenceMatcher(
                None, old[at.old : anchor.old], new[at.new : anchor.new], autojunk=False
            )
            for block in between.get_matching_blocks():
                yield Run(at.old + block.a, at.new + block.b, block.size)
        yield anchor
        at = Run(anchor.old + anchor.size, anchor.new + anchor.size, 0)
    yield Run(old_end, new_end, tail)


def _anchors(old: Sequence[str], new: Sequence[str], offset: int) -> list[Run]:
    """Return the longest common sequence of lines that occur once in both texts."""
    old_counts, new_counts = Counter(old), Counter(new)
    place = {line: j for j, line in enumerate(new) if new_counts[line] == 1}
    pairs = [
        (i, place[line]) for i, line in enumerate(old) if old_counts[line] == 1 and line in place
    ]
    ends: list[int] = []  # by length of a sequence, the smallest last index in `new`
    rows: list[int] = []  # the pair at the end of that sequence
    before: list[int | None] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(rows[length - 1] if length else None)
        if length == len(ends):
            ends.append(j)
            rows.append(number)
        else:
            ends[length], rows[length] = j, number
    anchors: list[Run] = []
    current = rows[-1] if rows else None
    while current is not None:
        i, j = pairs[current]
        anchors.append(Run(offset + i, offset + j, 1))
        current = before[current]
    return anchors[::-1]


def _changes(
    old: Sequence[str], new: Sequence[str], checkpoint: Callable[[], object]
) -> Iterator[_Change]:
    at = Run(0, 0, 0)
    same = [run for run in equal_runs(old, new, checkpoint) if run.size]
    for run in (*same, Run(len(old), len(new), 0)):
        if (run.old, run.new) != (at.old, at.new):
            yield _Change(at.old, run.old, at.new, run.new)
        at = Run(run.old + run.size, run.new + run.size, 0)


def _grouped(changes: Sequence[_Change]) -> Iterator[list[_Change]]:
    """Group changes whose contexts would touch into one hunk."""
    group: list[_Change] = []
    for change in changes:
        if group and change.old - group[-1].old_end > 2 * _CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _hunk(old: Sequence[str], new: Sequence[str], group: Sequence[_Change]) -> Iterator[str]:
    first, last = group[0], group[-1]
    before = min(_CONTEXT, first.old)
    after = min(_CONTEXT, len(old) - last.old_end)
    old_range = _range(first.old - before, last.old_end + after)
    new_range = _range(first.new - before, last.new_end + after)
    yield f"@@ -{old_range} +{new_range} @@"
    at = first.old - before
    for change in group:
        yield from _marked(" ", old[at : change.old])
        yield from _marked("-", old[change.old : change.old_end])
        yield from _marked("+", new[change.new : change.new_end])
        at = change.old_end
    yield from _marked(" ", old[at : at + after])


def _range(start: int, end: int) -> str:
    size = end - start
    if size == 1:
        return f"{start + 1}"
    return f"{start + 1 if size else start},{size}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        text = line.rstrip("\r\n")
        yield mark + text
        if text == line:
            yield _NO_NEWLINE
