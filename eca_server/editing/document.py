"""A document with the cursor in it, and what a model's answer is at that place.

The rule it keeps: a completion is what stands at the cursor and nothing that stands there already.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

__all__ = ["Document", "NoSuchPlace", "completion_of", "gap_filled", "split_at"]

MOST_BEFORE: Final = 12_000
MOST_AFTER: Final = 4_000
"""Characters before and behind the cursor that count."""

MOST_LINES: Final = 40
"""Of a completion."""

_FENCED: Final = re.compile(r"\s*(`{3,}|~{3,})[^\n]*\n(?P<text>.*?)(\n?[ \t]*\1`*\s*)?", re.DOTALL)
_TELLING: Final = 3
"""Characters by which one text is taken to repeat another."""


class NoSuchPlace(ValueError):
    """The document has no such place; the message says what was expected."""


@attrs.frozen(kw_only=True)
class Document:
    """The text around the cursor, its lines' ends each one character.

    Attributes:
        before: the last of what stands before the cursor.
        after: the first of what stands behind it.
        length: characters before the cursor, all of them.
        rest: characters behind it, all of them.
        line_end: what the user's lines end with.
    """

    before: str
    after: str
    length: int
    rest: int
    line_end: str = "\n"

    @property
    def line_before(self) -> str:
        """The cursor's line up to it."""
        return self.before.rpartition("\n")[2]

    @property
    def line_after(self) -> str:
        """The cursor's line from it on."""
        return self.after.partition("\n")[0]


def split_at(text: str, *, line: int, character: int) -> Document:
    """A document with the cursor at a place, both counted from 1.

    Raises:
        NoSuchPlace: it has no such line, or a number is less than one.
    """
    if min(line, character) < 1:
        raise NoSuchPlace(f"expected numbers from 1 on, got {line} and {character}")
    line_end = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if not start:
            lines = text.count("\n") + 1
            raise NoSuchPlace(f"line: expected a number from 1 to {lines}, got {line}")
    end = text.find("\n", start)
    cursor = min(start + character - 1, len(text) if end < 0 else end)
    return Document(
        before=text[max(0, cursor - MOST_BEFORE) : cursor],
        after=text[cursor : cursor + MOST_AFTER],
        length=cursor,
        rest=len(text) - cursor,
        line_end=line_end,
    )


def completion_of(answer: str, document: Document) -> str:
    """What of a chat model's answer stands at the cursor; empty if nothing."""
    text = answer.replace("\r", "")
    if fenced := _FENCED.fullmatch(text):
        text = fenced["text"]
    for repeated in (document.line_before, document.line_before.lstrip()):
        if len(repeated.strip()) >= _TELLING and text.startswith(repeated):
            text = text[len(repeated) :]
            break
    return gap_filled(text, document)


def gap_filled(text: str, document: Document) -> str:
    """A text for the cursor's place, without what stands behind the cursor already."""
    text = "".join(text.replace("\r", "").splitlines(keepends=True)[:MOST_LINES]).rstrip()
    behind = document.line_after.strip()
    if behind and text.endswith(behind) and not _leaves_open(text[: -len(behind)]):
        text = text[: -len(behind)].rstrip()
    if text and document.after.strip().startswith(text.strip()):
        return ""
    return text


def _leaves_open(text: str) -> bool:
    """Whether brackets are opened that are not closed: what closes them belongs to the text."""
    return any(text.count(opening) > text.count(closing) for opening, closing in ("()", "[]", "{}"))
