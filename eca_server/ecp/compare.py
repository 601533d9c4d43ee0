"""Two reports side by side: what got better, what got worse, what is not sure.

Where scenarios were repeated, a check is a share of passes, and a difference is told with the
probability that chance alone made one as large (Fisher's exact test, two-sided). A check that both
passed and failed within one report is flaky there. A step that gave no result counts as a failure
of each check that it would have had.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_server.ecp.audit import sum_of_usage
from eca_server.ecp.results import Check, RunReport, ScenarioReport, StepReport
from eca_server.printable import printable_line

__all__ = ["Change", "Comparison", "Side", "compare", "fisher"]

SIGNIFICANT: Final = 0.05

Kind: TypeAlias = Literal["fixed", "broken", "better", "worse", "added", "removed", "same"]
_Scenario: TypeAlias = tuple[str, int]
"""A name, and which of the scenarios of that name it is."""
_Place: TypeAlias = tuple[str, str, int]
"""A check's type and field, and which of the step's checks of that type and field it is."""
_WORDS: Final[Mapping[Kind, str]] = {
    "broken": "passed, and does not any more",
    "worse": "passes less often",
    "fixed": "did not pass, and does now",
    "better": "passes more often",
    "added": "is only in the second report",
    "removed": "is only in the first report",
}


@attrs.frozen(kw_only=True)
class Side:
    """One of the reports, in short.

    Attributes:
        name: the manifest's.
        started_at: when its run began, as its audit says.
        passed: how many checks did.
        total: of how many.
        duration_ms: of all scenarios together.
        total_tokens: as far as the agent says.
    """

    name: str
    started_at: str | None
    passed: int
    total: int
    duration_ms: float
    total_tokens: int | None

    def __str__(self) -> str:
        began = f", {self.started_at}" if self.started_at else ""
        spent = "" if self.total_tokens is None else f", {self.total_tokens} tokens"
        return printable_line(
            f"{self.name}{began}: {self.passed} of {self.total} checks passed, "
            f"{self.duration_ms / 1000:.1f} s{spent}"
        )


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
        reasoning: of the last time it did not pass in the second report.
    """

    scenario: str
    step: int
    check: str
    kind: Kind
    before: tuple[int, int]
    after: tuple[int, int]
    probability: float | None = None
    reasoning: str | None = None

    @property
    def flaky(self) -> bool:
        """Whether it both passed and failed within one of the reports."""
        return any(0 < passed < total for passed, total in (self.before, self.after))

    @property
    def significant(self) -> bool:
        """Whether chance is an unlikely reason of the difference."""
        return self.probability is not None and self.probability < SIGNIFICANT

    def __str__(self) -> str:
        return f"{self.scenario}, step {self.step}: {self.check}"


