"""The report for people: one HTML file with a summary, charts and every conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from eca_server.ecp.audit import sum_of_usage
from eca_server.ecp.reports.figures import (
    Group,
    charts,
    cost,
    counted,
    groups,
    number,
    seconds,
    tokens,
)
from eca_server.ecp.reports.threads import badge, first_fault, thread
from eca_server.ecp.results import RunReport, ScenarioReport
from eca_server.pages import page, shown

__all__ = ["html"]

_FILTERS: Final = ("all", "failed", "error", "flaky", "passed")
_KEYS: Final = """\
<p class="faint keys"><kbd>/</kbd> search, <kbd>j</kbd> <kbd>k</kbd> next and previous,
<kbd>Enter</kbd> open, <kbd>n</kbd> next that failed, <kbd>f</kbd> failed only,
<kbd>a</kbd> all, <kbd>o</kbd> open or close all, <kbd>t</kbd> light or dark</p>
"""
_ORDERS: Final = """\
<select id="order" aria-label="Order"><option value="place">as in the manifest</option>
<option value="faults">worst first</option><option value="time">slowest first</option></select>
"""


def html(report: RunReport) -> str:
    """The whole page; never fails on what an agent said."""
    found = groups(report.scenarios)
    body = [
        "<header>\n",
        *_verdict(report),
        *_facts(report),
        *_tiles(report),
        "</header>\n<main>\n",
        *charts(found),
        "<h2>Scenarios</h2>\n",
        *_tools(found),
        '<div id="items">\n',
        *(part for group in found for part in _group(group)),
        "</div>\n",
        _KEYS,
        "</main>\n",
    ]
    title = f"{report.name}: {report.passed} of {report.total} checks passed"
    return page(title, body, script="report.js", style="report.css")


def _verdict(report: RunReport) -> Iterator[str]:
    good = report.exit_reason == "ok" and report.failed == 0 and report.total > 0
    word = "passed" if good else "failed" if report.total else "nothing checked"
    yield f'<div class="verdict"><h1>{shown(report.name)}</h1>{badge(word, _kind(good=good))}'
    if report.exit_reason != "ok":
        yield badge(report.exit_reason, "odd")
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
        yield f'<ul class="notes">{"".join(f"<li>{shown(w)}</li>" for w in report.warnings)}</ul>\n'


def _facts(report: RunReport) -> Iterator[str]:
    audit = report.audit
    agent, runtime = _mapping(audit.get("agent")), _mapping(audit.get("runtime"))
    kinds = Counter(c.type for each in report.scenarios for c in each.checks)
    passed = Counter(c.type for each in report.scenarios for c in each.checks if c.passed)
    ends = Counter(each.exit_reason for each in report.scenarios if each.exit_reason != "ok")
    facts = {
        "manifest": report.manifest,
        "target": _mapping(audit.get("manifest")).get("target"),
        "agent": _joined(agent.get("name"), agent.get("protocol_version")),
        "it can": ", ".join(map(str, _mapping(agent.get("capabilities")))),
        "began": audit.get("started_at"),
        "limits": ", ".join(_limits(_mapping(audit.get("limits")))),
        "checks": ", ".join(f"{kind} {passed[kind]} of {count}" for kind, count in kinds.items()),
        "errors": ", ".join(f"{count} {reason}" for reason, count in ends.items()),
        "runtime": _joined(
            runtime.get("name"),
            runtime.get("version"),
            f"(Python {runtime.get('python')}, {runtime.get('platform')})" if runtime else None,
        ),
        "run": audit.get("run_id"),
    }
    told = "".join(f"<dt>{name}</dt><dd>{shown(str(v))}</dd>" for name, v in facts.items() if v)
    yield f"<dl>{told}</dl>\n"


def _limits(limits: Mapping[str, Any]) -> Iterator[str]:
    names = {
        "rpc_timeout_s": "a request",
        "start_timeout_s": "a start",
        "scenario_timeout_s": "a scenario",
        "max_duration_s": "the run",
    }
    for key, name in names.items():
        if number(limits.get(key)):
            yield f"{name} {number(limits.get(key)):g} s"


def _tiles(report: RunReport) -> Iterator[str]:
    scenarios = report.scenarios
    passed = sum(scenario.passed for scenario in scenarios)
    latency = _mapping(report.audit.get("latency"))
    usage = sum_of_usage(step.usage for each in scenarios for step in each.steps)
    costs = sum(map(cost, scenarios))
    tiles = [
        (f"{passed:,} of {len(scenarios):,}", "scenarios passed", passed < len(scenarios)),
        (f"{report.passed:,} of {report.total:,}", "checks passed", report.failed > 0),
        (seconds(report.audit.get("duration_ms")), "in all", False),
        (seconds(latency.get("mean_ms")), "a step, mean", False),
        (seconds(latency.get("p95_ms")), "19 of 20 steps within", False),
    ]
    if usage is not None:
        tiles.append((counted(number(usage.get("total_tokens"))), "tokens", False))
    if costs:
        tiles.append((counted(costs), "cost, as the agent counts", False))
    yield '<div class="tiles">'
    for value, name, bad in tiles:
        kind = ' class="bad"' if bad else ""
        yield f'<div class="card"><b{kind}>{shown(value)}</b><span>{name}</span></div>'
    yield "</div>\n"


def _tools(found: Sequence[Group]) -> Iterator[str]:
    """Filters with how many each shows; those that would show nothing are left out."""
    counts = Counter(name for group in found for name in _traits(group))
    counts["all"] = len(found)
    yield '<div class="tools"><input type="search" placeholder="Search" aria-label="Search">\n'
    for name in _FILTERS:
        if counts[name] or name == "all":
            yield f'<button data-show="{name}">{name} {counts[name]}</button>\n'
    yield f'{_ORDERS}<span id="count" class="faint end" role="status"></span>'
    yield '<button id="open">open all</button><button id="theme">light or dark</button></div>\n'


def _traits(group: Group) -> Iterator[str]:
    yield "passed" if group.passed == len(group.runs) else "failed"
    if group.flaky:
        yield "flaky"
    if any(run.exit_reason != "ok" for run in group.runs):
        yield "error"


def _group(group: Group) -> Iterator[str]:
    """A scenario; with repetitions, each of them in it."""
    taken = sum(number(run.duration_ms) for run in group.runs) / len(group.runs)
    yield f'<details class="item card" id="s{group.place}" data-is="{" ".join(_traits(group))}" '
    yield f'data-place="{group.place}" data-time="{taken:.1f}" data-faults="{1 - group.share:.4f}">'
    if len(group.runs) == 1:
        yield from _run(group.runs[0], group.name)
        yield "</details>\n"
        return
    good = group.passed == len(group.runs)
    word = "flaky" if group.flaky else "passed" if good else "failed"
    yield f"<summary>{badge(word, 'odd' if group.flaky else _kind(good=good))}"
    yield f'<span class="name">{shown(group.name)}</span><span class="dots">'
    yield "".join(f'<b class="{_kind(good=run.passed)}"></b>' for run in group.runs[:50])
    yield f'</span><span class="numbers">{group.passed} of {len(group.runs)} repetitions passed, '
    yield f"{seconds(taken)} each</span>"
    yield f"{_why(next((run for run in group.runs if not run.passed), None))}</summary>"
    yield '<div class="inside">'
    for run in group.runs:
        yield '<details class="item">'
        yield from _run(run, f"repetition {run.repeat + 1}")
        yield "</details>"
    yield "</div></details>\n"


def _run(run: ScenarioReport, name: str) -> Iterator[str]:
    yield f"<summary>{badge('passed' if run.passed else 'failed', _kind(good=run.passed))}"
    yield f'<span class="name">{shown(name)}</span>'
    if run.exit_reason != "ok":
        yield badge(run.exit_reason, "odd")
    passed = sum(check.passed for check in run.checks)
    count = tokens(run)
    spent = f", {counted(count)} tokens" if count else ""
    yield f'<span class="numbers">{passed} of {len(run.checks)} checks, '
    yield f"{seconds(run.duration_ms)}{spent}</span>{_why(run)}</summary>"
    yield '<div class="inside">'
    yield from thread(run)
    yield "</div>"


def _why(run: ScenarioReport | None) -> str:
    fault = None if run is None else first_fault(run)
    return "" if fault is None else f'<span class="why">{shown(fault)}</span>'


def _kind(*, good: bool) -> str:
    return "good" if good else "bad"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _joined(*words: Any) -> str:
    return " ".join(str(word) for word in words if word)
