"""The writer of JUnit XML, the reports that build servers read.

A text may contain anything: illegal characters become their codes, and a long text is cut.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias
from xml.etree import ElementTree as ET

import attrs

Outcome: TypeAlias = tuple[Literal["failure", "error", "skipped"], str, str]
"""The verdict, the reason in one line, and the full reason, which a skipped case does not show."""

_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST: Final = 10_000


@attrs.frozen
class TestCase:
    """A test case; without an outcome it passed."""

    classname: str
    name: str
    outcome: Outcome | None = None
    output: str = ""
    seconds: float | None = None


@attrs.frozen
class TestSuite:
    """A group of test cases."""

    name: str
    cases: Sequence[TestCase]
    log: str | None = None
    seconds: float | None = None


def render_junit(name: str, seconds: float, suites: Sequence[TestSuite]) -> str:
    """Render a report."""
    cases = [case for suite in suites for case in suite.cases]
    root = ET.Element("testsuites", _attributes(seconds, name=name) | _counts(cases))
    for suite in suites:
        attributes = _attributes(suite.seconds, name=suite.name) | _counts(suite.cases)
        element = ET.SubElement(root, "testsuite", attributes)
        for case in suite.cases:
            _add_case(element, case)
        if suite.log is not None:
            ET.SubElement(element, "system-err").text = _legal(suite.log)
    ET.indent(root, "")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add_case(suite: ET.Element, case: TestCase) -> None:
    names = _attributes(case.seconds, classname=case.classname, name=case.name)
    element = ET.SubElement(suite, "testcase", names)
    if case.outcome is not None:
        verdict, message, why = case.outcome
        outcome = ET.SubElement(element, verdict, _attributes(message=message))
        outcome.text = _legal(why) if verdict != "skipped" else None
    if case.output:
        ET.SubElement(element, "system-out").text = _legal(case.output)


def _attributes(seconds: float | None = None, **texts: str) -> dict[str, str]:
    times = {} if seconds is None else {"time": f"{seconds:.3f}"}
    return {name: _legal(text).replace("\n", " ") for name, text in texts.items()} | times


def _counts(cases: Sequence[TestCase]) -> dict[str, str]:
    count: Counter[str] = Counter(case.outcome[0] for case in cases if case.outcome is not None)
    plurals = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counts = {plural: str(count[verdict]) for plural, verdict in plurals.items()}
    return {"tests": str(len(cases)), **counts}


def _legal(text: str) -> str:
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... (cut)"
    return _ILLEGAL.sub(lambda match: f"\\u{ord(match[0]):04x}", cut)
