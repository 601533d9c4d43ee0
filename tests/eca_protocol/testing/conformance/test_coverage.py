"""Each row that binds a server is judged by a case, or by another row, or is untestable."""

import re
from collections import Counter

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import server_cases
from eca_protocol.testing.conformance.duplicates import DUPLICATES
from eca_protocol.testing.conformance.run import binds
from eca_protocol.testing.conformance.untestable import UNBOUND, UNTESTABLE
from eca_protocol.testing.requirements import REQUIREMENTS

BY_THE_WATCHER = ("FIELD:", "VALUE:")
JUDGED = {row for case in server_cases().values() for row in case.rows}


def test_every_row_of_a_server_s_is_accounted_for_once() -> None:
    ways = Counter([*JUDGED, *DUPLICATES, *UNTESTABLE])
    rows = [
        row
        for row in REQUIREMENTS
        if not row.startswith(BY_THE_WATCHER) and any(binds(row, each) for each in Revision)
    ]
    assert {row: ways[row] for row in rows if ways[row] != 1} == {}


def test_a_row_that_is_judged_in_another_s_place_is_judged() -> None:
    assert set(DUPLICATES.values()) - JUDGED == set()
    assert set(DUPLICATES) - set(REQUIREMENTS) == set()


def test_no_case_judges_what_binds_clients_alone() -> None:
    assert [row for row in JUDGED if REQUIREMENTS[row].side == "client"] == []


def test_reasons_name_rows_that_exist() -> None:
    reasons = " ".join([*UNBOUND.values(), *UNTESTABLE.values()])
    assert set(re.findall(r"\b[A-Z]+-\d+[a-z]?", reasons)) - set(REQUIREMENTS) == set()
