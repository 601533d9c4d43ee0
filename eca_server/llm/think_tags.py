"""Reasoning between tags in the text of an answer. No I/O.

Only a tag at the start of the visible text counts; later ones are text.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["THINK_TAGS", "ThinkTags"]

THINK_TAGS = ("<think>", "</think>")
"""The usual tags around reasoning."""


class ThinkTags:
    """A splitter of text into reasoning between two tags at its start, and the text after it.

    Some templates put the opening tag into the prompt; then `open_from_start` is true. Neither tag
    may be empty.
    """

    def __init__(
        self, *, open_from_start: bool = False, tags: tuple[str, str] = THINK_TAGS
    ) -> None:
        self._open, self._close = tags
        self._state: Literal["start", "inside", "after"] = "inside" if open_from_start else "start"
        self._blank_so_far = True  # line ends next to the tags belong to neither side
        self._held = ""
        self.done = False

    def feed(self, text: str) -> tuple[str, str]:
        """Return the reasoning and the text in a piece, as far as they are certain."""
        text, self._held = self._held + text, ""
        if self._state == "start":
            stripped = text.lstrip()
            if not stripped.startswith(self._open):
                if self._open.startswith(stripped):
                    self._held = text
                    return "", ""
                self.done = True
                return "", text
            self._state, text = "inside", stripped.removeprefix(self._open)
        reasoning = ""
        if self._state == "inside":
            inside, tag, rest = text.partition(self._close)
            if not tag:
                cut = len(text) - _overlap(text, self._close)
                inside, self._held = text[:cut], text[cut:]
            reasoning = self._trimmed(inside)
            if not tag:
                return reasoning, ""
            self._state, self._blank_so_far, text = "after", True, rest
        visible = self._trimmed(text)
        self.done = bool(visible)
        return reasoning, visible

    def _trimmed(self, text: str) -> str:
        if self._blank_so_far:
            text = text.lstrip("\n")
            self._blank_so_far = not text
        return text

    def close(self) -> tuple[str, str]:
        """Return the reasoning and the text that were held back."""
        held, self._held = self._held, ""
        return (held, "") if self._state == "inside" else ("", held)


def _overlap(text: str, tag: str) -> int:
    """Return how many characters at the end of `text` may start `tag`."""
    longest = min(len(tag) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if text.endswith(tag[:n])), 0)
