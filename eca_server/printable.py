r"""Untrusted text made safe: it can neither control a terminal nor hide characters.

Invisible characters are control characters (C0 but tab and newline, DEL, C1), controls of writing
direction, zero-width and tag characters, fillers that look like a blank, and lone surrogates. For
people each one is shown as its Python escape (`\x1b`, `\u202e`), because a command with one is not
the command that it seems to be. ESC and the C1 controls are among them, so a control sequence
becomes plain text, even if it arrives in pieces. For models and editors they are removed.

Joiners (U+200C, U+200D) are orthography between letters of many scripts and in emoji, and invisible
elsewhere. So are repeated variation selectors.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

LONGEST_NAME: Final = 80
"""Characters of a file's name in the title of a tool call."""

_ALWAYS: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ud800-\udfff\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_BLANK: Final = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0"
_JOINS: Final = "\u200c\u200d"
_LETTER: Final = f"[^\\s{_ALWAYS}{_BLANK}{_JOINS}]"
# Patterns as texts: a start that prints nothing compiles none of them, and `re` caches them.
_ALWAYS_INVISIBLE: Final = f"[{_ALWAYS}]"
_INVISIBLE: Final = (
    f"[{_ALWAYS}{_BLANK}]|(?<!{_LETTER})[{_JOINS}]|[{_JOINS}](?!{_LETTER})"
    "|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]"
)
_SUSPECT: Final = f"[{_ALWAYS}{_BLANK}{_JOINS}\ufe00-\ufe0f]"
"""A set with all characters that `_INVISIBLE` matches; its search takes an eighth of the time.

A server may send megabytes without any of them.
"""
_INVISIBLE_IN_A_LINE: Final = f"[\t\n]|{_INVISIBLE}"
_NO_BYTE: Final = "[\ud800-\udc7f\udd00-\udfff]"  # surrogates that encode no byte
_ESCAPES: Final = r"(?:\\x[0-9a-f]{2})+|\\[ntr]|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}"


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def printable_line(text: str, *, longest: int | None = None) -> str:
    """Return a text as one line for people: invisible characters and newlines are escaped.

    `longest`: limit in characters, beyond which the text is cut with `...`; None: no limit.
    """
    is_cut = longest is not None and len(text) > longest
    return re.sub(_INVISIBLE_IN_A_LINE, _escape, text[:longest]) + ("..." if is_cut else "")


def printable_path(path: str) -> str:
    """Return a path on one line; invalid UTF-8 and invisible characters are escaped."""
    text = re.sub(_NO_BYTE, "\ufffd", path)
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return printable_line(text)


def path_of_printable(text: str) -> str:
    """Return a path whose `printable_path` is a text, or the text if there is none."""
    path = re.sub(_ESCAPES, _unescape, text)
    return path if printable_path(path) == text else text


def _unescape(match: re.Match[str]) -> str:
    characters = match[0].encode().decode("unicode_escape", "replace")
    if match[0].startswith("\\x"):
        return characters.encode("latin-1").decode("utf-8", "surrogateescape")
    return characters


def printable_lines(text: str) -> str:
    """Return a text for people: lines and tabs stay, invisible characters are escaped."""
    text = text.replace("\r\n", "\n")
    return re.sub(_INVISIBLE, _escape, text) if re.search(_SUSPECT, text) else text


def printable_json(text: str) -> str:
    """Return the JSON text with its invisible characters as JSON escapes."""
    return re.sub(_INVISIBLE, lambda match: json.dumps(match[0])[1:-1], text)


def enumeration(names: Sequence[str], most: int) -> str:
    """Return the first names with commas between them, and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def visible(text: str) -> str:
    """Return a text without invisible characters, for a model or an editor; lines and tabs stay."""
    return re.sub(_INVISIBLE, "", text) if re.search(_SUSPECT, text) else text


class Printer:
    """A converter to printable text for a text that arrives in pieces."""

    def __init__(self) -> None:
        self._ends_in_return = False

    def feed(self, piece: str) -> str:
        """Return the printable text so far; a final carriage return is held back."""
        text = f"\r{piece}" if self._ends_in_return else piece
        self._ends_in_return = text.endswith("\r")
        if self._ends_in_return:
            text = text[:-1]
        return re.sub(_ALWAYS_INVISIBLE, _escape, text.replace("\r\n", "\n"))

    def flush(self) -> str:
        """Return the rest, at the end of the text."""
        rest, self._ends_in_return = "\\r" if self._ends_in_return else "", False
        return rest


def rows(text: str, width: int) -> Iterator[str]:
    """Yield printable lines cut so that a terminal wraps none of them; tabs become blanks."""
    for line in text.expandtabs(4).split("\n"):
        row, remaining = "", width
        for character in line:
            cells = _cells(character)
            if cells > remaining:
                yield row
                row, remaining = "", width
            row += character
            remaining -= cells
        yield row


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" or character > "\u2fff" else 1
