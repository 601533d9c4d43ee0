"""Thinking that stands in an answer's text, between tags, and is to be told from it. No I/O.

The rule it keeps: only the first visible thing is such a tag; text that mentions one is text.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["THINK_TAGS", "ThinkTags"]

THINK_TAGS = ("<think>", "</think>")
"""What usually begins a thought, and what ends it."""


class ThinkTags:
    """Separates what stands between two tags at the start of a text from the text behind it.

    Only the first visible thing can be such a tag: text that mentions one later is text. Some
    templates put the opening tag into the prompt; then `open_from_start` says so. Neither tag may
    be empty.
    """

    def __init__(
        self, *, open_from_start: bool = False, tags: tuple[str, str] = THINK_TAGS
    ) -> None:
        self._open, self._close = tags
        self._state: Literal["start", "inside", "behind"] = "inside" if open_from_start else "start"
        self._blank_so_far = True  # line ends beside the tags belong to neither side
        self._held = ""
        self.done = False

    def feed(self, text: str) -> tuple[str, str]:
        """Returns what of it is reasoning and what is text, as far as it can be told."""
        text, self._held = self._held + text, ""
        if self._state == "start":
            begun = text.lstrip()
            if not begun.startswith(self._open):
                if self._open.startswith(begun):
                    self._held = text
                    return "", ""
                self.done = True
                return "", text
            self._state, text = "inside", begun.removeprefix(self._open)
        reasoning = ""
        if self._state == "inside":
            inside, found, rest = text.partition(self._close)
            if not found:
                cut = len(text) - _overlap(text, self._close)
                inside, self._held = text[:cut], text[cut:]
            reasoning = self._trimmed(inside)
            if not found:
                return reasoning, ""
            self._state, self._blank_so_far, text = "behind", True, rest
        visible = self._trimmed(text)
        self.done = bool(visible)
        return reasoning, visible

    def _trimmed(self, text: str) -> str:
        if self._blank_so_far:
            text = text.lstrip("\n")
            self._blank_so_far = not text
        return text

    def close(self) -> tuple[str, str]:
        """Returns what was held back."""
        held, self._held = self._held, ""
        return (held, "") if self._state == "inside" else ("", held)


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of `text` may be the beginning of `tag`."""
    longest = min(len(tag) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if text.endswith(tag[:n])), 0)
