"""The replacement of a selection by a model's answer, streamed piece by piece.

The rules of this module, however the answer is split into pieces: a code fence around the whole
answer, and text after that fence, are removed. The replacement begins and ends with the white space
of the selection, and has its line ends. A first line or a whole block without its indentation gets
the indentation of the selection.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})([^`\n]*)\n?")
_MAYBE_FENCE: Final = re.compile(r"[ \t]*(`{1,2}|~{1,2}|`{3,}[^`\n]*|~{3,}[^\n]*)?")
_ANY_FENCE: Final = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)
_BLOCK: Final = re.compile(
    r"^[ \t]*(?P<fence>`{3,}+|~{3,}+)[^`\n]*\n(?P<text>.*?)^[ \t]*(?P=fence)[`~]*[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_MOST_FENCES: Final = 20
_OPENERS: Final = (":", "{", "(", "[")
"""The line endings behind which the next line is indented deeper."""
_SIGNIFICANT: Final = 12
"""Characters from which on an equal text counts as a repetition."""
_OF_MARKDOWN: Final = {"markdown", "md"}


class Replacement:
    """The replacement of a selection while the answer streams.

    Attributes:
        size: characters of the answer so far.
    """

    def __init__(self, selected: str) -> None:
        self._selected = selected
        self.size = 0
        self._line_end = "\r\n" if "\r\n" in selected else "\n"
        plain = selected.replace("\r\n", "\n")
        body = plain.strip()
        first_line = plain.rfind("\n", 0, plain.find(body)) + 1 if body else 0
        self._blank_lines = plain[:first_line] if body else ""
        self._indent = _indent(plain[first_line:]) if body else ""
        self._tail = plain[len(plain.rstrip()) :] if body else "\n" * plain.endswith("\n")
        self._is_one_line = "\n" not in body
        self._is_flush = all(
            line.startswith(self._indent) for line in plain.split("\n") if line.strip()
        )
        self._has_fences = _ANY_FENCE.search(plain) is not None
        self._begins_with_fence = _FENCE.match(body) is not None
        self._line_start = ""  # the beginning of a line that may become a fence
        self._in_line = False
        self._held = ""  # part of the text only if more text follows
        self._fence: str | None = None
        self._is_over = False
        self._lost_indent = False
        self._lost_all: bool | None = None
        self._answer: list[str] = []  # without a fence around it
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def feed(self, answer: str) -> str:
        """Take a piece of the answer and return the next piece of the text."""
        self.size += len(answer)
        before = len(self._pieces)
        for piece in _LINES.findall(answer.replace("\r", "")):
            if self._is_over:
                break
            if self._in_line:
                self._answer.append(piece)
                self._write(piece)
            else:
                self._line_start += piece
                if not piece.endswith("\n") and _MAYBE_FENCE.fullmatch(self._line_start):
                    continue
                line, self._line_start = self._line_start, ""
                self._take_line(line)
            self._in_line = not piece.endswith("\n")
        return "".join(self._pieces[before:])

    def close(self) -> str:
        """End the answer and return the last piece of the text; empty for an empty answer."""
        before = len(self._pieces)
        if self._line_start and not self._is_over:
            self._take_line(self._line_start)
        self._is_over = True
        if self._pieces:
            self._append(self._tail)
        return "".join(self._pieces[before:])

    def corrected(self, before: str = "", after: str = "") -> str:
        """Return the whole text after `close`, with the corrections that need all of it.

        Text around a fenced block is removed, and so are repeated lines around the selection.
        """
        text = answer = "".join(self._answer)
        if not self._has_fences and self._fence is None:
            block = _block_in(text)
            text = text if block is None else block
        text = self._without_repetitions(_plain(before), _plain(after), text)
        return self.text if text == answer else self._text_for(text)

    def _without_repetitions(self, before: str, after: str, text: str) -> str:
        rest = text.lstrip().removeprefix(before)
        if _repeats(before, rest[:1]) and not self._selected.lstrip().startswith(before):
            text = rest.lstrip("\n")
        rest = text.rstrip().removesuffix(after)
        if _repeats(after, rest[-1:]) and not self._selected.rstrip().endswith(after):
            text = rest
        return text

    def _text_for(self, answer: str) -> str:
        """Return the whole text for a different answer."""
        replacement = Replacement(self._selected)
        replacement.feed(answer)
        replacement.close()
        return replacement.text

    def _take_line(self, line: str) -> None:
        """Take a line, or its beginning up to the first character that is not blank."""
        fence = _FENCE.fullmatch(line)
        if not self._pieces and not self._held:
            if not line.strip():
                return
            if self._fence is None and fence is not None and self._opens(fence[2]):
                self._fence = fence[1]
                return
        if fence is not None and self._closes(fence[1], fence[2]):
            if self._has_fences:  # it may close a fence inside the text
                self._held += line
            else:
                self._is_over = True
            return
        self._answer.append(line)
        self._write(self._indented(line))

    def _opens(self, language: str) -> bool:
        return not self._begins_with_fence or language.strip().lower() in _OF_MARKDOWN

    def _closes(self, fence: str, behind: str) -> bool:
        return self._fence is not None and fence.startswith(self._fence) and not behind.strip()

    def _indented(self, line: str) -> str:
        if not line.strip():
            return line
        if not self._pieces:
            if self._is_one_line and not self._indent:
                return line.lstrip(" \t")
            self._lost_indent = bool(self._indent) and not line[0].isspace()
            return self._indent + line if self._lost_indent else line
        if self._lost_indent and self._lost_all is None:
            within = self.text.endswith(_OPENERS) and _indent(line) == self._indent
            self._lost_all = self._is_flush and (within or not line.startswith(self._indent))
        return self._indent + line if self._lost_all else line

    def _write(self, text: str) -> None:
        if not text.strip():
            self._held += text
            return
        text = self._held + text
        certain = text.rstrip()
        self._held = text[len(certain) :]
        if not self._pieces:
            self._append(self._blank_lines)
        self._append(certain)

    def _append(self, text: str) -> None:
        if text:
            self._pieces.append(text.replace("\n", self._line_end))


def _block_in(text: str) -> str | None:
    """Return the content of the first fenced block, or None.

    The number of tries is limited: each unclosed fence costs a search to the end of the text.
    """
    for line in islice(_ANY_FENCE.finditer(text), _MOST_FENCES):
        if block := _BLOCK.match(text, line.start()):
            return block["text"]
    return None


def _repeats(around: str, beside: str) -> bool:
    """Return True if a removed text was a repetition, in lines of its own."""
    return len(around) >= _SIGNIFICANT and beside == "\n"


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]
