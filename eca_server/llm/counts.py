"""Numbers of tokens as providers tell them.

The rule it keeps: what cannot be a number of tokens is unknown, so sums and prices never fail.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["token_count"]

_MOST: Final = 2**53  # what every reader of JSON holds exactly


def token_count(value: Any) -> int | None:
    """The count; None for what is none, below zero, or beyond all reason."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if is_count else None
