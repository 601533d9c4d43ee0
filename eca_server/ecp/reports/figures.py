"""The numbers of a report: how they are read from what agents say, written, and drawn.

An agent may say anything of its usage: what is no finite number counts as nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from eca_server.ecp.audit import sum_of_usage
from eca_server.ecp.results import ScenarioReport
from eca_server.pages import quoted

__all__ = ["Group", "charts", "cost", "counted", "groups", "number", "seconds", "tokens"]

_COLUMNS: Final = 60
_WIDTH: Final = 600
_HEIGHT: Final = 120
_COSTS: Final = ("cost", "cost_usd", "total_cost")


@attrs.frozen
class Group:
    """A scenario of the manifest with all its repetitions; `place` counts from 1."""

    place: int
    name: str
    runs: Sequence[ScenarioReport]

    @property
    def passed(self) -> int:
        """How many repetitions passed."""
        return sum(run.passed for run in self.runs)

    @property
    def flaky(self) -> bool:
        """Whether some repetitions passed, and some did not."""
        return 0 < self.passed < len(self.runs)

    @property
    def share(self) -> float:
        """How many of its checks passed, of 1."""
        checks = [check.passed for run in self.runs for check in run.checks]
        return sum(checks) / len(checks) if checks else 0.0

    def mean(self, value: Callable[[ScenarioReport], float]) -> float:
        """The mean over its repetitions."""
        return sum(map(value, self.runs)) / len(self.runs)


def groups(scenarios: Sequence[ScenarioReport]) -> list[Group]:
    """The scenarios with their repetitions, in the order of the manifest."""
    found: dict[tuple[int, str], list[ScenarioReport]] = {}
    for scenario in scenarios:
        found.setdefault((scenario.index, scenario.name), []).append(scenario)
    return [Group(place, name, runs) for place, ((_, name), runs) in enumerate(found.items(), 1)]


def number(value: Any) -> float:
    """A number as one that can be counted with; whatever else there is as 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        read = float(value)
    except OverflowError:
        return 0.0
    return read if math.isfinite(read) and read > 0 else 0.0


def tokens(scenario: ScenarioReport) -> float:
    """How many tokens it took, as far as the agent says."""
    usage = sum_of_usage(step.usage for step in scenario.steps)
    return number((usage or {}).get("total_tokens"))


def cost(scenario: ScenarioReport) -> float:
    """What it cost, as far as the agent says, in the agent's own unit."""
    return sum(_cost(step.usage or {}) for step in scenario.steps)


def _cost(usage: Mapping[str, Any]) -> float:
    return next((number(usage[name]) for name in _COSTS if name in usage), 0.0)


def counted(value: float) -> str:
    """A count, for people."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(value))
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def seconds(milliseconds: Any) -> str:
    """A duration, for people."""
    read = number(milliseconds)
    if read < 1000:
        return f"{read:.0f} ms" if read >= 10 or read == 0 else f"{read:.1f} ms"
    if read < 120_000:
        return f"{read / 1000:.1f} s"
    return f"{read // 60_000:,.0f} min {read % 60_000 / 1000:.0f} s"


def charts(found: Sequence[Group]) -> Iterator[str]:
    """A column for each scenario; where there are very many, for some in a row."""
    yield '<div class="charts">\n'
    yield _chart("Checks passed", found, lambda group: group.share, _percent, top=1.0)
    yield _chart("Time", found, _time, seconds)
    values = {"Tokens": tokens, "Cost": cost}
    for title, value in values.items():
        if any(value(run) for group in found for run in group.runs):
            yield _chart(title, found, functools.partial(Group.mean, value=value), counted)
    yield "</div>\n"


def _time(group: Group) -> float:
    return group.mean(lambda run: number(run.duration_ms))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _chart(
    title: str,
    found: Sequence[Group],
    value: Callable[[Group], float],
    told: Callable[[float], str],
    *,
    top: float = 0.0,
) -> str:
    size = math.ceil(len(found) / _COLUMNS) or 1
    columns = [found[start : start + size] for start in range(0, len(found), size)]
    values = [sum(map(value, column)) / len(column) for column in columns]
    highest = top or max(values, default=0.0) or 1.0
    width = _WIDTH / max(12, len(columns))
    drawn = "".join(
        _column(place * width, width, column, each / highest, told(each), coloured=bool(top))
        for place, (column, each) in enumerate(zip(columns, values, strict=True))
    )
    mean = sum(values) / len(values) if values else 0.0
    of = f"each column {size} scenarios, " if size > 1 else ""
    return (
        f'<figure class="card"><figcaption>{title}'
        f'<span class="faint">{of}mean {told(mean)}, top {told(highest)}</span></figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + 2}" role="img" aria-label="{title}">'
        f'<line x1="0" x2="{_WIDTH}" y1="0.5" y2="0.5" stroke-dasharray="2 4"/>'
        f'<line x1="0" x2="{_WIDTH}" y1="{_HEIGHT + 1}" y2="{_HEIGHT + 1}"/>{drawn}</svg>'
        "</figure>\n"
    )


def _column(
    x: float, width: float, column: Sequence[Group], share: float, told: str, *, coloured: bool
) -> str:
    """Shown at least two units high, so that there is something to point at."""
    height = max(2.0, _HEIGHT * min(1.0, share))
    kind = ""
    if coloured:
        kind = "good" if share >= 1 else "bad" if share == 0 else "odd"
    name = column[0].name if len(column) == 1 else f"{column[0].place} to {column[-1].place}"
    gap = min(3.0, width / 5)
    return (
        f'<a href="#s{column[0].place}"><title>{quoted(name[:200])}: {told}</title>'
        f'<rect class="back" x="{x:.2f}" y="0" width="{width:.2f}" height="{_HEIGHT}"/>'
        f'<rect class="{kind}" x="{x + gap / 2:.2f}" y="{_HEIGHT - height:.2f}" '
        f'width="{width - gap:.2f}" height="{height:.2f}" rx="1.5"/></a>'
    )
