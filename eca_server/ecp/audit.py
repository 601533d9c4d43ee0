"""The audit record of a run: manifest, agent, times, limits and sums."""

from __future__ import annotations

import math
import platform
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from eca_server.ecp.batch import RunLimits
from eca_server.ecp.manifest.model import Manifest
from eca_server.ecp.results import RunReport, ScenarioReport, StepReport
from eca_server.version import version

AUDIT_VERSION: Final = "1"

_COUNTS: Final = ("input_tokens", "output_tokens", "total_tokens")


def make_audit(
    report: RunReport,
    manifest: Manifest,
    limits: RunLimits,
    *,
    started: datetime,
    finished: datetime,
    seconds: float,
) -> dict[str, Any]:
    """Make the record of a run.

    Args:
        report: the run's report.
        manifest: its manifest.
        limits: its limits.
        started: the start by the wall clock.
        finished: the end by the wall clock.
        seconds: the duration by a monotonic clock.
    """
    steps = [step for scenario in report.scenarios for step in scenario.steps]
    agent = next((each.agent for each in report.scenarios if each.agent), None) or {}
    return {
        "audit_version": AUDIT_VERSION,
        "run_id": str(uuid.uuid4()),
        "started_at": _stamp(started),
        "finished_at": _stamp(finished),
        "duration_ms": round(1000 * seconds, 3),
        "exit_reason": report.exit_reason,
        "runtime": {
            "name": "eca-protocol",
            "version": version(),
            "python": platform.python_version(),
            "platform": platform.system().lower(),
        },
        "manifest": {
            "path": report.manifest,
            "name": manifest.name,
            "digest": f"sha256:{manifest.digest}",
            "target": manifest.target,
        },
        "agent": dict(agent),
        "limits": {
            "rpc_timeout_s": limits.rpc,
            "start_timeout_s": limits.start,
            "scenario_timeout_s": limits.scenario,
            "max_duration_s": limits.run,
        },
        "totals": _totals(report, steps),
        "latency": _latency([step.duration_ms for step in steps if step.status != "skipped"]),
        "usage": sum_usage(step.usage for step in steps),
        "scenarios": [_scenario(scenario) for scenario in report.scenarios],
    }


def _totals(report: RunReport, steps: Sequence[StepReport]) -> dict[str, int]:
    skipped = sum(step.status == "skipped" for step in steps)
    return {
        "scenarios": len(report.scenarios),
        "steps_planned": len(steps),
        "steps_executed": len(steps) - skipped,
        "steps_failed": sum(step.status == "failed" for step in steps),
        "steps_skipped": skipped,
        "checks_passed": report.passed,
        "checks_total": report.total,
        "checks_failed": report.failed,
    }


def sum_usage(usages: Iterable[Mapping[str, Any] | None]) -> dict[str, int] | None:
    """Sum the token counts, deriving missing totals; return None without any count."""
    sums: dict[str, int] = {}
    for usage in usages:
        counts = _counts(usage or {})
        if counts:
            counts.setdefault("total_tokens", sum(counts.values()))
        for name, count in counts.items():
            sums[name] = sums.get(name, 0) + count
    return sums or None


def _counts(usage: Mapping[str, Any]) -> dict[str, int]:
    counts = {name: usage[name] for name in _COUNTS if name in usage}
    return {n: c for n, c in counts.items() if isinstance(c, int) and not isinstance(c, bool)}


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _latency(times: Sequence[float]) -> dict[str, float]:
    if not times:
        return dict.fromkeys(("total_ms", "mean_ms", "max_ms", "p95_ms"), 0.0)
    ordered = sorted(times)
    nearest = ordered[math.ceil(0.95 * len(ordered)) - 1]
    return {
        "total_ms": round(sum(ordered), 3),
        "mean_ms": round(sum(ordered) / len(ordered), 3),
        "max_ms": round(ordered[-1], 3),
        "p95_ms": round(nearest, 3),
    }


def _scenario(scenario: ScenarioReport) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "status": scenario.status,
        "exit_reason": scenario.exit_reason,
        "duration_ms": scenario.duration_ms,
        "steps": [_step(number, step) for number, step in enumerate(scenario.steps, 1)],
    }


def _step(number: int, step: StepReport) -> dict[str, Any]:
    return {
        "index": number,
        "input": step.input,
        "status": step.status,
        "exit_reason": step.exit_reason,
        "duration_ms": step.duration_ms,
        "usage": None if step.usage is None else dict(step.usage),
        "tool_calls": len(step.tool_calls),
        "checks_passed": step.passed,
        "checks_total": len(step.checks),
        "error": step.error,
    }
