"""The suite itself is tested: a small server keeps every row, and each mutant of it breaks one.

A mutant that another row catches, or none, shows a case or a rule of the watcher that is not exact.
"""

from __future__ import annotations

import functools
from pathlib import Path

import anyio
import pytest

from eca_protocol.testing.conformance.cases import server_cases
from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.same import SAME
from eca_protocol.testing.conformance.suite import run_suite
from eca_protocol.testing.conformance.target import Target
from tests.eca_protocol.testing.conformance.reference.server import serve

REPOSITORY = Path(__file__).resolve().parents[4]
REFERENCE = "tests.eca_protocol.testing.conformance.reference"


def judged(target: Target, *cases: str) -> Run:
    """Run these cases, or all."""
    known = server_cases()
    chosen = [known[name] for name in cases] or None
    return anyio.run(functools.partial(run_suite, target, cases=chosen, jobs=6), backend="trio")


def broken(run: Run) -> set[str]:
    """The rows that are broken, without those that only repeat another."""
    found = {finding.id for finding in run.findings if finding.verdict in ("fail", "warn")}
    return found - SAME.keys()


@pytest.fixture(scope="module")
def reference_run() -> Run:
    return judged(Target(serve=serve))


def test_the_reference_server_breaks_nothing(reference_run: Run) -> None:
    assert broken(reference_run) == set()
    assert reference_run.incidents == ()
