"""`text_match`: a text of the result contains, equals, does not contain or matches something.

Compared are code points, as they are: no case folded, no white space trimmed, nothing normalized.
An empty text fails whatever is wanted of it, unless that is switched off: that an agent did not say
something is no evidence where it said nothing.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from typing import Final

import trio

from eca_protocol.ecp import Result
from eca_server.ecp.graders.settings import GraderSettings
from eca_server.ecp.manifest import Grader
from eca_server.ecp.reports.masking import hiding
from eca_server.ecp.results import Check

__all__ = ["match_text", "shortened", "text_of"]

_SHOWN: Final = 400
_LOOKED_AT: Final = 8192
_LITERAL_BRACE: Final = re.compile(r"\\N\{[^}]*\}|\\.|\{(?!(?:\d+|\d*,\d*)\})", re.DOTALL)


def text_of(grader: Grader, result: Result) -> str | None:
    """The text a grader looks at."""
    return result.public_output if grader.field == "public_output" else result.evaluation_context


def shortened(text: str) -> str:
    """A text as a report shows it beside a verdict.

    Keys are masked before it is cut: of half a key nobody would know that it is one.
    """
    if len(text) <= _SHOWN:
        return text
    shown = _hide()(text[:_LOOKED_AT])[:_SHOWN]
    return f"{shown}... (cut, {len(text) - _SHOWN} characters left out)"


@functools.cache
def _hide() -> Callable[[str], str]:
    return hiding(os.environ)


async def match_text(grader: Grader, result: Result, settings: GraderSettings) -> Check:
    """The verdict of a `text_match`."""
    text = text_of(grader, result) or ""
    wanted = grader.pattern if grader.condition == "regex" else grader.value
    assert wanted is not None
    assert grader.condition is not None
    if not text and not settings.allow_empty:
        return _check(grader, wanted, text, passed=False, why="the text was empty")
    if grader.condition == "regex":
        found = await _search(wanted, text, settings.regex_seconds)
        if found is None:
            why = f"the pattern took more than {settings.regex_seconds:g} s and was given up"
            return _check(grader, wanted, text, passed=False, why=why)
        why = "the pattern was found" if found else "the pattern was not found"
        return _check(grader, wanted, text, passed=found, why=why)
    if grader.condition == "equals":
        passed = text == wanted
        why = "the text is as wanted" if passed else _difference(wanted, text)
    else:
        there = wanted in text
        passed = there == (grader.condition == "contains")
        why = f"the text {'contains' if there else 'does not contain'} it"
    return _check(grader, wanted, text, passed=passed, why=why)


def _check(grader: Grader, wanted: str, text: str, *, passed: bool, why: str) -> Check:
    return Check(
        type="text_match",
        field=grader.field,
        passed=passed,
        score=float(passed),
        reasoning=f"{grader.condition}: {why}",
        wanted=shortened(wanted),
        saw=shortened(text),
    )


def _difference(wanted: str, text: str) -> str:
    """Where two texts that differ begin to."""
    at = next(
        (i for i, (a, b) in enumerate(zip(wanted, text, strict=False)) if a != b),
        min(len(wanted), len(text)),
    )
    ahead = f"{wanted[at : at + 20]!r}" if at < len(wanted) else "its end"
    there = f"{text[at : at + 20]!r}" if at < len(text) else "its end"
    return f"the text differs from character {at + 1} on: wanted {ahead}, saw {there}"


async def _search(pattern: str, text: str, seconds: float) -> bool | None:
    """Whether the pattern is found anywhere; None if that took too long.

    `regex`, unlike the standard library, can be given a time. It also reads `x{e}` as a fuzzy
    match, which the standard library's patterns do not know: there a brace that counts nothing is
    a brace.
    """
    import regex  # noqa: PLC0415 - slow, and only patterns need it

    compiled = regex.compile(_LITERAL_BRACE.sub(_escaped, pattern), regex.VERSION0)
    try:
        found = await trio.to_thread.run_sync(
            lambda: compiled.search(text, timeout=seconds, concurrent=True), abandon_on_cancel=True
        )
    except TimeoutError:
        return None
    return found is not None


def _escaped(found: re.Match[str]) -> str:
    return r"\{" if found[0] == "{" else found[0]
