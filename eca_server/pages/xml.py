"""Any text as XML 1.0 can hold it: for reports that build servers read."""

from __future__ import annotations

import re
from typing import Final
from xml.sax.saxutils import escape, quoteattr

__all__ = ["xml_attribute", "xml_text"]

_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST: Final = 10_000


def xml_text(text: str) -> str:
    """Between tags: escaped, cut where it is long, and what XML cannot hold spelled out."""
    return escape(_legal(text))


def xml_attribute(text: str) -> str:
    """The same as the value of an attribute, with its quotes and in one line."""
    return quoteattr(_legal(text).replace("\n", " "))


def _legal(text: str) -> str:
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... (cut)"
    return _ILLEGAL.sub(lambda found: f"\\u{ord(found[0]):04x}", cut)
