"""Comparison of two reports, check by check.

For repeated scenarios the shares of passes are compared, and a difference has the probability that
chance alone made one as large (Fisher's exact test, two-sided). A check that both passed and failed
within one report is flaky. A step without a result counts as a failure of each of its checks.
Steps are aligned by their inputs, and checks by their expectations: an inserted one does not
shift the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_server.ecp.audit import sum_usage
from eca_server.ecp.reports.figures import group_scenarios
from eca_server.ecp.results import Check, RunReport, ScenarioReport, StepReport
from eca_server.printable import printable_line

SIGNIFICANT: Final = 0.05

ChangeKind: TypeAlias = Literal["fixed", "broken", "better", "worse", "added", "removed", "same"]
_ScenarioKey: TypeAlias = tuple[str, int]
"""A scenario's name, and its number among the scenarios of that name."""
_CheckKind: TypeAlias = tuple[str, str]
"""A check's type and field."""
_DESCRIPTIONS: Final[Mapping[ChangeKind, str]] = {
    "broken": "passed before, and fails now",
    "worse": "passes less often",
    "fixed": "failed before, and passes now",
    "better": "passes more often",
    "added": "is only in the second report",
    "removed": "is only in the first report",
}


@attrs.frozen(kw_only=True)
class ReportSummary:
    """The summary of one report.

    Attributes:
        started_at: the start of the run, from its audit record.
        duration_ms: the sum over all scenarios.
        total_tokens: the sum of the agent's counts; None without any.
        warnings: of the run; for example how many scenarios were not run.
    """

    name: str
    exit_reason: str
    warnings: tuple[str, ...]
    started_at: str | None
    passed: int
    total: int
    duration_ms: float
    total_tokens: int | None

    def __str__(self) -> str:
        started = f", started {self.started_at}" if self.started_at else ""
        usage = "" if self.total_tokens is None else f", {self.total_tokens} tokens"
        why = "" if self.exit_reason == "ok" else f" ({self.exit_reason})"
        return printable_line(
            f"{self.name}{started}: {self.passed} of {self.total} checks passed, "
            f"{self.duration_ms / 1000:.1f} s{usage}{why}"
        )


@attrs.frozen(kw_only=True)
class Change:
    """One check in both reports.

    Attributes:
        step: the step's number, from 1.
        before: the numbers of passes and of runs in the first report.
        after: the numbers of passes and of runs in the second report.
        probability: the probability of a difference at least as large by chance; None without a
            comparison.
        reasoning: the reason of the last failure in the second report.
    """

    scenario: str
    step: int
    check: str
    kind: ChangeKind
    before: tuple[int, int]
    after: tuple[int, int]
    probability: float | None = None
    reasoning: str | None = None

    @property
    def flaky(self) -> bool:
        """True if the check both passed and failed within one report."""
        return any(0 < passed < total for passed, total in (self.before, self.after))

    @property
    def significant(self) -> bool:
        """True if chance is an unlikely reason of the difference."""
        return self.probability is not None and self.probability < SIGNIFICANT

    def __str__(self) -> str:
        return f"{self.scenario}, step {self.step}: {self.check}"


@attrs.frozen(kw_only=True)
class Comparison:
    """The comparison of two reports; every check is among `changes`."""

    before: ReportSummary
    after: ReportSummary
    changes: tuple[Change, ...]

    @property
    def regressed(self) -> bool:
        """True if a check is broken, passes significantly less often, or may be missing."""
        return self.after.exit_reason == "interrupted" or any(
            each.kind == "broken" or (each.kind == "worse" and each.significant)
            for each in self.changes
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values; unchanged checks are only counted."""
        changed = [each for each in self.changes if each.kind != "same" or each.flaky]
        return {
            "before": attrs.asdict(self.before),
            "after": attrs.asdict(self.after),
            "regressed": self.regressed,
            "unchanged": self._unchanged(),
            "changes": [_change_json(each) for each in changed],
        }

    def text(self) -> str:
        """Return the comparison as lines for a terminal."""
        return "".join(f"{line}\n" for line in self._lines())

    def _unchanged(self) -> int:
        return sum(each.kind == "same" for each in self.changes)

    def _lines(self) -> Iterator[str]:
        for place, report in (("first: ", self.before), ("second:", self.after)):
            yield f"{place} {report}"
            for warning in report.warnings:
                yield printable_line(f"{place} warning: {warning}", longest=500)
        for kind, description in _DESCRIPTIONS.items():
            for each in self.changes:
                if each.kind == kind:
                    why = f": {each.reasoning}" if kind in {"broken", "worse"} else ""
                    yield printable_line(
                        f"{each} {description}{_counts(each, _significance(each))}{why}",
                        longest=500,
                    )
        for each in self.changes:
            if each.flaky:
                yield printable_line(f"{each} is flaky{_counts(each)}", longest=500)
        yield f"{self._unchanged()} of {len(self.changes)} checks are unchanged"


def compare(before: RunReport, after: RunReport) -> Comparison:
    """Compare two reports, check by check."""
    first, second = _by_scenario(before), _by_scenario(after)
    changes: list[Change] = []
    for scenario in {**first, **second}:
        runs = first.get(scenario, []), second.get(scenario, [])
        for places in _align(*map(_inputs, runs)):
            old, new = (
                [run.steps[place] for run in side if place is not None and place < len(run.steps)]
                for side, place in zip(runs, places, strict=True)
            )
            number = next(place for place in reversed(places) if place is not None) + 1
            changes += _step_changes(scenario[0], number, old, new)
    return Comparison(before=_summarize(before), after=_summarize(after), changes=tuple(changes))


def fisher_exact(passed_a: int, total_a: int, passed_b: int, total_b: int) -> float:
    """Return the probability that chance alone makes two shares differ at least as much."""
    passed, total = passed_a + passed_b, total_a + total_b
    all_ways = math.comb(total, total_a)

    def ways(k: int) -> int:
        return math.comb(passed, k) * math.comb(total - passed, total_a - k)

    observed = ways(passed_a)
    lowest, highest = max(0, total_a - (total - passed)), min(total_a, passed)
    as_odd = sum(w for k in range(lowest, highest + 1) if (w := ways(k)) <= observed)
    return as_odd / all_ways


def _summarize(report: RunReport) -> ReportSummary:
    usage = sum_usage(step.usage for each in report.scenarios for step in each.steps) or {}
    started = report.audit.get("started_at")
    return ReportSummary(
        name=report.name,
        exit_reason=report.exit_reason,
        warnings=tuple(report.warnings),
        started_at=started if isinstance(started, str) else None,
        passed=report.passed,
        total=report.total,
        duration_ms=round(sum(each.duration_ms for each in report.scenarios), 3),
        total_tokens=usage.get("total_tokens"),
    )


def _by_scenario(report: RunReport) -> dict[_ScenarioKey, Sequence[ScenarioReport]]:
    """Group the repetitions of each scenario; several scenarios may have one name."""
    numbers: Counter[str] = Counter()
    repetitions: dict[_ScenarioKey, Sequence[ScenarioReport]] = {}
    for group in group_scenarios(report.scenarios):
        repetitions[group.name, numbers[group.name]] = group.runs
        numbers[group.name] += 1
    return repetitions


def _inputs(runs: Sequence[ScenarioReport]) -> list[str]:
    """Return the inputs of a scenario's steps, by the longest of its repetitions."""
    longest = max((run.steps for run in runs), key=len, default=())
    return [step.input for step in longest]


def _align(
    old: Sequence[str | None], new: Sequence[str | None]
) -> Iterator[tuple[int | None, int | None]]:
    """Yield the places of two lists in pairs; None for an item that was added or removed."""
    for _, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new).get_opcodes():
        yield from zip_longest(range(old_start, old_end), range(new_start, new_end))


