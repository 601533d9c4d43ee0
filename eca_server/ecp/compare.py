"""Two reports side by side: what got better, what got worse, what is not sure.

Where scenarios were repeated, a check is a share of passes, and a difference is told with the
probability that chance alone made one as large (Fisher's exact test, two-sided). A check that both
passed and failed within one report is flaky there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_server.ecp.progress import printable
from eca_server.ecp.results import RunReport

__all__ = ["Change", "Comparison", "compare", "fisher"]

SIGNIFICANT: Final = 0.05

Kind: TypeAlias = Literal["fixed", "broken", "better", "worse", "added", "removed", "same"]
_Place: TypeAlias = tuple[str, int, int, str, str]
_WORDS: Final[Mapping[Kind, str]] = {
    "broken": "passed, and does not any more",
    "worse": "passes less often",
    "fixed": "did not pass, and does now",
    "better": "passes more often",
    "added": "is new",
    "removed": "is gone",
}


@attrs.frozen(kw_only=True)
class Change:
    """One check in both reports.

    Attributes:
        scenario: its name.
        step: counted from 1.
        check: its type and field.
        kind: what became of it.
        before: how often it passed, and of how many times.
        after: likewise.
        probability: of a difference at least as large by chance; None where there is nothing to
            compare.
    """

    scenario: str
    step: int
    check: str
    kind: Kind
    before: tuple[int, int]
    after: tuple[int, int]
    probability: float | None = None

    @property
    def flaky(self) -> bool:
        """Whether it both passed and failed within one of the reports."""
        return any(0 < passed < total for passed, total in (self.before, self.after))


@attrs.frozen(kw_only=True)
class Comparison:
    """What changed from one report to another."""

    before: str
    after: str
    changes: tuple[Change, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain values, with what did not change counted only."""
        changed = [each for each in self.changes if each.kind != "same" or each.flaky]
        return {
            "before": self.before,
            "after": self.after,
            "unchanged": sum(each.kind == "same" for each in self.changes),
            "changes": [attrs.asdict(each) | {"flaky": each.flaky} for each in changed],
        }

    def text(self) -> str:
        """For a person."""
        lines = []
        for kind, words in _WORDS.items():
            found = [each for each in self.changes if each.kind == kind]
            lines += [f"{_line(each)} {words}{_counts(each)}" for each in found]
        flaky = [each for each in self.changes if each.flaky]
        lines += [f"{_line(each)} is flaky{_counts(each)}" for each in flaky]
        same = sum(each.kind == "same" for each in self.changes)
        lines.append(f"{same} of {len(self.changes)} checks are as they were")
        return "".join(f"{line}\n" for line in lines)


def compare(before: RunReport, after: RunReport) -> Comparison:
    """What changed from `before` to `after`, check by check."""
    old, new = _tallies(before), _tallies(after)
    changes = [_change(place, old.get(place), new.get(place)) for place in {**old, **new}]
    return Comparison(before=before.name, after=after.name, changes=tuple(changes))


def fisher(passed_a: int, total_a: int, passed_b: int, total_b: int) -> float:
    """The probability that chance alone makes two shares differ at least as much as these."""
    passed, total = passed_a + passed_b, total_a + total_b
    all_ways = math.comb(total, total_a)

    def ways(k: int) -> int:
        return math.comb(passed, k) * math.comb(total - passed, total_a - k)

    seen = ways(passed_a)
    lowest, highest = max(0, total_a - (total - passed)), min(total_a, passed)
    as_odd = sum(w for k in range(lowest, highest + 1) if (w := ways(k)) <= seen)
    return as_odd / all_ways


def _tallies(report: RunReport) -> dict[_Place, tuple[int, int]]:
    """How often each check passed, over the repetitions of its scenario."""
    tallies: dict[_Place, tuple[int, int]] = {}
    for scenario in report.scenarios:
        for number, step in enumerate(scenario.steps, 1):
            for place, check in enumerate(step.checks):
                key = scenario.name, number, place, check.type, check.field
                passed, total = tallies.get(key, (0, 0))
                tallies[key] = passed + check.passed, total + 1
    return tallies


def _change(place: _Place, old: tuple[int, int] | None, new: tuple[int, int] | None) -> Change:
    scenario, step, _, check, field = place
    kind: Kind = "same"
    probability = None
    if old is None or new is None:
        kind = "added" if old is None else "removed"
    else:
        probability = round(fisher(*old, *new), 6)
        share_before, share_after = old[0] / old[1], new[0] / new[1]
        if share_before != share_after:
            better = share_after > share_before
            whole = {share_before, share_after} == {0.0, 1.0}
            kind = ("fixed" if better else "broken") if whole else ("better" if better else "worse")
    return Change(
        scenario=scenario,
        step=step,
        check=f"{check} of {field}",
        kind=kind,
        before=old or (0, 0),
        after=new or (0, 0),
        probability=probability,
    )


def _line(change: Change) -> str:
    return f"{printable(change.scenario)}, step {change.step}: {change.check}"


def _counts(change: Change) -> str:
    if change.before[1] <= 1 and change.after[1] <= 1:
        return ""
    shares = f" ({change.before[0]} of {change.before[1]}, then {change.after[0]} of "
    shares += f"{change.after[1]}"
    if change.probability is not None and change.kind != "same":
        sure = "significant" if change.probability < SIGNIFICANT else "may be chance"
        shares += f"; p = {change.probability:.3g}, {sure}"
    return f"{shares})"
