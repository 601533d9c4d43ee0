"""`tool_usage`: a tool was called with the expected arguments.

Arguments are compared as JSON: `true` is not 1, and 1 is 1.0. A call may have further arguments. An
object within an argument must be equal, unless the grader has `nested: subset`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from eca_protocol.ecp import Result, ToolCall
from eca_server.ecp.graders.settings import GraderSettings
from eca_server.ecp.graders.text_match import shorten
from eca_server.ecp.manifest.model import Grader
from eca_server.ecp.results import Check


def equal_json(one: Any, other: Any) -> bool:
    """Return True if two JSON values are equal."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal_json(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal_json, one, other))
    return type(one) is type(other) and bool(one == other)


def _matches_value(expected: Any, actual: Any, *, subset: bool) -> bool:
    """Return True if a value matches; with `subset`, objects may have further members."""
    if subset and isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return all(
            key in actual and _matches_value(expected[key], actual[key], subset=True)
            for key in expected
        )
    return equal_json(expected, actual)


def match_calls(grader: Grader, result: Result, settings: GraderSettings) -> Check:
    """Grade a result by a `tool_usage`."""
    calls = result.tool_calls or ()
    subset = settings.nested_subset or grader.nested == "subset"
    matching = sum(_matches(grader, call, subset=subset) for call in calls)
    passed = matching >= grader.min_calls and (
        grader.max_calls is None or matching <= grader.max_calls
    )
    names = shorten(", ".join(call.name for call in calls)) or "none"
    count = _expected_count(grader)
    calls_text = (
        "the agent reports no tool calls" if result.tool_calls is None else f"called: {names}"
    )
    return Check(
        type="tool_usage",
        field="tool_calls",
        passed=passed,
        reasoning=f"{matching} of {len(calls)} calls match, expected {count}; {calls_text}",
        expected=shorten(_call_text(grader.tool_name, grader.arguments)),
        actual=shorten("\n".join(_call_text(call.name, call.arguments) for call in calls)),
    )


def _matches(grader: Grader, call: ToolCall, *, subset: bool) -> bool:
    if grader.tool_name is not None and call.name != grader.tool_name:
        return False
    return all(
        name in call.arguments and _matches_value(value, call.arguments[name], subset=subset)
        for name, value in grader.arguments.items()
    )


def _expected_count(grader: Grader) -> str:
    if grader.max_calls == 0:
        return "none"
    if grader.max_calls is None:
        return f"at least {grader.min_calls}"
    return f"{grader.min_calls} to {grader.max_calls}"


def _call_text(name: str | None, arguments: Mapping[str, Any]) -> str:
    return f"{name or 'any tool'}({json.dumps(dict(arguments), ensure_ascii=False)})"
