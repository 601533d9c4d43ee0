"""What stands around a selection in its file, so that the model knows where its text goes.

The rule it keeps: it is context and no more. A file that cannot be read, or that has been changed
in the editor since it was saved, costs the context and not the rewrite.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from eca_server.config.files import Unreadable, read_text

__all__ = ["Surroundings", "surroundings_in"]

LARGEST_FILE: Final = 2 * 2**20
"""Bytes of a file that is read."""

MOST_CHARACTERS: Final = 64 * 1024
"""Of what stands before a selection, and again of what stands behind it."""

PATIENCE: Final = 2.0
"""Seconds the disk has."""


@attrs.frozen
class Surroundings:
    """The text before and behind a selection, both of whole lines but where the selection cuts."""

    before: str = ""
    after: str = ""


async def surroundings_in(
    path: str | None, selected: str, *, line: int, most_lines: int
) -> Surroundings:
    """What stands around a selection; nothing where that cannot be told.

    Args:
        path: the file's.
        selected: the text.
        line: that it begins in, counted from 1; the text is looked for from there on.
        most_lines: how many lines both parts have together at most.
    """
    if not path or not selected.strip() or most_lines < 1:
        return Surroundings()
    with trio.move_on_after(PATIENCE):
        read = partial(read_text, Path(path), most=LARGEST_FILE)
        try:
            content = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
        except Unreadable:
            return Surroundings()
        return around(content, selected, line=line, most_lines=most_lines)
    return Surroundings()


def around(content: str, selected: str, *, line: int, most_lines: int) -> Surroundings:
    """The parts of a file before and behind a text in it, as much of them as may be."""
    lines = content.splitlines(keepends=True)
    begins = sum(map(len, lines[: max(0, line - 1)]))
    start = content.find(selected, begins)
    if start < 0:
        start = content.find(selected)
    if start < 0:
        return Surroundings()
    before = content[max(0, start - MOST_CHARACTERS) : start].splitlines(keepends=True)
    end = start + len(selected)
    after = content[end : end + MOST_CHARACTERS].splitlines(keepends=True)
    half = most_lines // 2
    fewer = min(len(before), max(half, most_lines - len(after)))
    return Surroundings(
        "".join(before[len(before) - fewer :]), "".join(after[: most_lines - fewer])
    )
