"""A scenario as a thread in the HTML report: inputs, tool calls, answers and verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from eca_server.ecp.reports.figures import format_duration
from eca_server.ecp.results import Check, ScenarioReport, StepReport
from eca_server.pages import escape_text

__all__ = ["first_failure", "render_badge", "render_thread"]

_LONGEST: Final = 50_000  # characters of one text; the JSON report has all of it
_PREVIEW: Final = 120


def render_badge(word: str, kind: str) -> str:
    """Render a word in a box; `kind` is good, bad, odd or empty."""
    return f'<span class="badge {kind}">{escape_text(word)}</span>'


def first_failure(scenario: ScenarioReport) -> str | None:
    """Return the first failed check's reason in one line, or None if the scenario passed."""
    for place, step in enumerate(scenario.steps, 1):
        for check in step.checks:
            if not check.passed:
                expected = (
                    "" if check.expected is None else f"; expected: {check.expected[:_PREVIEW]}"
                )
                return f"step {place}: {check.reasoning[:_PREVIEW]}{expected}"
    return None if scenario.passed else scenario.exit_reason


def render_thread(scenario: ScenarioReport) -> Iterator[str]:
    """Render the conversation of one repetition."""
    if scenario.warnings:
        yield f'<ul class="notes">{"".join(f"<li>{_text(w)}</li>" for w in scenario.warnings)}</ul>'
    for place, step in enumerate(scenario.steps, 1):
        yield '<section class="step">'
        yield from _step(place, step)
        yield "</section>"
    if scenario.log:
        yield _fold("the agent's error output", scenario.log, opened=not scenario.passed)


def _step(place: int, step: StepReport) -> Iterator[str]:
    yield f'<span class="who user">step {place}</span>'
    yield f'<div class="said user"><pre>{_text(step.input)}</pre></div>'
    if step.constraints:
        yield _fold("constraints", _json(step.constraints))
    if step.status == "skipped":
        yield f'<div class="said silent">skipped: {_text(step.error or "")}</div>'
        return
    yield f'<span class="who">{", ".join(_facts(step))}</span>'
    if step.evaluation_context:
        yield _fold("evaluation context", step.evaluation_context)
    for call in step.tool_calls:
        yield _call(call)
    if step.error:
        yield f'<div class="said error"><pre>{_text(step.error)}</pre></div>'
    elif step.output:
        yield f'<div class="said agent"><pre>{_text(step.output)}</pre></div>'
    else:
        yield '<div class="said silent">empty output</div>'
    if step.logs:
        yield _fold("logs", step.logs)
    if step.checks:
        yield '<ul class="checks">'
        yield from (_check(check, step) for check in step.checks)
        yield "</ul>"


def _facts(step: StepReport) -> Iterator[str]:
    yield "agent"
    yield format_duration(step.duration_ms)
    if step.agent_status == "paused":
        yield "paused"
    if step.exit_reason != "ok":
        yield escape_text(step.exit_reason)
    for name, value in (step.usage or {}).items():
        amount = f"{value:,}" if type(value) is int and abs(value) < 10**15 else _json(value)
        yield escape_text(f"{amount[:_PREVIEW]} {name[:_PREVIEW].replace('_', ' ')}")


def _call(call: Mapping[str, Any]) -> str:
    arguments = call.get("arguments", {})
    more = {key: value for key, value in call.items() if key not in {"name", "arguments"}}
    preview = _json(arguments, indent=None)
    short = preview if len(preview) <= _PREVIEW else f"{preview[:_PREVIEW]}..."
    title = (
        f"called <code>{escape_text(str(call.get('name'))[:_PREVIEW])}({escape_text(short)})</code>"
    )
    return _folded(title, f"<pre>{_text(_json({'arguments': arguments, **more}))}</pre>")


def _check(check: Check, step: StepReport) -> str:
    kind = "odd" if check.error else "good" if check.passed else "bad"
    score = "" if check.score in {0.0, 1.0} else f", score {check.score:g}"
    # The error is shown above already.
    why = "no result" if check.reasoning == step.error else check.reasoning
    return (
        f'<li class="{kind}"><span>{_text(why)}</span> <span class="faint">'
        f"{escape_text(check.type)} of {escape_text(check.field)}{score}</span>"
        f"{_sides(check)}{_details(check.details or {})}</li>"
    )


def _sides(check: Check) -> str:
    if check.expected is None and check.actual is None:
        return ""
    sides = "".join(
        f"<div><small>{name}</small><pre>{_text(value)}</pre></div>"
        for name, value in (("expected", check.expected), ("actual", check.actual))
        if value is not None
    )
    both = f'<div class="sides">{sides}</div>'
    return both if not check.passed else _folded("expected and actual", both)


def _details(details: Mapping[str, Any]) -> str:
    if not details:
        return ""
    rows = "".join(
        f"<dt>{escape_text(str(name))}</dt><dd>{_text(v if isinstance(v, str) else _json(v))}</dd>"
        for name, v in details.items()
    )
    return _folded("details of the verdict", f"<dl>{rows}</dl>")


def _fold(title: str, text: str, *, opened: bool = False) -> str:
    return _folded(title, f"<pre>{_text(text)}</pre>", opened=opened)


def _folded(title: str, inside: str, *, opened: bool = False) -> str:
    state = " open" if opened else ""
    return f'<details class="fold"{state}><summary>{title}</summary>{inside}</details>'


def _text(text: str) -> str:
    if len(text) <= _LONGEST:
        return escape_text(text)
    omitted = f"{len(text) - _LONGEST:,} more characters are in the JSON report"
    return f'{escape_text(text[:_LONGEST])} <span class="faint">({omitted})</span>'


def _json(value: Any, *, indent: int | None = 2) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
