"""Excerpts of an agent's texts, cut between words: half a key would escape the masking."""

from __future__ import annotations

import re


def first_words(text: str | bytes, longest: int) -> str:
    """Return a text, or its first words and `...` if it has more than `longest` characters."""
    if isinstance(text, bytes):
        text = text[: 4 * (longest + 1)].decode("utf-8", "replace")
    if len(text) <= longest:
        return text
    return re.sub(r"\S*\Z", "", text[:longest], count=1) + "..."


def last_words(text: str, longest: int) -> str:
    """Return a text, or its last words if it has more than `longest` characters."""
    if len(text) <= longest:
        return text
    return re.sub(r"\A\S+\s+(?=\S)", "", text[-longest:])
