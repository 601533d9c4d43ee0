"""The report for people: one HTML file with a summary, charts and every conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from eca_server.ecp.audit import sum_of_usage
from eca_server.ecp.results import Check, RunReport, ScenarioReport, StepReport
from eca_server.pages import page, shown

__all__ = ["html"]

_BARS: Final = 60
_TOOLS: Final = """\
<div class="tools"><input type="search" placeholder="Search (press /)" aria-label="Search">
<button data-show="all">All</button><button data-show="failed">Failed (f)</button>
<button data-show="passed">Passed</button><button id="open">Open or close</button>
<button id="theme">Light or dark</button><span id="count" class="faint"></span></div>
"""


def html(report: RunReport) -> str:
    """The whole page; never fails on what an agent said."""
    body = [
        *_summary(report),
        *_charts(report.scenarios),
        "<h2>Scenarios</h2>\n",
        _TOOLS,
        *map(_scenario, report.scenarios),
    ]
    return page(f"{report.name}: evaluation", body, script="report.js")


def _summary(report: RunReport) -> Iterator[str]:
    passed = sum(scenario.passed for scenario in report.scenarios)
    audit = report.audit
    yield f"<h1>{shown(report.name)}</h1>\n"
    agent = audit.get("agent") or {}
    facts = {
        "manifest": report.manifest,
        "target": (audit.get("manifest") or {}).get("target"),
        "agent": " ".join(
            str(agent[key]) for key in ("name", "protocol_version") if agent.get(key)
        ),
        "began": audit.get("started_at"),
        "runtime": " ".join(str(v) for v in (audit.get("runtime") or {}).values()),
    }
    told = "".join(f"<dt>{k}</dt><dd>{shown(str(v))}</dd>" for k, v in facts.items() if v)
    yield f"<dl>{told}</dl>\n"
    latency = audit.get("latency") or {}
    usage = sum_of_usage(step.usage for each in report.scenarios for step in each.steps)
    tiles = [
        (
            f"{passed} of {len(report.scenarios)}",
            "scenarios passed",
            passed < len(report.scenarios),
        ),
        (f"{report.passed} of {report.total}", "checks passed", report.failed > 0),
        (report.exit_reason, "exit reason", report.exit_reason != "ok"),
        (_seconds(audit.get("duration_ms")), "in all", False),
        (_seconds(latency.get("p95_ms")), "95 of 100 steps within", False),
    ]
    if usage is not None:
        tiles.append((f"{usage['total_tokens']:,}", "tokens", False))
    yield '<div class="tiles">'
    for value, name, bad in tiles:
        kind = ' class="bad"' if bad else ""
        yield f'<div class="tile"><b{kind}>{shown(value)}</b>'
        yield f'<span class="faint">{name}</span></div>'
    yield "</div>\n"
    for warning in report.warnings:
        yield f'<p class="odd">{shown(warning)}</p>\n'


def _seconds(milliseconds: Any) -> str:
    if not isinstance(milliseconds, int | float):
        return "unknown"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s"


def _charts(scenarios: Sequence[ScenarioReport]) -> Iterator[str]:
    """Charts of the first scenarios; nobody reads bars by the thousand."""
    first = scenarios[:_BARS]
    rest = f" (the first {_BARS} of {len(scenarios)})" if len(scenarios) > _BARS else ""
    yield '<div class="charts">\n'
    rates = [
        (each.name, sum(c.passed for c in each.checks) / max(1, len(each.checks))) for each in first
    ]
    yield _chart(f"Share of checks passed{rest}", rates, top=1.0, unit="%")
    yield _chart(f"Seconds{rest}", [(each.name, each.duration_ms / 1000) for each in first])
    tokens = [(each.name, _tokens(each)) for each in first]
    if any(count for _, count in tokens):
        yield _chart(f"Tokens{rest}", tokens)
    costs = [(each.name, _cost(each)) for each in first]
    if any(cost for _, cost in costs):
        yield _chart(f"Cost{rest}", costs)
    yield "</div>\n"


def _tokens(scenario: ScenarioReport) -> float:
    usage = sum_of_usage(step.usage for step in scenario.steps)
    return float(usage["total_tokens"]) if usage else 0.0


def _cost(scenario: ScenarioReport) -> float:
    costs = [(step.usage or {}).get("cost") for step in scenario.steps]
    return float(sum(cost for cost in costs if isinstance(cost, int | float)))


def _chart(
    title: str, values: Sequence[tuple[str, float]], *, top: float | None = None, unit: str = ""
) -> str:
    """Horizontal bars would hide the run of many values: one column each."""
    highest = top or max((value for _, value in values), default=0) or 1.0
    width = 600 / max(1, len(values))
    bars = []
    for index, (name, value) in enumerate(values):
        height = max(1.0, 120 * min(1.0, value / highest))
        kind = "bar" if unit != "%" else "good" if value >= 1 else "bad" if value == 0 else "odd"
        label = f"{100 * value:.0f} %" if unit == "%" else f"{value:.4g}"
        bars.append(
            f'<rect class="{kind}" x="{index * width + 1:.1f}" y="{130 - height:.1f}" '
            f'width="{max(1.0, width - 2):.1f}" height="{height:.1f}">'
            f"<title>{shown(name)}: {label}</title></rect>"
        )
    scale = "100 %" if unit == "%" else f"{highest:.4g}"
    return (
        f'<figure><figcaption>{shown(title)}</figcaption><svg viewBox="0 0 600 145" role="img" '
        f'aria-label="{shown(title)}"><line class="line" x1="0" x2="600" y1="130" y2="130"/>'
        f'{"".join(bars)}<text x="0" y="143">0 to {scale}</text></svg></figure>\n'
    )


def _scenario(scenario: ScenarioReport) -> str:
    verdict = "passed" if scenario.passed else "failed"
    passed = sum(check.passed for check in scenario.checks)
    repeat = f" <span>repetition {scenario.repeat + 1}</span>" if scenario.repeat else ""
    reason = scenario.exit_reason
    why = "" if reason == "ok" else f' <span class="badge odd">{shown(reason)}</span>'
    parts = [
        f'<details class="item" data-verdict="{verdict}"><summary>',
        f'<span class="badge {_kind(good=scenario.passed)}">{verdict}</span>',
        f'<span class="name">{shown(scenario.name)}</span>{repeat}{why}',
        f'<span class="right faint">{passed} of {len(scenario.checks)} checks, ',
        f"{_seconds(scenario.duration_ms)}</span></summary>",
        '<div class="inside">',
        *(f'<p class="odd">{shown(warning)}</p>' for warning in scenario.warnings),
        *(part for number, step in enumerate(scenario.steps, 1) for part in _step(number, step)),
    ]
    if scenario.log:
        parts.append(_block("error output", scenario.log))
    return "".join((*parts, "</div></details>\n"))


def _kind(*, good: bool) -> str:
    return "good" if good else "bad"


def _step(number: int, step: StepReport) -> Iterator[str]:
    yield f'<div class="said"><span class="who">step {number}: input</span>'
    yield f"<pre>{shown(step.input)}</pre></div>"
    took = _seconds(step.duration_ms)
    paused = ", paused" if step.agent_status == "paused" else ""
    yield f'<div class="said agent"><span class="who">agent, {took}{paused}</span>'
    if step.output is not None:
        yield f"<pre>{shown(step.output)}</pre>"
    if step.error:
        yield f'<pre class="bad">{shown(step.error)}</pre>'
    if step.evaluation_context:
        yield _block("evaluation context", step.evaluation_context)
    for call in step.tool_calls:
        yield _call(call)
    if step.logs:
        yield _block("logs", step.logs)
    if step.usage:
        yield _block("usage", json.dumps(dict(step.usage), ensure_ascii=False))
    yield '</div><ul class="checks">'
    yield from map(_check, step.checks)
    yield "</ul>"


def _call(call: Mapping[str, Any]) -> str:
    arguments = json.dumps(call.get("arguments", {}), ensure_ascii=False, indent=1)
    return _block(f"tool {call.get('name')}", arguments)


def _block(name: str, text: str) -> str:
    return f'<span class="who">{shown(name)}</span><pre>{shown(text)}</pre>'


def _check(check: Check) -> str:
    word = "error" if check.error else "passed" if check.passed else "failed"
    kind = "odd" if check.error else _kind(good=check.passed)
    details = ""
    if not check.passed and check.wanted is not None:
        details = (
            f"<dl><dt>wanted</dt><dd>{shown(check.wanted)}</dd>"
            f"<dt>saw</dt><dd>{shown(check.saw or '')}</dd></dl>"
        )
    return (
        f'<li><span class="badge {kind}">{word}</span> {shown(check.type)} of '
        f"{shown(check.field)}: {shown(check.reasoning)}{details}</li>"
    )
