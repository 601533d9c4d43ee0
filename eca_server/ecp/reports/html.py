"""The HTML report: one file with a summary, charts and every conversation."""

from __future__ import annotations

import json
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
    make_charts,
    sum_costs,
    to_number,
)
from eca_server.ecp.results import RunReport, ScenarioReport, StepReport
from eca_server.json_members import object_in
from eca_server.workbench.pages import render_page

_FILTERS: Final = ("all", "failed", "error", "flaky", "passed")
_PREVIEW: Final = 120
_LIMITS: Final = {
    "rpc_timeout_s": "request",
    "start_timeout_s": "start",
    "scenario_timeout_s": "scenario",
    "max_duration_s": "run",
}


def render_html(report: RunReport) -> str:
    """Render the page; any text of an agent is safe."""
    groups = group_scenarios(report.scenarios)
    good = report.exit_reason == "ok" and report.failed == 0 and report.total > 0
    word = "passed" if good else "failed" if report.total else "nothing checked"
    badges = [(word, "good" if good else "bad")]
    if report.exit_reason != "ok":
        badges.append((report.exit_reason, "odd"))
    return render_page(
        "ecp.html",
        title=f"{report.name}: {report.passed} of {report.total} checks passed",
        name=report.name,
        badges=badges,
        warnings=report.warnings,
        about=_about(report),
        tiles=list(_tiles(report)),
        filters=_filters(groups),
        report=report,
        errors=sum(check.error for each in report.scenarios for check in each.checks),
        charts=make_charts(groups),
        groups=groups,
        count=format_count,
        count_tokens=count_tokens,
        duration=format_duration,
        first_failure=_first_failure,
        json=_json,
        preview_call=_preview_call,
        call_json=_call_json,
        step_facts=_step_facts,
    )


def _about(report: RunReport) -> dict[str, Any]:
    audit = report.audit
    agent, runtime = object_in(audit, "agent"), object_in(audit, "runtime")
    limits = object_in(audit, "limits")
    seconds = {name: to_number(limits.get(key)) for key, name in _LIMITS.items()}
    kinds = Counter(c.type for each in report.scenarios for c in each.checks)
    passed = Counter(c.type for each in report.scenarios for c in each.checks if c.passed)
    ends = Counter(each.exit_reason for each in report.scenarios if each.exit_reason != "ok")
    python = f"(Python {runtime.get('python')}, {runtime.get('platform')})" if runtime else None
    return {
        "Manifest": report.manifest,
        "Target": object_in(audit, "manifest").get("target"),
        "Agent": _joined(agent.get("name"), agent.get("protocol_version")),
        "Capabilities": ", ".join(map(str, object_in(agent, "capabilities"))),
        "Started": audit.get("started_at"),
        "Limits": ", ".join(f"{name} {value:g} s" for name, value in seconds.items() if value),
        "Checks": ", ".join(f"{kind} {passed[kind]} of {count}" for kind, count in kinds.items()),
        "Errors": ", ".join(f"{count} {reason}" for reason, count in ends.items()),
        "Runtime": _joined(runtime.get("name"), runtime.get("version"), python),
        "Run": audit.get("run_id"),
    }


def _tiles(report: RunReport) -> Iterator[tuple[str, str, str]]:
    scenarios = report.scenarios
    passed = sum(scenario.passed for scenario in scenarios)
    latency = object_in(report.audit, "latency")
    usage = sum_usage(step.usage for each in scenarios for step in each.steps)
    costs = sum(map(sum_costs, scenarios))
    bad = "bad" if passed < len(scenarios) else ""
    yield f"{passed:,} of {len(scenarios):,}", "scenarios passed", bad
    yield f"{report.passed:,} of {report.total:,}", "checks passed", "bad" if report.failed else ""
    yield format_duration(report.audit.get("duration_ms")), "total duration", ""
    yield format_duration(latency.get("mean_ms")), "mean step duration", ""
    yield format_duration(latency.get("p95_ms")), "95th percentile of steps", ""
    if usage is not None:
        yield format_count(to_number(usage.get("total_tokens"))), "tokens", ""
    if costs:
        yield format_count(costs), "cost, in the agent's unit", ""


def _filters(groups: Sequence[Group]) -> dict[str, str]:
    counts = Counter(name for group in groups for name in group.traits)
    counts["all"] = len(groups)
    return {name: f"{name} {counts[name]}" for name in _FILTERS if counts[name] or name == "all"}


def _first_failure(scenario: ScenarioReport) -> str | None:
    for place, step in enumerate(scenario.steps, 1):
        for check in step.checks:
            if not check.passed:
                expected = (
                    "" if check.expected is None else f"; expected: {check.expected[:_PREVIEW]}"
                )
                return f"step {place}: {check.reasoning[:_PREVIEW]}{expected}"
    return None if scenario.passed else scenario.exit_reason


def _step_facts(step: StepReport) -> str:
    facts = ["agent", format_duration(step.duration_ms)]
    if step.agent_status == "paused":
        facts.append("paused")
    if step.exit_reason != "ok":
        facts.append(step.exit_reason)
    for name, value in (step.usage or {}).items():
        amount = f"{value:,}" if type(value) is int and abs(value) < 10**15 else _json(value)
        facts.append(f"{amount[:_PREVIEW]} {name[:_PREVIEW].replace('_', ' ')}")
    return ", ".join(facts)


def _preview_call(call: Mapping[str, Any]) -> str:
    preview = _json(call.get("arguments", {}), indent=None)
    short = preview if len(preview) <= _PREVIEW else f"{preview[:_PREVIEW]}..."
    return f"{str(call.get('name'))[:_PREVIEW]}({short})"


def _call_json(call: Mapping[str, Any]) -> str:
    more = {key: value for key, value in call.items() if key not in {"name", "arguments"}}
    return _json({"arguments": call.get("arguments", {}), **more})


def _json(value: Any, *, indent: int | None = 2) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _joined(*words: Any) -> str:
    return " ".join(str(word) for word in words if word)
