"""The conversion of unified diffs to the draft's changes (`fileChange.changes`).

Each hunk is one change: a range of lines of the old file and their new content. An incomplete diff
has no changes, since a client must get all of them.
"""

from __future__ import annotations

import re

import attrs

from eca_protocol.draft.models import Change, LineRange

_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@.*")


@attrs.define
class _Hunk:
    """The lines of a hunk with their marks; `old_left` and `new_left` lines are missing."""

    start: int
    old_left: int
    new_left: int
    lines: list[tuple[str, str]] = attrs.field(factory=list)

    def take(self, line: str) -> bool:
        """Take the next line; return False if it does not belong to this hunk."""
        if line.startswith("\\") and self.lines:
            mark, text = self.lines[-1]
            self.lines[-1] = mark, text.removesuffix("\n")
            return True
        mark = line[:1] or " "
        self.old_left -= mark in " -"
        self.new_left -= mark in " +"
        self.lines.append((mark, line[1:] + "\n"))
        return mark in " -+" and self.old_left >= 0 and self.new_left >= 0

    @property
    def is_whole(self) -> bool:
        return self.old_left == self.new_left == 0


def parse_changes(diff: str) -> tuple[Change, ...] | None:
    """Return the changes of a unified diff; None if it is incomplete or invalid."""
    hunks: list[_Hunk] = []
    for line in diff.split("\n"):
        header = _HEADER.fullmatch(line)
        is_between = not hunks or hunks[-1].is_whole
        if header and is_between:
            hunks.append(_Hunk(int(header[1]), _size(header[2]), _size(header[3])))
        elif is_between and (not line or (not hunks and line.startswith(("---", "+++")))):
            continue
        elif not hunks or not hunks[-1].take(line):
            return None
    if hunks and not hunks[-1].is_whole:
        return None
    changes = [_change(hunk) for hunk in hunks]
    return None if None in changes else tuple(change for change in changes if change is not None)


def _size(digits: str | None) -> int:
    return 1 if digits is None else int(digits)


def _change(hunk: _Hunk) -> Change | None:
    """Return a hunk's change without context lines; an insertion keeps one as its place."""
    changed = [index for index, (mark, _) in enumerate(hunk.lines) if mark != " "]
    if not changed:
        return None
    first, last = changed[0], changed[-1]
    if not any(mark != "+" for mark, _ in hunk.lines[first : last + 1]):
        if first > 0:
            first -= 1
        elif last + 1 < len(hunk.lines):
            last += 1
        else:
            return _creation(hunk)
    inner = hunk.lines[first : last + 1]
    start = hunk.start + sum(mark != "+" for mark, _ in hunk.lines[:first])
    lines = LineRange(start_line=start, end_line=start + sum(m != "+" for m, _ in inner) - 1)
    content = "".join(text for mark, text in inner if mark != "-")
    if not content:
        return Change(kind="delete", range=lines)
    return Change(kind="change", content=content, range=lines)


def _creation(hunk: _Hunk) -> Change | None:
    if hunk.start > 0:
        return None
    return Change(kind="create", content="".join(text for _, text in hunk.lines))
