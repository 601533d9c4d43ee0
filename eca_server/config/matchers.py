r"""The patterns of `argsMatchers` and `disabledTools`, which cannot block the server.

They search text that a model wrote, so each search has a time limit, which the standard library's
`re` does not offer. Patterns that are expensive to compile, like `((a{999}){999}){9}`, are
rejected.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

_LONGEST = 1_000
_MOST_COPIES = 1_000  # of one part, the product of all its counted repetitions
_NAME_SECONDS = 0.01  # for one name: there may be hundreds
_PLAIN = re.compile(r"[\w .:/@-]*")  # a dot is usually part of a name
_COUNTED = re.compile(r"\{(?:\d*,)?(\d+)\}|\{(\d+),\}")


class BadMatcher(ValueError):
    """The error of an unusable pattern; the message quotes nothing of it."""


def compile_matcher(pattern: str, *, dot_is_all: bool = False) -> regex.Pattern[str]:
    """Compile a pattern.

    `dot_is_all`: whether a dot also matches line breaks.

    Raises:
        BadMatcher: the pattern is not a regular expression, or too large.
    """
    # The import takes 45 ms, and most configurations have no matcher.
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
    except regex.error as error:
        raise BadMatcher(f"expected a regular expression, got: {error}") from None
    except (RecursionError, OverflowError, MemoryError):
        raise BadMatcher("expected a regular expression, got one nested too deep") from None


def selector_problem(selector: str) -> str | None:
    """Return why a selector is no pattern, so that it is only a name, or None."""
    try:
        if not _PLAIN.fullmatch(selector):
            compile_matcher(selector)
    except BadMatcher as error:
        return str(error)
    return None


def matches_name(selector: str, names: Collection[str], *, if_late: bool = True) -> bool:
    """Return whether a selector equals one of the names, or fully matches one as a pattern.

    Args:
        selector: a name or a pattern (`server__.*`).
        names: every name of one thing.
        if_late: the result after a timeout: true where a match withholds something.
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


def is_in_name(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a part of a name; False after a timeout.

    Raises:
        BadMatcher: as `compile_matcher`.
    """
    try:
        return compile_matcher(pattern).search(name, timeout=_NAME_SECONDS) is not None
    except TimeoutError:
        return False


@functools.lru_cache(maxsize=256)
def _pattern(text: str) -> regex.Pattern[str] | None:
    try:
        return compile_matcher(text)
    except BadMatcher:
        return None
