"""The block of code that an answer leaves open: by a stop, its end or an error.

A client that shows a chat as one Markdown text would show what follows as code, so its block is
ended in what is shown. The history has the exact answer.
"""

from __future__ import annotations

import re

from eca_protocol.messages import ChatContent, ChatTextContent

_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)")
_LONGEST_FENCE = 200


class OpenCode:
    """The block of code that an answer in Markdown has begun and not ended."""

    def __init__(self) -> None:
        self._fence = self._line = ""

    def read(self, content: ChatContent) -> None:
        """Read the next visible content of an answer: only the last texts in a row count."""
        if not isinstance(content, ChatTextContent):
            self._fence = self._line = ""
            return
        *lines, last = (self._line + content.text).split("\n")
        for line in lines:
            self._fence = _fence_after(self._fence, line)
        self._line = last[:_LONGEST_FENCE]

    @property
    def ending(self) -> ChatTextContent | None:
        """The text that ends the block; None: there is none."""
        fence = _fence_after(self._fence, self._line)
        return ChatTextContent(text="\n" * bool(self._line) + fence + "\n") if fence else None


def _fence_after(fence: str, line: str) -> str:
    """Return the indented fence of the block that is open after a line, or an empty text."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    indent, marks, rest = match.groups()
    if not fence:
        return "" if marks[0] == "`" in rest else indent + marks
    return "" if marks.startswith(fence.strip()) and not rest.strip() else fence