def _step_changes(
    scenario: str, number: int, old: list[StepReport], new: list[StepReport]
) -> Iterator[Change]:
    """Yield the change of each check of a step, over all its repetitions in both reports."""
    is_answered = any(step.status == "ok" for step in (*old, *new))
    first, second = _planned_checks(old, new), _planned_checks(new, old)
    for check_kind in {**first, **second}:
        sides = ([check.expected for check in side.get(check_kind, [])] for side in (first, second))
        for places in _align(*sides):
            before, _ = _tally(old, check_kind, places[0], is_answered=is_answered)
            after, why = _tally(new, check_kind, places[1], is_answered=is_answered)
            kind, probability = _kind(before, after)
            place = next(place for place in reversed(places) if place is not None)
            yield Change(
                scenario=scenario,
                step=number,
                check=f"{' of '.join(check_kind)}{f' (number {place + 1})' if place else ''}",
                kind=kind,
                before=before,
                after=after,
                probability=probability,
                reasoning=why,
            )


def _planned_checks(
    steps: list[StepReport], others: list[StepReport]
) -> dict[_CheckKind, list[Check]]:
    """Return the checks that a step has with a result, if need be by the other report."""
    if not steps:
        return {}
    return _checks(next((step for step in (*steps, *others) if step.status == "ok"), steps[0]))


def _checks(step: StepReport) -> dict[_CheckKind, list[Check]]:
    checks: dict[_CheckKind, list[Check]] = {}
    for check in step.checks:
        checks.setdefault((check.type, check.field), []).append(check)
    return checks


def _tally(
    steps: list[StepReport], kind: _CheckKind, place: int | None, *, is_answered: bool
) -> tuple[tuple[int, int], str | None]:
    passed = total = 0
    why = None
    for step in steps if place is not None else ():
        check = next(iter(_checks(step).get(kind, [])[place:]), None)
        if check is None and step.status != "ok" and is_answered and step.checks:
            check = step.checks[0]
        if check is not None:
            total += 1
            passed += check.passed
            why = why if check.passed else check.reasoning
    return (passed, total), why


def _kind(before: tuple[int, int], after: tuple[int, int]) -> tuple[ChangeKind, float | None]:
    if not before[1]:
        return "added", None
    if not after[1]:
        return "removed", None
    probability = round(fisher_exact(*before, *after), 6)
    old, new = before[0] / before[1], after[0] / after[1]
    if old == new:
        return "same", probability
    if {old, new} == {0.0, 1.0}:
        return "fixed" if new > old else "broken", probability
    return "better" if new > old else "worse", probability


def _counts(change: Change, significance: str = "") -> str:
    if change.before[1] <= 1 and change.after[1] <= 1:
        return ""
    (passed, total), (passed_then, total_then) = change.before, change.after
    return f" ({passed} of {total}, then {passed_then} of {total_then}{significance})"


def _significance(change: Change) -> str:
    if change.probability is None:
        return ""
    verdict = "significant" if change.significant else "may be chance"
    return f"; p = {change.probability:.3g}, {verdict}"


def _change_json(change: Change) -> dict[str, Any]:
    return attrs.asdict(change) | {"flaky": change.flaky, "significant": change.significant}
