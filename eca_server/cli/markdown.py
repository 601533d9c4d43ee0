"""Markdown and colours in a terminal, by rich (the extra `terminal`).

A block of an answer is shown as plain text until it is complete, then replaced by its rendering.
The text is printable before rich reads it. Links show their target, and HTML is text.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable

from markdown_it import MarkdownIt
from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment, Segments
from rich.text import Text

from eca_server.cli.output import Output

_TAIL = 8000  # characters of an incomplete block that can be visible
_FRAMES = 15  # a second
_COLUMNS = 80  # of a terminal of unknown width
_MARGIN = 2  # rows of the terminal that an incomplete block leaves free


class _Live(Live):
    """A text at the end of the output, painted a few times a second if it has changed."""

    has_changed = True

    def refresh(self) -> None:
        """Paint the text if it has changed, or for the last time."""
        if self.has_changed or not self.is_started:
            self.has_changed = False
            super().refresh()


class MarkdownOutput(Output):
    """Stdout of a terminal, for Markdown that arrives in pieces."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(highlight=False)
        if self._console.width < 1:  # the variable COLUMNS is 0
            self._console.width = _COLUMNS
        self._parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
        self._pending = ""
        self._has_blocks = False
        self._live: _Live | None = None

    def end_line(self) -> None:
        """Render what is pending; the next text begins a new block."""
        super().end_line()
        for block in self._blocks():
            self._render(block)
        self._pending = ""
        self.ended_line = True

    def _print(self, text: str) -> None:
        if not text:
            return
        self.ended_line = False
        self._pending += text
        if "\n" in text and self._can_be_complete():
            *complete, last = self._blocks()
            for block in complete:
                self._render(block)
            self._pending = last  # it may continue
        self._show_pending()

    def _can_be_complete(self) -> bool:
        """Return whether the last line that has ended can end a block: most do not."""
        last = self._pending[-_TAIL:].rpartition("\n")[0].rpartition("\n")[2].strip()
        return not last or last.startswith(("```", "~~~"))

    def _blocks(self) -> list[str]:
        """Return the pending text by its blocks, such as paragraphs and lists."""
        tokens = self._parser.parse(self._pending)
        starts = {token.map[0] for token in tokens if token.map and not token.level}
        lines = self._pending.splitlines(keepends=True)
        bounds = [0, *sorted(starts - {0}), len(lines)]
        return ["".join(lines[start:end]) for start, end in itertools.pairwise(bounds)]

    def _render(self, text: str) -> None:
        if not text.strip():
            return
        self._hide_pending()
        markdown = Markdown(text, hyperlinks=False)
        markdown.parsed = self._parser.parse(text)
        lines = self._console.render_lines(markdown, pad=False)
        shown = [number for number, line in enumerate(lines) if any(s.text.strip() for s in line)]
        if not shown:
            return
        if self._has_blocks:
            self._console.print()
        self._has_blocks = True
        for line in lines[shown[0] : shown[-1] + 1]:
            self._console.print(Segments([*line, Segment.line()]), end="")

    def _show_pending(self) -> None:
        """Show the incomplete block, at a rate that leaves the processor to the answer."""
        if self._live is not None:
            self._live.has_changed = True
            return
        if not self._pending.strip():
            return
        self._live = _Live(
            console=self._console,
            get_renderable=self._visible_end,
            refresh_per_second=_FRAMES,
            transient=True,
            redirect_stderr=sys.stderr.isatty(),
        )
        self._live.start(refresh=True)
        self._console.show_cursor(True)  # a stopped or killed process cannot show it again

    def _visible_end(self) -> Text:
        """Return the end of the incomplete block that fits the terminal."""
        most = max(1, self._console.height - _MARGIN)
        lines = self._pending[-_TAIL:].lstrip("\n").split("\n")[-most:]
        rows = Text("\n".join(lines)).wrap(self._console, self._console.width)
        return Text("\n").join(rows[-most:])

    def _hide_pending(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def print_rows(rows: Iterable[tuple[str, str]]) -> None:
    """Print rows that fit the terminal to stderr, each with its style."""
    console = Console(stderr=True, highlight=False)
    for row, style in rows:
        console.print(Text(row, style=style), soft_wrap=True)
