"""The diff of any two texts, applied to the first, gives the second, and its counts are right."""

from __future__ import annotations

import re
from collections.abc import Sequence

from runner import instrumented, main, texts

with instrumented():
    from eca_protocol.draft.file_changes import parse_changes
    from eca_server.agent.tools.diff import equal_runs, file_change, split_lines
    from eca_server.agent.tools.output import Cap

WHOLE = Cap(lines=10**9, size=10**9)
HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def check(data: bytes) -> None:
    before, after = texts(data, 2)
    check_diff(before, after)
    check_diff(after, before)


def check_diff(before: str, after: str) -> None:
    old, new = split_lines(before), split_lines(after)
    assert "".join(old) == before
    at_old = at_new = 0
    for run in equal_runs(old, new):
        assert at_old <= run.old
        assert at_new <= run.new
        at_old, at_new = run.old + run.size, run.new + run.size
        assert old[run.old : at_old] == new[run.new : at_new]
    change = file_change("/a", before, after, cap=WHOLE)
    assert applied(plain(old), change.diff) == plain(new)
    marks = [line[:1] for line in change.diff.split("\n")]
    assert (marks.count("+"), marks.count("-")) == (change.lines_added, change.lines_removed)
    assert (change.diff == "") == (before == after)
    changes = parse_changes(change.diff)
    assert changes is not None
    assert (not changes) == (before == after)


def plain(lines: Sequence[str]) -> list[str]:
    """Return lines without the kind of their ends, which no diff shows."""
    bare = [line.rstrip("\r\n") for line in lines]
    return [text if text == line else f"{text}\n" for text, line in zip(bare, lines, strict=True)]


def applied(old: Sequence[str], diff: str) -> list[str]:
    """Apply unified hunks to a file, without the tolerance of `patch`."""
    result: list[str] = []
    at = 0
    lines = diff.split("\n") if diff else []
    while lines:
        header = HEADER.fullmatch(lines.pop(0))
        assert header, diff
        old_size, new_size = (1 if size is None else int(size) for size in header.group(2, 4))
        start = int(header[1]) - bool(old_size)
        assert start >= at
        result += old[at:start]
        assert len(result) == int(header[3]) - bool(new_size)
        at, end, until = start, start + old_size, len(result) + new_size
        while at < end or len(result) < until:
            mark, text = lines[0][:1], lines.pop(0)[1:]
            line = text if lines and lines[0].startswith("\\") else f"{text}\n"
            if line == text:
                lines.pop(0)
            if mark in " -":
                assert old[at] == line
                at += 1
            if mark in " +":
                result.append(line)
        assert (at, len(result)) == (end, until)
    return result + list(old[at:])


if __name__ == "__main__":
    main("diff", check)
