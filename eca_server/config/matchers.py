r"""The patterns of `argsMatchers` and `disabledTools`: they cannot hold the server up.

They run on text a model wrote, so each search has a time limit, which the standard library's
`re` does not offer. What would make the compiler itself heavy is refused here,
like `((a{999}){999}){9}`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

__all__ = ["BadMatcher", "compile_matcher", "matches_name"]

_LONGEST = 1_000
_MOST_COPIES = 1_000  # of a part, by all its counted repetitions together
_NAME_SECONDS = 0.01  # for a pattern on one name: there may be hundreds of them
_PLAIN = re.compile(r"[\w .:/@-]*")  # a dot is part of a name more often than not
_COUNTED = re.compile(r"\{(?:\d*,)?(\d+)\}|\{(\d+),\}")


class BadMatcher(ValueError):
    """A pattern that cannot be used; the message shows nothing of it."""


def compile_matcher(pattern: str, *, dot_is_all: bool = False) -> regex.Pattern[str]:
    """The compiled pattern.

    Args:
        pattern: as configured.
        dot_is_all: a dot matches line breaks as well.

    Raises:
        BadMatcher: it is no regular expression, or too large.
    """
    # 45 ms, and most configurations have no matcher.
    import regex  # noqa: PLC0415

    if len(pattern) > _LONGEST:
        raise BadMatcher(f"expected at most {_LONGEST} characters, got {len(pattern)}")
    copies = 1
    for upper, lower in _COUNTED.findall(pattern):
        copies *= max(1, int(upper or lower))
    if copies > _MOST_COPIES:
        raise BadMatcher(f"expected at most {_MOST_COPIES} counted repetitions, got {copies}")
    try:
        return regex.compile(pattern, regex.DOTALL if dot_is_all else 0)
    except regex.error as fault:
        raise BadMatcher(f"expected a regular expression, got: {fault}") from None
    except (RecursionError, OverflowError, MemoryError):
        raise BadMatcher("expected a regular expression, got one nested too deep") from None


def matches_name(selector: str, names: Collection[str], *, if_late: bool = True) -> bool:
    """Whether a selector is one of the names, or a pattern (`server__.*`) for all of one.

    Args:
        selector: a name or a pattern.
        names: every name of one thing.
        if_late: the answer for a pattern that takes too long: true where it withholds something.
    """
    if selector in names:
        return True
    pattern = None if _PLAIN.fullmatch(selector) else _pattern(selector)
    try:
        return pattern is not None and any(
            pattern.fullmatch(name, timeout=_NAME_SECONDS) for name in names
        )
    except TimeoutError:
        return if_late


@functools.lru_cache(maxsize=256)
def _pattern(text: str) -> regex.Pattern[str] | None:
    try:
        return compile_matcher(text)
    except BadMatcher:
        return None
