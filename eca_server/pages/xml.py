"""Escaping of any text for XML 1.0, for the reports of build servers."""

from __future__ import annotations

import re
from typing import Final
from xml.sax.saxutils import escape, quoteattr

__all__ = ["xml_attribute", "xml_text"]

_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST: Final = 10_000


def xml_text(text: str) -> str:
    """Escape a text between tags; cut a long one, and replace illegal characters by their codes."""
    return escape(_legal(text))


def xml_attribute(text: str) -> str:
    """Escape and quote an attribute's value in the same way, in one line."""
    return quoteattr(_legal(text).replace("\n", " "))


def _legal(text: str) -> str:
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... (cut)"
    return _ILLEGAL.sub(lambda match: f"\\u{ord(match[0]):04x}", cut)
