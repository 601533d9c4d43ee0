"""The text around a selection in its file, as context for the model.

The rule of this module: the context is optional. If the file cannot be read, or has unsaved changes
in the editor, the rewrite runs without context.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from eca_server.config.files import Unreadable, read_text

LARGEST_FILE: Final = 2 * 2**20
"""The maximum size of a file that is read, in bytes."""

MOST_CHARACTERS: Final = 64 * 1024
"""The maximum of characters before a selection, and again after it."""

PATIENCE: Final = 2.0
"""Seconds after which the disk is not waited for."""


@attrs.frozen
class Surroundings:
    """The text before and after a selection, in whole lines except next to the selection."""

    before: str = ""
    after: str = ""


async def read_surroundings(
    path: str | None, selected: str, *, line: int, most_lines: int
) -> Surroundings:
    """Read the text around a selection; return an empty result if it cannot be found.

    Args:
        path: the path of the file.
        selected: the selected text.
        line: the line, from 1, at which the search for the text starts.
        most_lines: the maximum number of lines of both parts together.
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
    """Return the parts of a file before and after a text in it, limited in size."""
    lines = content.splitlines(keepends=True)
    offset = sum(map(len, lines[: max(0, line - 1)]))
    start = content.find(selected, offset)
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
