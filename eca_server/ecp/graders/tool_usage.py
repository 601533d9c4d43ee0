"""`tool_usage`: a tool was called, with these arguments among others.

Arguments are compared as JSON: `true` is not 1, and 1 is 1.0. They are a subset at the top level;
an object within them is to be equal as a whole, unless the grader says `nested: subset`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from eca_protocol.ecp import Result, ToolCall
from eca_server.ecp.graders.settings import GraderSettings
from eca_server.ecp.graders.text_match import shortened
from eca_server.ecp.manifest import Grader
from eca_server.ecp.results import Check

__all__ = ["equal_json", "match_calls"]


def equal_json(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal_json(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal_json, one, other))
    return type(one) is type(other) and bool(one == other)


def _within(wanted: Any, seen: Any, *, subset: bool) -> bool:
    """Whether `seen` has what is wanted; of objects, with `subset`, among other members."""
    if subset and isinstance(wanted, Mapping) and isinstance(seen, Mapping):
        return all(key in seen and _within(wanted[key], seen[key], subset=True) for key in wanted)
    return equal_json(wanted, seen)


def match_calls(grader: Grader, result: Result, settings: GraderSettings) -> Check:
    """The verdict of a `tool_usage`."""
    calls = result.tool_calls or ()
    subset = settings.nested_subset or grader.nested == "subset"
    matching = sum(_matches(grader, call, subset=subset) for call in calls)
    passed = matching >= grader.min_calls and (
        grader.max_calls is None or matching <= grader.max_calls
    )
    names = shortened(", ".join(call.name for call in calls)) or "none"
    said = "does not say which tools it used" if result.tool_calls is None else f"called {names}"
    return Check(
        type="tool_usage",
        field="tool_calls",
        passed=passed,
        score=float(passed),
        reasoning=f"{matching} of {len(calls)} calls match; wanted {_wanted(grader)}; it {said}",
        wanted=shortened(_shown(grader.tool_name, grader.arguments)),
        saw=shortened("\n".join(_shown(call.name, call.arguments) for call in calls)),
    )


def _matches(grader: Grader, call: ToolCall, *, subset: bool) -> bool:
    if grader.tool_name is not None and call.name != grader.tool_name:
        return False
    return all(
        name in call.arguments and _within(value, call.arguments[name], subset=subset)
        for name, value in grader.arguments.items()
    )


def _wanted(grader: Grader) -> str:
    if grader.max_calls == 0:
        return "none"
    if grader.max_calls is None:
        return f"at least {grader.min_calls}"
    return f"{grader.min_calls} to {grader.max_calls}"


def _shown(name: str | None, arguments: Mapping[str, Any]) -> str:
    return f"{name or 'any tool'}({json.dumps(dict(arguments), ensure_ascii=False)})"
