"""Sources on the web as contents (W-26): a `url` content, and a link in the text."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator

from eca_protocol.messages import ChatContent, ChatTextContent, ChatURLContent

_SAFE_IN_A_LINK = "/:?#[]@!$&'*+,;=%~"
"""Characters that need no escape in a link of Markdown: those of URLs except brackets."""


def source_contents(url: str, title: str, *, is_linked: bool) -> Iterator[ChatContent]:
    """Yield the contents that show a source; `is_linked`: the text has its link already."""
    words = " ".join((title or url).split())
    yield ChatURLContent(title=words, url=url)
    if not is_linked:
        yield ChatTextContent(text=f" {markdown_link(words, url)}")


def markdown_link(label: str, url: str) -> str:
    """Return a link of Markdown that shows a label of one line."""
    shown = re.sub(r"([\[\]\\])", r"\\\1", label)
    return f"[{shown}]({urllib.parse.quote(url, safe=_SAFE_IN_A_LINK)})"
