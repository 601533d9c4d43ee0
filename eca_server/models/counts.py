"""Token counts and costs of providers.

An impossible count is unknown, so that sums and prices never fail.
"""

from __future__ import annotations

from typing import Any, Final

_MOST: Final = 2**53  # what every reader of JSON holds exactly


def token_count(value: Any) -> int | None:
    """Return the count; None if it is invalid, negative, or implausibly large."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if is_count else None


def cost(value: Any) -> float | None:
    """Return the cost; None if it is no number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
