"""JUnit's XML, as build servers read it: a scenario is a test suite, a step a test case."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from eca_server.ecp.results import RunReport, ScenarioReport, StepReport

__all__ = ["junit"]

_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST: Final = 10_000


def junit(report: RunReport) -> str:
    """The whole run."""
    suites = "".join(map(_suite, report.scenarios))
    cases = [step for scenario in report.scenarios for step in scenario.steps]
    counts = _counts(cases)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {counts}>\n{suites}</testsuites>\n'


def _suite(scenario: ScenarioReport) -> str:
    repeat = f" (repetition {scenario.repeat + 1})" if scenario.repeat else ""
    name = _attribute(f"{scenario.name}{repeat}")
    seconds = f"{scenario.duration_ms / 1000:.3f}"
    cases = "".join(
        _case(scenario.name, number, step) for number, step in enumerate(scenario.steps, 1)
    )
    log = "" if scenario.log is None else f"<system-err>{_text(scenario.log)}</system-err>\n"
    counts = _counts(scenario.steps)
    return f'<testsuite name={name} time="{seconds}" {counts}>\n{cases}{log}</testsuite>\n'


def _case(suite: str, number: int, step: StepReport) -> str:
    name = _attribute(f"{number}: {step.input[:200]}")
    seconds = f"{step.duration_ms / 1000:.3f}"
    said = [
        f"{check.type} of {check.field}: {check.reasoning}"
        for check in step.checks
        if not check.passed
    ]
    body = ""
    if step.status == "skipped":
        body = f"<skipped message={_attribute(step.error or '')}/>"
    elif step.status == "failed" or any(check.error for check in step.checks):
        body = f"<error message={_attribute(step.exit_reason)}>{_text(chr(10).join(said))}</error>"
    elif said:
        body = f"<failure message={_attribute(said[0])}>{_text(chr(10).join(said))}</failure>"
    if step.output:
        body += f"<system-out>{_text(step.output)}</system-out>"
    return (
        f'<testcase classname={_attribute(suite)} name={name} time="{seconds}">{body}</testcase>\n'
    )


def _counts(steps: Sequence[StepReport]) -> str:
    skipped = sum(step.status == "skipped" for step in steps)
    errors = sum(
        step.status == "failed" or (step.status == "ok" and any(c.error for c in step.checks))
        for step in steps
    )
    failures = sum(
        step.status == "ok"
        and not any(c.error for c in step.checks)
        and any(not c.passed for c in step.checks)
        for step in steps
    )
    return f'tests="{len(steps)}" failures="{failures}" errors="{errors}" skipped="{skipped}"'


def _legal(text: str) -> str:
    """What XML 1.0 can hold; the rest is spelled out."""
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... (cut)"
    return _ILLEGAL.sub(lambda found: f"\\u{ord(found[0]):04x}", cut)


def _text(text: str) -> str:
    return escape(_legal(text))


def _attribute(text: str) -> str:
    return quoteattr(_legal(text).replace("\n", " "))
