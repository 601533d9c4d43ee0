"""Reasoning between tags in the text of an answer. No I/O.

Only a tag at the start of the visible text counts; later ones are text.
"""

from __future__ import annotations

from typing import Any, Literal, Unpack

from eca_server.models.events import (
    Event,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    TextDelta,
)
from eca_server.models.stream_decoder import DecoderOptions, StreamDecoder

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


class TaggedDecoder(StreamDecoder):
    """The decoder of an API whose text may contain reasoning between tags.

    Args:
        tags: the splitter of the text; None: tags are text.
    """

    def __init__(self, *, tags: ThinkTags | None, **options: Unpack[DecoderOptions]) -> None:
        super().__init__(**options)
        self._tags = tags
        self._reasonings = 0
        self._reasoning_open = False
        self._reasoning_field = ""
        self._reasoned_in_field = False

    @property
    def _is_plain(self) -> bool:
        """True if a piece of text is a delta as it is: no block is open and no text held back."""
        return self._tags is None and not self._reasoning_open and self.started

    def _content(self, content: str) -> list[Event]:
        if self._tags is None:
            return self._text(content)
        reasoning, text = self._tags.feed(content)
        if self._tags.done:
            self._tags = None
        return [*self._reason(reasoning, "tags"), *self._text(text)]

    def _end_tags(self) -> list[Event]:
        """Emit the text that was held back as a possible tag; later text has no tags."""
        if self._tags is None:
            return []
        reasoning, text = self._tags.close()
        self._tags = None
        return [*self._reason(reasoning, "tags"), *self._text(text)]

    def _text(self, text: str) -> list[Event]:
        if not text:
            return []
        self._has_content = True
        return [*self._end_reasoning(), TextDelta(text)]

    def _reason(self, text: str, field: str) -> list[Event]:
        """Emit a piece of reasoning that came in a field of the API, or between tags.

        Tags repeat a field: MiniMax sends both.
        """
        if not text or (field == "tags" and self._reasoned_in_field):
            return []
        self._reasoned_in_field = field != "tags"
        self._has_content = True
        opening = [] if self._reasoning_open else self._begin_reasoning(field)
        return [*opening, ReasoningDelta(f"reasoning_{self._reasonings}", text)]

    def _begin_reasoning(self, field: str) -> list[Event]:
        self._reasonings += 1
        self._reasoning_open, self._reasoning_field = True, field
        return [ReasoningStarted(f"reasoning_{self._reasonings}")]

    def _end_reasoning(self) -> list[Event]:
        if not self._reasoning_open:
            return []
        self._reasoning_open = False
        key = f"reasoning_{self._reasonings}"
        return [ReasoningFinished(key=key, opaque=self._reasoning_opaque())]

    def _reasoning_opaque(self) -> Any:
        """Return the JSON that the provider wants back with the block."""
        return None
