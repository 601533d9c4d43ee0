"""Some chapters of the suite's cases at the real process; `.ci/run` runs them all.

These are the tests of framing, JSON-RPC, the handshake and the ends over the wire.
"""

from typing import Any

import pytest

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import server_cases
from eca_protocol.testing.conformance.duplicates import DUPLICATES
from eca_protocol.testing.conformance.suite import run_suite
from eca_protocol.testing.conformance.target import Target
from tests.eca_server import fork_server

CHAPTERS = ("framing", "bodies", "jsonrpc", "lifecycle", "roots", "editions", "draft", "ends")
CASES = {
    chapter: [case for name, case in server_cases().items() if name.startswith(f"{chapter}.")]
    for chapter in CHAPTERS
}
CASES["introduction"] = [
    server_cases()[f"configuration.{name}"]
    for name in ("it_introduces_itself", "the_welcome_is_the_configured_one")
]


def marked(chapter: str) -> Any:
    """Return a row that names the requirements of its cases."""
    rows = {row for case in CASES[chapter] for row in case.rows}
    rows |= {row for row, judged in DUPLICATES.items() if judged in rows}
    speed = [pytest.mark.long] if chapter in {"editions", "ends"} else []
    return pytest.param(chapter, marks=[pytest.mark.requirement(*sorted(rows)), *speed])


@pytest.mark.parametrize("chapter", [*map(marked, CASES)])
async def test_the_server_keeps_the_requirements_of_a_chapter(chapter: str) -> None:
    edition = Revision.DRAFT if chapter == "draft" else Revision.R2025_10
    target = Target(command=(*fork_server.command(), "server"), edition=edition)
    run = await run_suite(target, cases=CASES[chapter], jobs=2, seconds=300)
    verdicts = {finding.id: finding.verdict for finding in run.findings}
    assert not {"fail", "warn"} & set(verdicts.values()), run.findings
    assert all(verdicts[row] == "pass" for case in CASES[chapter] for row in case.rows), verdicts
    assert (run.incidents, run.suite_errors) == ((), ())
