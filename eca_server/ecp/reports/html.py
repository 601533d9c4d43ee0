"""The HTML report: one file with a summary, charts and every conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from eca_server.ecp.audit import sum_usage
from eca_server.ecp.reports.figures import (
    Group,
    count_tokens,
    format_count,
    format_duration,
    group_scenarios,
    render_charts,
    sum_costs,
    to_number,
)
from eca_server.ecp.reports.threads import first_failure, render_badge, render_thread
from eca_server.ecp.results import RunReport, ScenarioReport
from eca_server.pages import escape_text, render_page

__all__ = ["render_html"]

_FILTERS: Final = ("all", "failed", "error", "flaky", "passed")
_KEYS: Final = """\
<p class="faint keys"><kbd>/</kbd> search, <kbd>j</kbd> <kbd>k</kbd> next and previous,
<kbd>Enter</kbd> open, <kbd>n</kbd> next failed, <kbd>f</kbd> failed only,
<kbd>a</kbd> all, <kbd>o</kbd> open or close all, <kbd>t</kbd> theme</p>
"""
_ORDERS: Final = """\
<select id="order" aria-label="Order"><option value="place">manifest order</option>
<option value="faults">worst first</option><option value="time">slowest first</option></select>
"""


def render_html(report: RunReport) -> str:
    """Render the page; any text of an agent is safe."""
    groups = group_scenarios(report.scenarios)
    body = [
        "<header>\n",
        *_verdict(report),
        *_facts(report),
        *_tiles(report),
        "</header>\n<main>\n",
        *render_charts(groups),
        "<h2>Scenarios</h2>\n",
        *_tools(groups),
        '<div id="items">\n',
        *(part for group in groups for part in _group(group)),
        "</div>\n",
        _KEYS,
        "</main>\n",
    ]
    title = f"{report.name}: {report.passed} of {report.total} checks passed"
    return render_page(title, body, script="report.js", style="report.css")


def _verdict(report: RunReport) -> Iterator[str]:
    good = report.exit_reason == "ok" and report.failed == 0 and report.total > 0
    word = "passed" if good else "failed" if report.total else "nothing checked"
    yield f'<div class="verdict"><h1>{escape_text(report.name)}</h1>'
    yield render_badge(word, _kind(good=good))
    if report.exit_reason != "ok":
        yield render_badge(report.exit_reason, "odd")
    yield "</div>\n"
    if report.total:
        errors = sum(check.error for each in report.scenarios for check in each.checks)
        yield '<svg class="ratio" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" '
        yield f'aria-label="{report.passed} of {report.total} checks passed">'
        start = 0.0
        parts = ("good", report.passed), ("bad", report.failed - errors), ("odd", errors)
        for kind, count in parts:
            width = 1000 * count / report.total
            yield f'<rect class="{kind}" x="{start:.2f}" y="0" width="{width:.2f}" height="10"/>'
            start += width
        yield "</svg>\n"
    if report.warnings:
        notes = "".join(f"<li>{escape_text(each)}</li>" for each in report.warnings)
        yield f'<ul class="notes">{notes}</ul>\n'


def _facts(report: RunReport) -> Iterator[str]:
    audit = report.audit
    agent, runtime = _mapping(audit.get("agent")), _mapping(audit.get("runtime"))
    kinds = Counter(c.type for each in report.scenarios for c in each.checks)
    passed = Counter(c.type for each in report.scenarios for c in each.checks if c.passed)
    ends = Counter(each.exit_reason for each in report.scenarios if each.exit_reason != "ok")
    facts = {
        "Manifest": report.manifest,
        "Target": _mapping(audit.get("manifest")).get("target"),
        "Agent": _joined(agent.get("name"), agent.get("protocol_version")),
        "Capabilities": ", ".join(map(str, _mapping(agent.get("capabilities")))),
        "Started": audit.get("started_at"),
        "Limits": ", ".join(_limits(_mapping(audit.get("limits")))),
        "Checks": ", ".join(f"{kind} {passed[kind]} of {count}" for kind, count in kinds.items()),
        "Errors": ", ".join(f"{count} {reason}" for reason, count in ends.items()),
        "Runtime": _joined(
            runtime.get("name"),
            runtime.get("version"),
            f"(Python {runtime.get('python')}, {runtime.get('platform')})" if runtime else None,
        ),
        "Run": audit.get("run_id"),
    }
    rows = "".join(
        f"<dt>{name}</dt><dd>{escape_text(str(value))}</dd>"
        for name, value in facts.items()
        if value
    )
    yield f"<dl>{rows}</dl>\n"


def _limits(limits: Mapping[str, Any]) -> Iterator[str]:
    names = {
        "rpc_timeout_s": "request",
        "start_timeout_s": "start",
        "scenario_timeout_s": "scenario",
        "max_duration_s": "run",
    }
    for key, name in names.items():
        if to_number(limits.get(key)):
            yield f"{name} {to_number(limits.get(key)):g} s"


def _tiles(report: RunReport) -> Iterator[str]:
    scenarios = report.scenarios
    passed = sum(scenario.passed for scenario in scenarios)
    latency = _mapping(report.audit.get("latency"))
    usage = sum_usage(step.usage for each in scenarios for step in each.steps)
    costs = sum(map(sum_costs, scenarios))
    tiles = [
        (f"{passed:,} of {len(scenarios):,}", "scenarios passed", passed < len(scenarios)),
        (f"{report.passed:,} of {report.total:,}", "checks passed", report.failed > 0),
        (format_duration(report.audit.get("duration_ms")), "total duration", False),
        (format_duration(latency.get("mean_ms")), "mean step duration", False),
        (format_duration(latency.get("p95_ms")), "95th percentile of steps", False),
    ]
    if usage is not None:
        tiles.append((format_count(to_number(usage.get("total_tokens"))), "tokens", False))
    if costs:
        tiles.append((format_count(costs), "cost, in the agent's unit", False))
    yield '<div class="tiles">'
    for value, name, bad in tiles:
        kind = ' class="bad"' if bad else ""
        yield f'<div class="card"><b{kind}>{escape_text(value)}</b><span>{name}</span></div>'
    yield "</div>\n"


def _tools(groups: Sequence[Group]) -> Iterator[str]:
    """Render the filters with their counts; omit empty ones."""
    counts = Counter(name for group in groups for name in _traits(group))
    counts["all"] = len(groups)
    yield '<div class="tools"><input type="search" placeholder="Search" aria-label="Search">\n'
    for name in _FILTERS:
        if counts[name] or name == "all":
            yield f'<button data-show="{name}">{name} {counts[name]}</button>\n'
    yield f'{_ORDERS}<span id="count" class="faint end" role="status"></span>'
    yield '<button id="open">Open or close all</button><button id="theme">Theme</button></div>\n'


def _traits(group: Group) -> Iterator[str]:
    yield "passed" if group.passed == len(group.runs) else "failed"
    if group.flaky:
        yield "flaky"
    if any(run.exit_reason != "ok" for run in group.runs):
        yield "error"


def _group(group: Group) -> Iterator[str]:
    """Render a scenario with its repetitions."""
    duration = sum(to_number(run.duration_ms) for run in group.runs) / len(group.runs)
    yield f'<details class="item card" id="s{group.place}" data-is="{" ".join(_traits(group))}" '
    yield f'data-place="{group.place}" data-time="{duration:.1f}" '
    yield f'data-faults="{1 - group.share:.4f}">'
    if len(group.runs) == 1:
        yield from _run(group.runs[0], group.name)
        yield "</details>\n"
        return
    good = group.passed == len(group.runs)
    word = "flaky" if group.flaky else "passed" if good else "failed"
    yield f"<summary>{render_badge(word, 'odd' if group.flaky else _kind(good=good))}"
    yield f'<span class="name">{escape_text(group.name)}</span><span class="dots">'
    yield "".join(f'<b class="{_kind(good=run.passed)}"></b>' for run in group.runs[:50])
    yield f'</span><span class="numbers">{group.passed} of {len(group.runs)} repetitions passed, '
    yield f"{format_duration(duration)} each</span>"
    yield f"{_why(next((run for run in group.runs if not run.passed), None))}</summary>"
    yield '<div class="inside">'
    for run in group.runs:
        yield '<details class="item">'
        yield from _run(run, f"repetition {run.repeat + 1}")
        yield "</details>"
    yield "</div></details>\n"


def _run(run: ScenarioReport, name: str) -> Iterator[str]:
    yield f"<summary>{render_badge('passed' if run.passed else 'failed', _kind(good=run.passed))}"
    yield f'<span class="name">{escape_text(name)}</span>'
    if run.exit_reason != "ok":
        yield render_badge(run.exit_reason, "odd")
    passed = sum(check.passed for check in run.checks)
    count = count_tokens(run)
    usage_text = f", {format_count(count)} tokens" if count else ""
    yield f'<span class="numbers">{passed} of {len(run.checks)} checks, '
    yield f"{format_duration(run.duration_ms)}{usage_text}</span>{_why(run)}</summary>"
    yield '<div class="inside">'
    yield from render_thread(run)
    yield "</div>"


def _why(run: ScenarioReport | None) -> str:
    reason = None if run is None else first_failure(run)
    return "" if reason is None else f'<span class="why">{escape_text(reason)}</span>'


def _kind(*, good: bool) -> str:
    return "good" if good else "bad"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _joined(*words: Any) -> str:
    return " ".join(str(word) for word in words if word)
