"""Comparison of two reports, and the trend of many."""

import json
import sys
from pathlib import Path

import attrs
import pytest

from eca_server.ecp.cli import run
from eca_server.ecp.compare import compare, fisher_exact
from eca_server.ecp.results import ScenarioReport, StepReport
from eca_server.ecp.trend import compute_trend
from tests.eca_server.ecp.sample_reports import CRASHED, a_report, check, hours, no_result


def graded(name: str, *verdicts: bool, index: int = 0) -> ScenarioReport:
    checks = tuple(check(passed=passed) for passed in verdicts)
    return ScenarioReport(name=name, index=index, steps=(StepReport(input="i", checks=checks),))


def crashed(name: str) -> ScenarioReport:
    return ScenarioReport(
        name=name, status="failed", steps=(no_result("i", "failed", "exit code 1"),)
    )


def answering(*steps: tuple[str, dict[str, bool]]) -> ScenarioReport:
    """Make a scenario of inputs, with the verdict of each expected text."""
    made = [
        StepReport(
            input=text,
            checks=tuple(
                attrs.evolve(check(passed=passed), expected=expected)
                for expected, passed in verdicts.items()
            ),
        )
        for text, verdicts in steps
    ]
    return ScenarioReport(name="a", steps=tuple(made))


SHORTER = answering(("i", {"x": True, "y": False}), ("j", {"z": False}))


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (  # a new first step and a new first check
            [SHORTER],
            [answering(("h", {"x": False}), ("i", {"w": False, "x": True, "y": False}), ("j", {}))],
            ["added", "added", "same", "same", "removed"],
        ),
        (  # a changed input and a changed text
            [SHORTER],
            [answering(("k", {"x": False, "q": True}), ("j", {"z": False}))],
            ["broken", "fixed", "same"],
        ),
        ([graded("a", True, False)], [graded("a", False, True)], ["broken", "fixed"]),
        ([graded("a", True)], [graded("b", True)], ["removed", "added"]),
        ([graded("a", True)], [graded("a", True, True)], ["same", "added"]),
        ([graded("a", True, False)], [crashed("a")], ["broken", "same"]),
        ([crashed("a")], [graded("a", True, False)], ["fixed", "same"]),
        ([crashed("a")], [crashed("a")], ["same"]),
        ([], [], []),
        # Two scenarios of one name are two, not repetitions of one.
        ([graded("a", True), graded("a", False, index=1)],) * 2 + (["same", "same"],),
        ([hours(0, passed=True)], [hours(0, passed=True), hours(1, passed=False)], ["worse"]),
    ],
)
def test_each_check_has_its_kind_of_change(before, after, kinds):
    result = compare(a_report(scenarios=tuple(before)), a_report(scenarios=tuple(after)))
    assert [change.kind for change in result.changes] == kinds
    assert result.regressed == ("broken" in kinds)


def test_a_comparison_says_what_broke_and_why_and_how_sure_that_is():
    before = a_report(*(hours(repeat, passed=repeat > 0) for repeat in range(8)), CRASHED)
    after = a_report(*(hours(repeat, passed=repeat > 6) for repeat in range(8)), CRASHED)
    result = compare(before, after)
    name = "opening hours, step 1: text_match of public_output"
    why = ": contains: the text does not contain the value"
    assert result.text().splitlines() == [
        "first:  Library desk: 7 of 10 checks passed, 2.5 s",
        "second: Library desk: 1 of 10 checks passed, 2.5 s",
        f"{name} passes less often (7 of 8, then 1 of 8; p = 0.0101, significant){why}",
        f"{name} is flaky (7 of 8, then 1 of 8)",
        "2 of 3 checks are unchanged",
    ]
    assert result.regressed
    values = result.to_json()
    assert (values["regressed"], values["unchanged"], len(values["changes"])) == (True, 2, 1)
    assert values["changes"][0]["before"] == (7, 8)


def test_a_second_report_without_all_scenarios_shows_no_improvement():
    whole, part = graded("a", True), graded("b", True)
    cut = {"exit_reason": "interrupted", "warnings": ("1 scenario was not run",)}
    result = compare(a_report(whole, part), a_report(whole, **cut))
    assert result.text().splitlines()[1:3] == [
        "second: Library desk: 1 of 1 checks passed, 0.0 s (interrupted)",
        "second: warning: 1 scenario was not run",
    ]
    assert result.regressed
    assert not compare(a_report(whole, **cut), a_report(whole, part)).regressed


