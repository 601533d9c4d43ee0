"""The figures of a report, for its page.

An agent's usage may contain any value; all but finite positive numbers count as 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from eca_server.ecp.audit import sum_usage
from eca_server.ecp.results import ScenarioReport

_COLUMNS: Final = 60
_COSTS: Final = ("cost", "cost_usd", "total_cost")

Chart: TypeAlias = tuple[str, str, list[tuple[int, str, float, str]]]
"""The title, the caption, and of each column the scenario's place, label, share and colour."""


@attrs.frozen
class Group:
    """A scenario of the manifest with all its repetitions; `place` counts from 1."""

    place: int
    name: str
    runs: Sequence[ScenarioReport]

    @property
    def passed(self) -> int:
        """The number of passed repetitions."""
        return sum(run.passed for run in self.runs)

    @property
    def flaky(self) -> bool:
        """True if some repetitions passed, and others failed."""
        return 0 < self.passed < len(self.runs)

    @property
    def share(self) -> float:
        """The share of passed checks, from 0 to 1."""
        checks = [check.passed for run in self.runs for check in run.checks]
        return sum(checks) / len(checks) if checks else 0.0

    @property
    def duration(self) -> float:
        """The mean duration of the repetitions, in milliseconds."""
        return self.mean(lambda run: to_number(run.duration_ms))

    @property
    def traits(self) -> Iterator[str]:
        """The names of the filters that show the scenario."""
        yield "passed" if self.passed == len(self.runs) else "failed"
        if self.flaky:
            yield "flaky"
        if any(run.exit_reason != "ok" for run in self.runs):
            yield "error"

    def mean(self, value: Callable[[ScenarioReport], float]) -> float:
        """Return the mean of a value over the repetitions."""
        return sum(map(value, self.runs)) / len(self.runs)


def group_scenarios(scenarios: Sequence[ScenarioReport]) -> list[Group]:
    """Group the repetitions of each scenario, in the order of the manifest."""
    runs_of: dict[tuple[int, str], list[ScenarioReport]] = {}
    for scenario in scenarios:
        runs_of.setdefault((scenario.index, scenario.name), []).append(scenario)
    return [Group(place, name, runs) for place, ((_, name), runs) in enumerate(runs_of.items(), 1)]


def to_number(value: Any) -> float:
    """Convert a finite positive number to a float, and any other value to 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        read = float(value)
    except OverflowError:
        return 0.0
    return read if math.isfinite(read) and read > 0 else 0.0


def count_tokens(scenario: ScenarioReport) -> float:
    """Return the tokens of a scenario, by the agent's counts."""
    usage = sum_usage(step.usage for step in scenario.steps)
    return to_number((usage or {}).get("total_tokens"))


def sum_costs(scenario: ScenarioReport) -> float:
    """Return the cost of a scenario, by the agent's counts and in the agent's unit."""
    return sum(_cost(step.usage or {}) for step in scenario.steps)


def _cost(usage: Mapping[str, Any]) -> float:
    return next((to_number(usage[name]) for name in _COSTS if name in usage), 0.0)


def format_count(value: float) -> str:
    """Format a count for people."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(value))
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def format_duration(milliseconds: Any) -> str:
    """Format a duration for people."""
    read = to_number(milliseconds)
    if read < 1000:
        return f"{read:.0f} ms" if read >= 10 or read == 0 else f"{read:.1f} ms"
    if read < 120_000:
        return f"{read / 1000:.1f} s"
    return f"{read // 60_000:,.0f} min {read % 60_000 / 1000:.0f} s"


def make_charts(groups: Sequence[Group]) -> Iterator[Chart]:
    """Make bar charts with a column for each scenario, or for several adjacent ones."""
    yield _chart("Checks passed", groups, lambda group: group.share, _percent, top=1.0)
    yield _chart("Duration", groups, lambda group: group.duration, format_duration)
    values = {"Tokens": count_tokens, "Cost": sum_costs}
    for title, value in values.items():
        if any(value(run) for group in groups for run in group.runs):
            yield _chart(title, groups, functools.partial(Group.mean, value=value), format_count)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _chart(
    title: str,
    groups: Sequence[Group],
    value: Callable[[Group], float],
    format_value: Callable[[float], str],
    *,
    top: float = 0.0,
) -> Chart:
    size = math.ceil(len(groups) / _COLUMNS) or 1
    columns = [groups[start : start + size] for start in range(0, len(groups), size)]
    values = [sum(map(value, column)) / len(column) for column in columns]
    highest = top or max(values, default=0.0) or 1.0
    mean = sum(values) / len(values) if values else 0.0
    column_text = f"each column {size} scenarios, " if size > 1 else ""
    summary = f"mean {format_value(mean)}, maximum {format_value(highest)}"
    drawn = []
    for column, each in zip(columns, values, strict=True):
        first, last = column[0], column[-1]
        name = first.name if first is last else f"{first.place} to {last.place}"
        share = each / highest
        kind = ("good" if share >= 1 else "bad" if share == 0 else "odd") if top else ""
        drawn.append((first.place, f"{name[:200]}: {format_value(each)}", share, kind))
    return title, f"{column_text}{summary}", drawn
