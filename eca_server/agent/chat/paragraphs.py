"""The server's own texts as paragraphs of their own (ruling W-26).

Clients append each text of a turn to the text before it. A system text therefore begins with a
blank line if other text came before, and so does the text behind a system text.
"""

from __future__ import annotations

from eca_protocol.messages import ChatContent, ChatTextContent
from eca_server.client.content_formatting import Role


class Paragraphs:
    """The blank lines between the texts of one turn."""

    def __init__(self) -> None:
        self._before = ""
        self._is_behind_system_text = False

    def spaced(self, role: Role, content: ChatContent) -> ChatContent | None:
        """Return the content as it is written next, or None for a system text without words."""
        if not isinstance(content, ChatTextContent):
            return content
        text = content.text.strip("\n") if role == "system" else content.text
        if role == "user":
            self._before, self._is_behind_system_text = "", False
            return content
        if not text:
            return None if role == "system" else content
        if self._before and (role == "system" or self._is_behind_system_text):
            text = "\n" * _missing(self._before, text) + text
        self._before, self._is_behind_system_text = text, role == "system"
        return content if text == content.text else ChatTextContent(text=text)


def _missing(before: str, text: str) -> int:
    """Return how many line ends are missing to a blank line between two texts."""
    at_end = len(before) - len(before.rstrip("\n"))
    at_start = len(text) - len(text.lstrip("\n"))
    return max(0, 2 - at_end - at_start)
