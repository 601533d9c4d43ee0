"""The Markdown of answers: links to sources on the web, and blocks of code that are left open."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator

from eca_protocol.messages import ChatContent, ChatTextContent, ChatURLContent

_SAFE_IN_A_LINK = "/:?#[]@!$&'*+,;=%~"
"""Characters that need no escape in a link of Markdown: those of URLs except brackets."""

_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)")
_LONGEST_FENCE = 200


class Sources:
    """The sources on the web that an answer cites (W-26); each is shown once."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def contents(self, url: str, title: str, *, is_linked: bool) -> Iterator[ChatContent]:
        """Yield the contents that show a new source; `is_linked`: the text has its link already."""
        if url in self._shown or not url.startswith(("https://", "http://")):
            return
        self._shown.add(url)
        words = " ".join((title or url).split())
        yield ChatURLContent(title=words, url=url)
        if not is_linked:
            yield ChatTextContent(text=f" {markdown_link(words, url)}")


def markdown_link(label: str, url: str) -> str:
    """Return a link of Markdown that shows a label of one line."""
    shown = re.sub(r"([\[\]\\])", r"\\\1", label)
    return f"[{shown}]({urllib.parse.quote(url, safe=_SAFE_IN_A_LINK)})"


class OpenCode:
    """The block of code that an answer in Markdown has begun and not ended.

    A client that shows a chat as one Markdown text would show what follows as code, so its block is
    ended in what is shown. The history has the exact answer.
    """

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
