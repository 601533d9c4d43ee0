"""The fenced blocks of code in a text that comes in pieces (`codeBlocks`; ruling W-50)."""

from __future__ import annotations

import re

from eca_protocol.draft.models import CodeBlock

__all__ = ["MAX_BLOCK", "CodeBlocks"]

MAX_BLOCK = 65_536
"""Characters of a block; a longer one is left to the text, so that frames and memory stay small."""

_FENCE = re.compile(r"[ \t]*(?:(`{3,})([^`]*)|(~{3,})(.*))")


class CodeBlocks:
    """Finds blocks; each is given once, with the piece that holds the last of it."""

    def __init__(self) -> None:
        self._line: list[str] = []
        self._is_plain_line = True
        self._block: _Block | None = None

    @property
    def is_at_line_start(self) -> bool:
        """Whether nothing of a line has come, as at the beginning."""
        return not any(self._line)

    def take_plain(self, piece: str) -> bool:
        """Whether a piece begins and ends no block, which is nearly all of them: it is taken."""
        if not self._is_plain_line or "`" in piece or "~" in piece:
            return False
        if "\n" in piece:
            whole, _, piece = piece.rpartition("\n")
            if self._block is not None:
                self._block.add("".join(self._line) + whole)
            self._line.clear()
        self._line.append(piece)
        return True

    def feed(self, piece: str) -> tuple[CodeBlock, ...]:
        """The blocks that end in this piece."""
        if self.take_plain(piece):
            return ()
        *lines, rest = piece.split("\n")
        blocks = []
        for line in lines:
            self._line.append(line)
            blocks += self._take("".join(self._line))
            self._line.clear()
        self._line.append(rest)
        self._is_plain_line = (self._is_plain_line or bool(lines)) and not (
            "`" in rest or "~" in rest
        )
        return tuple(blocks)

    def close(self) -> tuple[CodeBlock, ...]:
        """The block that the end of the text ends, if there is one; then another text begins."""
        line = "".join(self._line)
        blocks = self._take(line) if line else []
        if self._block is not None:
            blocks += self._block.whole()
        self._line, self._is_plain_line, self._block = [], True, None
        return tuple(blocks)

    def _take(self, line: str) -> list[CodeBlock]:
        fence = _FENCE.fullmatch(line.removesuffix("\r"))
        if self._block is None:
            if fence:
                self._block = _Block(fence)
            return []
        if fence and self._block.is_ended_by(fence):
            blocks, self._block = self._block.whole(), None
            return blocks
        self._block.add(line)
        return []


class _Block:
    def __init__(self, fence: re.Match[str]) -> None:
        self._marks, info = _parts(fence)
        self._language = info.split()[0] if info.strip() else None
        self._indent = len(fence[0]) - len(fence[0].lstrip())
        self._texts: list[str] = []
        self._size = 0

    def is_ended_by(self, fence: re.Match[str]) -> bool:
        marks, info = _parts(fence)
        return marks.startswith(self._marks) and not info.strip()

    def add(self, lines: str) -> None:
        self._size += len(lines) + 1
        if self._size <= MAX_BLOCK:
            self._texts.append(lines)

    def whole(self) -> list[CodeBlock]:
        if self._size > MAX_BLOCK:
            return []
        lines = (line.removesuffix("\r") for text in self._texts for line in text.split("\n"))
        code = "\n".join(line[self._indented(line) :] for line in lines)
        return [CodeBlock(code=code, language=self._language)]

    def _indented(self, line: str) -> int:
        """How far the line is indented, at most as far as the block."""
        return min(self._indent, len(line) - len(line.lstrip()))


def _parts(fence: re.Match[str]) -> tuple[str, str]:
    """The fence's marks, and what stands behind them."""
    return (fence[1], fence[2]) if fence[1] else (fence[3], fence[4])
