"""A key that a user types in: a server may hide it where it says the user's words."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["holds_key", "is_hidden_in"]

_HIDDEN: Final = re.compile(r"[^\w\s/]+")  # `***`, `••••`: nothing that a key could be made of


def holds_key(message: str) -> bool:
    """Whether a prompt is a login command with something behind it."""
    words = message.split(maxsplit=1)
    return len(words) > 1 and words[0] == "/login"


def is_hidden_in(text: str, message: str, *, is_key: bool) -> bool:
    """Whether a text is that prompt without the key.

    Args:
        text: what the server says.
        message: the prompt.
        is_key: the chat waited for a key, which the prompt is then as a whole.
    """
    *said, last = text.split() or [""]
    if _HIDDEN.fullmatch(last) is None:
        return False
    words = message.split(maxsplit=2)
    return (is_key and not said) or (
        holds_key(message) and 0 < len(said) < len(words) and said == words[: len(said)]
    )
