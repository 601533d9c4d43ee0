"""A model's answer as the text that takes a selection's place, piece by piece as it comes.

The rules it keeps, however the answer is cut into pieces: a code fence around the whole answer is
no part of it, nor is what stands behind that fence; the text begins and ends with the white space
that the selection began and ended with, and has its line ends; a first line, or a whole block, that
lost its indentation gets it back.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

__all__ = ["Replacement"]

_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})([^`\n]*)\n?")
_MAYBE_FENCE: Final = re.compile(r"[ \t]*(`{1,2}|~{1,2}|`{3,}[^`\n]*|~{3,}[^\n]*)?")
_ANY_FENCE: Final = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)
_BLOCK: Final = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^`\n]*\n(?P<text>.*?)^[ \t]*(?P=fence)[`~]*[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_MOST_FENCES: Final = 20
_OPENERS: Final = (":", "{", "(", "[")
"""How a line ends behind which the next is deeper."""
_TELLING: Final = 12
"""Characters by which a text is taken to repeat another."""
_OF_MARKDOWN: Final = {"markdown", "md"}


class Replacement:
    """What takes the place of `selected`, as it grows.

    Args:
        selected: the user's text.

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
        self._begun = ""  # the beginning of a line of which it is not known yet what it is
        self._in_line = False
        self._held = ""  # what is part of the text only if more text follows
        self._fence: str | None = None
        self._is_over = False
        self._lost_indent = False
        self._lost_all: bool | None = None
        self._answer: list[str] = []  # without a fence around it
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """What was given out so far."""
        return "".join(self._pieces)

    def feed(self, answer: str) -> str:
        """Take the next piece of the answer; the piece of the text that is certain now."""
        self.size += len(answer)
        before = len(self._pieces)
        for piece in _LINES.findall(answer.replace("\r", "")):
            if self._is_over:
                break
            if self._in_line:
                self._answer.append(piece)
                self._write(piece)
            else:
                self._begun += piece
                if not piece.endswith("\n") and _MAYBE_FENCE.fullmatch(self._begun):
                    continue
                line, self._begun = self._begun, ""
                self._take_line(line)
            self._in_line = not piece.endswith("\n")
        return "".join(self._pieces[before:])

    def close(self) -> str:
        """The answer is at its end; the last piece of the text. An answer of nothing has none."""
        before = len(self._pieces)
        if self._begun and not self._is_over:
            self._take_line(self._begun)
        self._is_over = True
        if self._pieces:
            self._give(self._tail)
        return "".join(self._pieces[before:])

    def amended(self, before: str = "", after: str = "") -> str:
        """The whole text, once closed, without what can be told only when all of it is there.

        That are words around a fenced block, and lines around the selection that were repeated.

        Args:
            before: what stands before the selection.
            after: what stands behind it.
        """
        text = answer = "".join(self._answer)
        if not self._has_fences and self._fence is None:
            block = _block_in(text)
            text = text if block is None else block
        text = self._without(_plain(before), _plain(after), text)
        return self.text if text == answer else self._instead(text)

    def _without(self, before: str, after: str, text: str) -> str:
        kept = text.lstrip().removeprefix(before)
        if _repeats(before, kept[:1]) and not self._selected.lstrip().startswith(before):
            text = kept.lstrip("\n")
        kept = text.rstrip().removesuffix(after)
        if _repeats(after, kept[-1:]) and not self._selected.rstrip().endswith(after):
            text = kept
        return text

    def _instead(self, answer: str) -> str:
        """The whole text, had this been the answer."""
        another = Replacement(self._selected)
        another.feed(answer)
        another.close()
        return another.text

    def _take_line(self, line: str) -> None:
        """A line of which the beginning is here at least, up to its first character to be seen."""
        fence = _FENCE.fullmatch(line)
        if not self._pieces and not self._held:
            if not line.strip():
                return
            if self._fence is None and fence is not None and self._opens(fence[2]):
                self._fence = fence[1]
                return
        if fence is not None and self._closes(fence[1], fence[2]):
            if self._has_fences:  # it may be the end of one inside
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
        kept = text.rstrip()
        self._held = text[len(kept) :]
        if not self._pieces:
            self._give(self._blank_lines)
        self._give(kept)

    def _give(self, text: str) -> None:
        if text:
            self._pieces.append(text.replace("\n", self._line_end))


def _block_in(text: str) -> str | None:
    """What stands in the first fenced block; None if there is none.

    A model that goes round in circles opens many and closes none: each is sought to the end.
    """
    for line in islice(_ANY_FENCE.finditer(text), _MOST_FENCES):
        if block := _BLOCK.match(text, line.start()):
            return block["text"]
    return None


def _repeats(around: str, beside: str) -> bool:
    """Whether what was taken off a text stood there in lines of its own, and was no accident."""
    return len(around) >= _TELLING and beside == "\n"


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]
