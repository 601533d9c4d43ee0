"""A document with a cursor, and the extraction of a completion from a model's answer.

The rule of this module: a completion contains no text that is already at the cursor.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

MOST_BEFORE: Final = 12_000
MOST_AFTER: Final = 4_000
"""The maximum of characters before and after the cursor that are sent to the model."""

MOST_LINES: Final = 40
"""The maximum of lines of a completion."""

_OPENING: Final = re.compile(r"\s*(```|~~~)[^\n]*\n")
_SIGNIFICANT: Final = 3
"""Characters from which on an equal text counts as a repetition."""


class InvalidPosition(ValueError):
    """A line or character that the document does not have."""


@attrs.frozen(kw_only=True)
class Document:
    """The text around the cursor, with each line end as one character.

    Attributes:
        before: the text before the cursor, limited.
        after: the text after the cursor, limited.
        length: the number of all characters before the cursor.
        rest: the number of all characters after the cursor.
    """

    before: str
    after: str
    length: int
    rest: int
    line_end: str = "\n"

    @property
    def line_before(self) -> str:
        """The text before the cursor in its line."""
        return self.before.rpartition("\n")[2]

    @property
    def line_after(self) -> str:
        """The text after the cursor in its line."""
        return self.after.partition("\n")[0]


def split_at(text: str, *, line: int, character: int) -> Document:
    """Return a document with the cursor at a position; line and character count from 1.

    Raises:
        InvalidPosition: the document has no such line, or a number is less than 1.
    """
    if min(line, character) < 1:
        raise InvalidPosition(f"expected numbers from 1 on, got {line} and {character}")
    line_end = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if not start:
            lines = text.count("\n") + 1
            raise InvalidPosition(f"line: expected a number from 1 to {lines}, got {line}")
    end = text.find("\n", start)
    cursor = min(start + character - 1, len(text) if end < 0 else end)
    return Document(
        before=text[max(0, cursor - MOST_BEFORE) : cursor],
        after=text[cursor : cursor + MOST_AFTER],
        length=cursor,
        rest=len(text) - cursor,
        line_end=line_end,
    )


def extract_completion(answer: str, document: Document) -> str:
    """Return the text for the cursor from a chat model's answer, possibly empty."""
    text = _unfenced(answer.replace("\r", ""))
    for repeated in (document.line_before, document.line_before.lstrip()):
        if len(repeated.strip()) >= _SIGNIFICANT and text.startswith(repeated):
            text = text[len(repeated) :]
            break
    return trim_completion(text, document)


def _unfenced(text: str) -> str:
    """Return the content of a text that is one fenced block, closed or not, else the text."""
    opening = _OPENING.match(text)
    if opening is None:
        return text
    content = text[opening.end() :]
    end = content.rstrip()
    before = end.rstrip(opening[1][0])
    return before.rstrip(" \t").removesuffix("\n") if end.endswith(opening[1]) else content


def trim_completion(text: str, document: Document) -> str:
    """Return a completion without the text that is already after the cursor."""
    text = "".join(text.replace("\r", "").splitlines(keepends=True)[:MOST_LINES]).rstrip()
    behind = document.line_after.strip()
    if behind and text.endswith(behind) and not _leaves_open(text[: -len(behind)]):
        text = text[: -len(behind)].rstrip()
    if text and document.after.strip().startswith(text.strip()):
        return ""
    return text


def _leaves_open(text: str) -> bool:
    return any(text.count(opening) > text.count(closing) for opening, closing in ("()", "[]", "{}"))
