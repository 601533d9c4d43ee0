"""The check of a manifest's regular expressions before anything is started.

The package `regex`, which searches for them, compiles a counted repetition as that many copies, and
copies of copies have no limit of their own: `(a{65000}){65000}` would need all memory. The standard
library's `re`, which checks the syntax here, compiles no copies.
"""

from __future__ import annotations

import math
import re
from typing import Final

_MOST_PARTS: Final = 1_000_000  # of a compiled pattern: about 300 MB
_TOKEN: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\()|(?P<close>\))"
    r"|\{(?P<least>\d+)(?:,\d*)?\}|.",
    re.DOTALL,
)
_COUNT: Final = re.compile(r"\{(\d+)")
_UNCLEAR: Final = re.compile(r"\(\?(?:#|[a-zA-Z]*x)|\[:")
"""Comments, a verbose pattern, and sets such as `[[:alpha:])]`, which end earlier for `re`."""


def pattern_problem(pattern: str) -> str | None:
    """Return why a pattern cannot be used, or None."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError, ValueError) as error:
        return f"expected a regular expression: {error}"
    if _parts(pattern) > _MOST_PARTS:
        return (
            "expected a smaller regular expression: its counted repetitions stand for more than "
            f"{_MOST_PARTS:,} parts"
        )
    return None


def _parts(pattern: str) -> int:
    """Return about how many parts a pattern has with the copies of its repetitions, or more."""
    if _UNCLEAR.search(pattern):  # it is not known what a repetition copies
        return len(pattern) * math.prod(int(count) or 1 for count in _COUNT.findall(pattern))
    groups = [0]  # the parts of each open group, without its last item
    last = 0
    for token in _TOKEN.finditer(pattern):
        if token["least"]:
            last *= max(int(token["least"]), 1)
            continue
        groups[-1] += last
        last = 1
        if token["open"]:
            groups.append(0)
            last = 0
        elif token["close"] and len(groups) > 1:
            last = groups.pop() + 1
    return sum(groups) + last
