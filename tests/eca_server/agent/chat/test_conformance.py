"""The suite's cases of chats, tools and contexts, judged at a server in this process.

The other tests here are about what the suite does not judge: the server's own texts and limits,
its stored chats, failing disks, races within the server, and what only this server does.
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from eca_protocol import json
from eca_protocol.revisions import Revision
from eca_protocol.streams import Transport
from eca_protocol.testing.conformance.cases import server_cases
from eca_protocol.testing.conformance.duplicates import DUPLICATES
from eca_protocol.testing.conformance.run import binds
from eca_protocol.testing.conformance.suite import run_suite
from eca_protocol.testing.conformance.target import Target
from eca_server.connection.features.host import Options
from eca_server.connection.server import serve

CHAPTERS = (
    ("turns",),
    ("titles", "usage", "links", "faults"),
    ("stops",),
    ("deletion", "behaviors", "queries"),
    ("tools",),
    ("approvals",),
    ("contexts",),
    ("mcp",),
    ("jobs",),
    ("today",),
)
DONE, BROKEN = {"pass", "not-applicable"}, {"fail", "warn"}
SLOW = {
    "turns.each_piece_of_a_long_answer_is_passed_on",
    "turns.many_chats_at_once_are_never_mixed",
}
RESTARTS = {
    "mcp.mcp_servers_are_stopped_and_started",
    "today.mcp_servers_are_added_changed_and_removed",
}
"""Cases of two seconds each."""
MOST_CASES = 8
"""The most cases of one row, which takes about a second."""
NOT_HERE = {"CTX-4"}
"""Rows that need a different machine: a page of this one is refused."""


def rows(edition: Revision, chapters: Sequence[str], *, restarts: bool = False) -> Iterator[Any]:
    """Return rows that name the requirements of their cases of some chapters, in an edition."""
    cases = [
        case
        for name, case in server_cases().items()
        if name.partition(".")[0] in chapters
        and case.window.holds(edition)
        and name not in SLOW
        and (name in RESTARTS) is restarts
    ]
    slow = [pytest.mark.long] if restarts or edition is not Revision.CURRENT else []
    for first in range(0, len(cases), MOST_CASES):
        some = cases[first : first + MOST_CASES]
        judged = {
            each
            for case in some
            for each in case.rows
            if binds(each, edition)
            and not each.startswith(("FIELD:", "VALUE:"))
            and each not in NOT_HERE
        }
        repeated = {each for each, other in DUPLICATES.items() if other in judged}
        yield pytest.param(
            edition,
            some,
            judged,
            id=f"{edition.value}-{'restarts' if restarts else chapters[0]}-{first + 1}",
            marks=[pytest.mark.requirement(*sorted(judged | repeated)), *slow],
        )


@pytest.mark.parametrize(
    ("edition", "cases", "judged"),
    [
        row
        for edition in (Revision.R2025_10, Revision.CURRENT)
        for chapters in CHAPTERS
        for row in rows(edition, chapters)
    ]
    + [*rows(Revision.CURRENT, ("mcp", "today"), restarts=True)],
)
async def test_chats_keep_the_requirements(edition, cases, judged, tmp_path):
    homes = itertools.count()

    async def serve_alone(transport: Transport, config: Mapping[str, Any]) -> int:
        environ = {
            "HOME": str(tmp_path / f"{next(homes)}"),
            "PATH": os.environ["PATH"],
            "ECA_CONFIG": json.dumps(config).decode(),
        }
        await serve(transport, Options(environ=environ, keeps_chats=True))
        return 0

    target = Target(serve=serve_alone, edition=edition)
    for jobs in (4, 1):  # what a busy machine was too slow for is judged once more
        run = await run_suite(target, cases=cases, jobs=jobs, seconds=300)
        rows = {each for case in cases for each in case.rows if each in judged}
        unmet = [
            each
            for each in run.findings
            if each.verdict in BROKEN or (each.id in rows and each.verdict not in DONE)
        ]
        if not unmet:
            break
        ids = {each.id for each in unmet}
        cases = [case for case in cases if ids & {*case.rows}] or cases
    assert (unmet, run.incidents, run.suite_errors) == ([], (), ())
