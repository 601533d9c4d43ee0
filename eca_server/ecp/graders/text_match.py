"""`text_match`: a text of the result contains, equals, does not contain or matches a text.

Code points are compared, without case folding, trimming or normalization. By default an empty text
fails every check: an empty answer is no evidence for `does_not_contain`.
"""

from __future__ import annotations

import re
from typing import Final

import trio

from eca_protocol.ecp import Result
from eca_server.ecp.graders.settings import GraderSettings
from eca_server.ecp.manifest.model import Condition, Grader
from eca_server.ecp.reports.masking import mask_beginning
from eca_server.ecp.results import Check

_MAX_SHOWN: Final = 400
_LITERAL_BRACE: Final = re.compile(r"\\N\{[^}]*\}|\\.|\{(?!(?:\d+|\d*,\d*)\})", re.DOTALL)


def field_text(grader: Grader, result: Result) -> str | None:
    """Return the text that a grader checks."""
    return result.public_output if grader.field == "public_output" else result.evaluation_context


def shorten(text: str) -> str:
    """Shorten a text for a report."""
    if len(text) <= _MAX_SHOWN:
        return text
    shown = mask_beginning(text, _MAX_SHOWN)[:_MAX_SHOWN]
    return f"{shown}... (cut, {len(text) - _MAX_SHOWN} characters left out)"


async def match_text(grader: Grader, result: Result, settings: GraderSettings) -> Check:
    """Grade a result by a `text_match`."""
    text = field_text(grader, result) or ""
    expected = grader.pattern if grader.condition == "regex" else grader.value
    assert expected is not None
    assert grader.condition is not None
    passed, why = False, "the text was empty"
    if text or settings.allow_empty:
        passed, why = await _match(grader.condition, expected, text, settings.regex_seconds)
    return Check(
        type="text_match",
        field=grader.field,
        passed=passed,
        reasoning=f"{grader.condition}: {why}",
        expected=shorten(expected),
        actual=shorten(text),
    )


async def _match(
    condition: Condition, expected: str, text: str, seconds: float
) -> tuple[bool, str]:
    """Return whether a text meets a condition, and the reason."""
    if condition == "regex":
        is_match = await _search(expected, text, seconds)
        if is_match is None:
            return False, f"the pattern took more than {seconds:g} s"
        return is_match, f"the pattern was {'' if is_match else 'not '}found"
    if condition == "equals":
        is_equal = text == expected
        return is_equal, "the text is as expected" if is_equal else _difference(expected, text)
    is_contained = expected in text
    why = f"the text {'contains' if is_contained else 'does not contain'} the value"
    return is_contained == (condition == "contains"), why


def _difference(expected: str, text: str) -> str:
    length = _common_length(expected, text)
    expected, text = mask_beginning(expected, length), mask_beginning(text, length)
    if expected == text:
        return "the text differs within a hidden key"
    at = _common_length(expected, text)
    expectation = f"{expected[at : at + 20]!r}" if at < len(expected) else "its end"
    actual = f"{text[at : at + 20]!r}" if at < len(text) else "its end"
    return f"the text differs at character {at + 1}: expected {expectation}, got {actual}"


def _common_length(one: str, other: str) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


async def _search(pattern: str, text: str, seconds: float) -> bool | None:
    """Return True if the pattern matches anywhere, or None after the time limit.

    `regex`, unlike the standard library, has time limits. It reads `x{e}` as a fuzzy match; so
    braces that the standard library takes literally are escaped.
    """
    import regex  # noqa: PLC0415 - slow, and only patterns need it

    compiled = regex.compile(_LITERAL_BRACE.sub(_escape_brace, pattern), regex.VERSION0)
    try:
        match = await trio.to_thread.run_sync(
            lambda: compiled.search(text, timeout=seconds, concurrent=True), abandon_on_cancel=True
        )
    except TimeoutError:
        return None
    return match is not None


def _escape_brace(match: re.Match[str]) -> str:
    return r"\{" if match[0] == "{" else match[0]