@pytest.mark.parametrize(
    ("counts", "probability"),
    [
        ((3, 4, 1, 4), 34 / 70),  # the lady tasting tea
        ((10, 10, 0, 10), 2 / 184_756),
        ((1, 1, 0, 1), 1.0),
        ((8, 10, 3, 10), 0.069_778_518_694_927_36),
        ((500, 1000, 400, 1000), 8.453_719_674_485_63e-06),
    ],
)
def test_fishers_exact_test_gives_the_known_probabilities(counts, probability):
    assert fisher_exact(*counts) == pytest.approx(probability, rel=1e-9)


@pytest.mark.parametrize(
    ("shares", "window", "slope", "text"),
    [
        ([4], 20, 0.0, "1 run: the pass rate is level, from 100.0% to 100.0% (+0.00"),
        ([0, 1, 2], 20, 0.25, "3 runs: the pass rate rises, from 0.0% to 50.0% (+25.00"),
        ([0, 4, 3, 2], 3, -0.25, "3 runs: the pass rate falls, from 100.0% to 50.0% (-25.00"),
        ([2, 3, 3, 2], 20, 0.0, "4 runs: the pass rate is level, from 50.0% to 50.0% (+0.00"),
    ],
)
def test_the_trend_is_the_slope_of_the_last_runs(shares, window, slope, text):
    reports = [
        (f"{place}.json", a_report(graded("a", *[n < passed for n in range(4)])))
        for place, passed in enumerate(shares)
    ]
    result = compute_trend(reports, window=window)
    assert result.slope == pytest.approx(slope)
    assert result.regressed == (slope < 0)
    assert result.text(verbose=False) == f"{text} points a run)\n"


def test_runs_come_in_the_order_in_which_they_began_and_nothing_checked_is_no_pass():
    dates = {"c": "2026-01-03", "a": "2026-01-01", "run-10": None, "run-2": None}
    reports = [
        (name, a_report(graded("a", True), audit={"started_at": date} if date else {}))
        for name, date in dates.items()
    ]
    result = compute_trend(
        [*reports, ("b", a_report(scenarios=(), audit={"started_at": "9"}))], window=9
    )
    assert [name for _, name, _ in result.points] == ["run-2", "run-10", "a", "c", "b"]
    assert result.points[-1][2] == 0.0
    assert result.text(verbose=True).startswith("unknown time run-2: 100.0%\n")


def test_the_commands_say_it_in_any_locale_and_with_an_exit_code(
    tmp_path, capfdbinary, monkeypatch
):
    files = []
    for name, passed in (("first.json", True), ("second.json", False)):
        files.append(str(tmp_path / name))
        report = a_report(graded("日本\x1b[2J", passed), audit={"started_at": name})
        Path(files[-1]).write_text(json.dumps(report.to_json()), "utf-8")
    (tmp_path / "third.json").write_text("[]")
    monkeypatch.setattr(sys, "stdout", open(1, "w", encoding="latin-1", closefd=False))  # noqa: SIM115

    assert run(["compare", *files]) == 0
    assert run(["compare", *files, "--json", "--exit-on-regression"]) == 2
    assert run(["compare", *reversed(files), "--exit-on-regression"]) == 0
    assert run(["compare", files[0], str(tmp_path / "third.json")]) == 1
    assert run(["trend", str(tmp_path / "*.json"), "--exit-on-regression"]) == 2
    assert run(["trend", *files, files[0], "--exit-on-regression"]) == 2
    (tmp_path / "fourth.json").write_bytes(b"\xff")
    assert run(["compare", files[0], str(tmp_path / "fourth.json")]) == 1
    sys.stdout.flush()
    output, errors = (part.decode() for part in capfdbinary.readouterr())
    assert "日本\\x1b[2J, step 1: text_match of public_output passed before, and fails" in output
    assert "\x1b" not in output
    assert '"regressed": true' in output
    assert output.count("2 runs: the pass rate falls") == 2
    assert errors.count("third.json is not a report: expected an object") == 2
    assert "fourth.json is not a report: 'utf-8' codec can't decode byte 0xff" in errors
