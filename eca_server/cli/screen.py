"""The output of the terminal commands, as good as the terminal and the installation allow.

A terminal gets Markdown and colours by the extra `terminal` (`markdown.py`). A pipe, a terminal
without capabilities, and an installation without the extra get the text as it is.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, TextIO

from eca_server.cli.output import Output

_NARROWEST: Final = 20  # columns
_INDENT: Final = re.compile(r" *(?:(?:-|\d+\.) )?")
"""The spaces and the mark of a list's item; what follows it never begins a line at its left."""


def is_capable(*streams: TextIO) -> bool:
    """Return whether the streams are terminals that can move the cursor."""
    return os.environ.get("TERM", "dumb") != "dumb" and all(each.isatty() for each in streams)


def fitted(text: str) -> str:
    """Return a text for stderr; a terminal gets its long lines broken between words."""
    if not sys.stderr.isatty():
        return text
    columns = max(shutil.get_terminal_size().columns - 1, _NARROWEST)
    return "".join(_fit(line, columns) for line in text.splitlines(keepends=True))


def _fit(line: str, columns: int) -> str:
    if len(line) <= columns:
        return line
    body = line.rstrip("\n")
    mark = _INDENT.match(body)
    indent = " " * len(mark[0]) if mark else ""
    filled = textwrap.fill(
        body,
        columns,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled + line[len(body) :]


def make_output() -> Output:
    """Return the output for an answer, which renders Markdown if stdout is a terminal."""
    if is_capable(sys.stdout):
        with suppress(ModuleNotFoundError):  # without the extra `terminal`
            from eca_server.cli.markdown import MarkdownOutput  # noqa: PLC0415

            return MarkdownOutput()
    return Output()


def write_rows(rows: Iterable[tuple[str, str]]) -> None:
    """Write rows to stderr, each with its style, in colour if stderr is a terminal."""
    if is_capable(sys.stderr):
        with suppress(ModuleNotFoundError):
            from eca_server.cli.markdown import print_rows  # noqa: PLC0415

            print_rows(rows)
            return
    sys.stderr.write("".join(f"{row}\n" for row, _ in rows))
