"""The fenced code blocks in a streamed text (`codeBlocks`; ruling W-50)."""

from __future__ import annotations

import re

from eca_protocol.draft.models import CodeBlock

MAX_BLOCK = 65_536
"""The limit of a block, in characters; a longer one is omitted, to limit frames and memory."""

_FENCE = re.compile(r"[ \t]*(?:(`{3,})([^`]*)|(~{3,})(.*))")


class CodeBlocks:
    """A finder of code blocks; each is returned once, with the piece that ends it."""

    def __init__(self) -> None:
        self._line: list[str] = []
        self._is_plain_line = True
        self._block: _Block | None = None

    @property
    def is_at_line_start(self) -> bool:
        """True at the beginning of the text or of a line."""
        return not any(self._line)

    def take_plain(self, piece: str) -> bool:
        """Take a piece if it can begin or end no block; return False if it was not taken."""
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
        """Take a piece of the text; return the blocks that end in it."""
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
        """Take the end of the text; return the block that it ends, if any. Reset the state."""
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
        return min(self._indent, len(line) - len(line.lstrip()))


def _parts(fence: re.Match[str]) -> tuple[str, str]:
    return (fence[1], fence[2]) if fence[1] else (fence[3], fence[4])
