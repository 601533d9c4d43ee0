"""Keys in prompts: a server may redact them in the echo of a prompt."""

from __future__ import annotations

import re
from typing import Final

_HIDDEN: Final = re.compile(r"[^\w\s/]+")  # `***`, `••••`: no character of a key


def contains_key(message: str) -> bool:
    """Return whether a prompt is a login command with an argument."""
    words = message.split(maxsplit=1)
    return len(words) > 1 and words[0] == "/login"


def is_redacted_echo(text: str, message: str, *, is_key: bool) -> bool:
    """Return whether a text is the echo of a prompt with its key redacted.

    `is_key`: whether the whole prompt is a key, since the chat asked for one.
    """
    *before, last = text.split() or [""]
    if _HIDDEN.fullmatch(last) is None:
        return False
    words = message.split(maxsplit=2)
    return (is_key and not before) or (
        contains_key(message) and 0 < len(before) < len(words) and before == words[: len(before)]
    )