@attrs.frozen(kw_only=True)
class Comparison:
    """What changed from one report to another; every check is among `changes`."""

    before: Side
    after: Side
    changes: tuple[Change, ...]

    @property
    def regressed(self) -> bool:
        """Whether a check is broken, or passes less often by more than chance."""
        return any(
            each.kind == "broken" or (each.kind == "worse" and each.significant)
            for each in self.changes
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values, with what did not change counted only."""
        changed = [each for each in self.changes if each.kind != "same" or each.flaky]
        return {
            "before": attrs.asdict(self.before),
            "after": attrs.asdict(self.after),
            "regressed": self.regressed,
            "unchanged": self._unchanged(),
            "changes": [_change_json(each) for each in changed],
        }

    def text(self) -> str:
        """For a person."""
        return "".join(f"{line}\n" for line in self._lines())

    def _unchanged(self) -> int:
        return sum(each.kind == "same" for each in self.changes)

    def _lines(self) -> Iterator[str]:
        yield f"first:  {self.before}"
        yield f"second: {self.after}"
        for kind, words in _WORDS.items():
            for each in self.changes:
                if each.kind == kind:
                    why = f": {each.reasoning}" if kind in {"broken", "worse"} else ""
                    yield printable_line(
                        f"{each} {words}{_counts(each, _sure(each))}{why}", longest=500
                    )
        for each in self.changes:
            if each.flaky:
                yield printable_line(f"{each} is flaky{_counts(each)}", longest=500)
        yield f"{self._unchanged()} of {len(self.changes)} checks are as they were"


def compare(before: RunReport, after: RunReport) -> Comparison:
    """What changed from `before` to `after`, check by check."""
    first, second = _by_scenario(before), _by_scenario(after)
    changes: list[Change] = []
    for scenario in {**first, **second}:
        runs = first.get(scenario, []), second.get(scenario, [])
        longest = max(len(run.steps) for side in runs for run in side)
        for number in range(longest):
            old, new = ([run.steps[number] for run in s if number < len(run.steps)] for s in runs)
            changes += _step_changes(scenario[0], number + 1, old, new)
    return Comparison(before=_side(before), after=_side(after), changes=tuple(changes))


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


def _side(report: RunReport) -> Side:
    usage = sum_of_usage(step.usage for each in report.scenarios for step in each.steps) or {}
    started = report.audit.get("started_at")
    return Side(
        name=report.name,
        started_at=started if isinstance(started, str) else None,
        passed=report.passed,
        total=report.total,
        duration_ms=round(sum(each.duration_ms for each in report.scenarios), 3),
        total_tokens=usage.get("total_tokens"),
    )


def _by_scenario(report: RunReport) -> dict[_Scenario, list[ScenarioReport]]:
    """The repetitions of each scenario; several scenarios may have one name."""
    places: dict[str, list[int]] = {}
    found: dict[_Scenario, list[ScenarioReport]] = {}
    for scenario in report.scenarios:
        seen = places.setdefault(scenario.name, [])
        if scenario.index not in seen:
            seen.append(scenario.index)
        found.setdefault((scenario.name, seen.index(scenario.index)), []).append(scenario)
    return found


def _step_changes(
    scenario: str, number: int, old: list[StepReport], new: list[StepReport]
) -> Iterator[Change]:
    """What became of a step's checks, over all its repetitions in both reports."""
    answered = [step for step in (*old, *new) if step.status == "ok"]
    known = dict.fromkeys(place for step in answered or (*old, *new) for place in _checks(step))
    for place in known:
        before, _ = _tally(old, place, with_others=bool(answered))
        after, why = _tally(new, place, with_others=bool(answered))
        kind, probability = _kind(before, after)
        check_type, field, nth = place
        yield Change(
            scenario=scenario,
            step=number,
            check=f"{check_type} of {field}{f' (number {nth + 1})' if nth else ''}",
            kind=kind,
            before=before,
            after=after,
            probability=probability,
            reasoning=why,
        )


def _checks(step: StepReport) -> dict[_Place, Check]:
    nth: Counter[tuple[str, str]] = Counter()
    found = {}
    for check in step.checks:
        kind = check.type, check.field
        found[*kind, nth[kind]] = check
        nth[kind] += 1
    return found


def _tally(
    steps: list[StepReport], place: _Place, *, with_others: bool
) -> tuple[tuple[int, int], str | None]:
    """How often a check passed, of how many times, and why not the last time it did not."""
    passed = total = 0
    why = None
    for step in steps:
        check = _checks(step).get(place)
        if check is None and step.status != "ok" and with_others and step.checks:
            check = step.checks[0]
        if check is not None:
            total += 1
            passed += check.passed
            why = why if check.passed else check.reasoning
    return (passed, total), why


def _kind(before: tuple[int, int], after: tuple[int, int]) -> tuple[Kind, float | None]:
    if not before[1]:
        return "added", None
    if not after[1]:
        return "removed", None
    probability = round(fisher(*before, *after), 6)
    old, new = before[0] / before[1], after[0] / after[1]
    if old == new:
        return "same", probability
    if {old, new} == {0.0, 1.0}:
        return "fixed" if new > old else "broken", probability
    return "better" if new > old else "worse", probability


def _counts(change: Change, sure: str = "") -> str:
    if change.before[1] <= 1 and change.after[1] <= 1:
        return ""
    (passed, total), (passed_then, total_then) = change.before, change.after
    return f" ({passed} of {total}, then {passed_then} of {total_then}{sure})"


def _sure(change: Change) -> str:
    if change.probability is None:
        return ""
    sure = "significant" if change.significant else "may be chance"
    return f"; p = {change.probability:.3g}, {sure}"


def _change_json(change: Change) -> dict[str, Any]:
    return attrs.asdict(change) | {"flaky": change.flaky, "significant": change.significant}
