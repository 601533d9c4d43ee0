"""The suite itself is tested: a small server keeps every row, and each mutant of it breaks one.

A mutant that another row catches, or none, shows a case or a rule of the watcher that is not exact.
"""

import functools
import sys
from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import server_cases
from eca_protocol.testing.conformance.duplicates import DUPLICATES
from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.suite import run_suite
from eca_protocol.testing.conformance.target import Target
from eca_protocol.testing.conformance.untestable import UNTESTABLE
from eca_protocol.testing.requirements import REQUIREMENTS
from tests.eca_protocol.testing.conformance.mutants import MUTANTS
from tests.eca_protocol.testing.conformance.reference import current, server

REPOSITORY = Path(__file__).resolve().parents[4]
REFERENCE = "tests.eca_protocol.testing.conformance.reference"

CURRENT = Revision.CURRENT

UNABLE_IN_ANY = {
    "CHAT-9": "it has no command to log in",
    "CHAT-17": "it reads no citations",
    "W-26c": "it reads no citations",
    "W-12a": "it speaks one edition",
    "W-12b": "it speaks one edition",
    "W-12c": "it speaks one edition",
    "W-12d": "it speaks one edition",
    "W-13g": "it is no process here",
    "W-13h": "it is no process here",
    "W-13l": "it is no process here",
    "CLIENT-25": "it is no process here",
}
UNABLE_IN_OCTOBER = {
    "W-21g": "it speaks no CURRENT",
    "W-24d": "it speaks no CURRENT",
    "W-33d": "it speaks no CURRENT",
    "W-36c": "it speaks no CURRENT",
}
UNABLE_IN_CURRENT = {
    "W-36a": "it speaks no October",
    "W-36b": "it speaks no October",
    "W-40c": "it speaks no October",
}
"""Rows that the cases cannot judge of the reference server inside this process, and why."""

OF_EACH_CHAPTER = {
    "W-1: in lower case": "framing.headers_come_in_every_spelling",
    "W-5d": "bodies.bodies_that_are_no_message_are_refused",
    "BASE-17: twice": "turns.the_models_text_is_passed_on_as_it_comes",
    "LIFE-2": "lifecycle.initialize_comes_once_and_first",
    "W-11a": "configuration.it_introduces_itself",
    "FinishesTwice": "turns.the_models_text_is_passed_on_as_it_comes",
    "CHAT-12: within characters": "turns.the_models_text_is_passed_on_as_it_comes",
    "W-23d": "stops.a_stop_ends_the_turn_in_each_state_of_the_answer",
    "W-24a": "deletion.a_chat_that_runs_is_deleted",
    "W-30a: not prepared": "tools.files_are_read",
    "W-40b": "queries.commands_are_found",
    "W-41d": "contexts.files_are_shown_whole_or_in_part",
    "FIELD:ChatForkResponse.chatId: the source's": "today.a_chat_is_forked",
    "W-43a": "today.a_flag_follows_a_call",
    "W-44c": "jobs.jobs_are_listed",
    "DeletedChatsStayStored": "homes.chats_continue_in_the_next_server",
    "DenialsAreQuestions": "approvals.a_denial_counts_although_more_is_allowed",
    "RejectionGoesOn": "approvals.a_rejected_command_does_not_run",
}
"""A mutant from each chapter, and the case that shows it."""

AS_PROCESS = {"W-13h": "ends.signals_end_it"}
"""Mutants that only a process shows, and the case."""

CHAPTERS = sorted({name.partition(".")[0] for name in server_cases()} - {"ends"})
"""The chapters whose cases need no process of their own."""

OF_OCTOBER = [
    name for name, mutant in MUTANTS.items() if not mutant.edition and name not in AS_PROCESS
]
OF_CURRENT = [name for name, mutant in MUTANTS.items() if mutant.edition is CURRENT]


def judged(target: Target, *cases: str) -> Run:
    """Run these cases, or all."""
    known = server_cases()
    chosen = [known[name] for name in cases] or None
    return anyio.run(functools.partial(run_suite, target, cases=chosen, jobs=6), backend="trio")


def broken(run: Run) -> set[str]:
    """The rows that are broken, without those that only repeat another."""
    rows = {finding.id for finding in run.findings if finding.verdict in ("fail", "warn")}
    return rows - DUPLICATES.keys()


def judged_mutant(name: str, *cases: str) -> set[str]:
    """Return the rows that a mutant breaks in its edition."""
    mutant = MUTANTS[name]
    return broken(judged(Target(serve=mutant.serve, edition=mutant.edition), *cases))


@pytest.fixture(scope="module")
def reference_run() -> Run:
    return judged(Target(serve=server.serve))


@pytest.fixture(scope="module")
def current_run() -> Run:
    return judged(Target(serve=current.serve, edition=CURRENT))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_reference_server_breaks_nothing_in_a_chapter(chapter: str) -> None:
    cases = [name for name in server_cases() if name.startswith(f"{chapter}.")]
    run = judged(Target(serve=current.serve, edition=CURRENT), *cases)
    assert broken(run) == set()
    assert run.incidents == run.suite_errors == ()


@pytest.mark.long
def test_the_reference_server_breaks_nothing(reference_run: Run) -> None:
    assert broken(reference_run) == set()
    assert reference_run.incidents == reference_run.suite_errors == ()


@pytest.mark.long
def test_the_reference_server_breaks_nothing_in_current(current_run: Run) -> None:
    assert broken(current_run) == set()
    assert current_run.incidents == current_run.suite_errors == ()


def is_of_the_watcher(row: str) -> bool:
    return row.startswith(("FIELD:", "VALUE:"))


def unjudged(run: Run) -> set[str]:
    """Return the rows that should have been judged and were not."""
    rows = {
        finding.id
        for finding in run.findings
        if finding.verdict != "pass" and not is_of_the_watcher(finding.id)
    }
    return rows - UNTESTABLE.keys() - DUPLICATES.keys()


@pytest.mark.long
def test_what_cannot_be_judged_of_it_is_known(reference_run: Run) -> None:
    assert unjudged(reference_run) == {**UNABLE_IN_ANY, **UNABLE_IN_OCTOBER}.keys()


@pytest.mark.long
def test_what_cannot_be_judged_of_it_in_current_is_known(current_run: Run) -> None:
    assert unjudged(current_run) == {**UNABLE_IN_ANY, **UNABLE_IN_CURRENT}.keys()


def passed(run: Run) -> set[str]:
    """Return the binding rows that were judged and hold."""
    rows = {
        finding.id
        for finding in run.findings
        if finding.verdict == "pass"
        and REQUIREMENTS[finding.id].level == "must"
        and not is_of_the_watcher(finding.id)
    }
    return rows - DUPLICATES.keys()


def broken_by(names: Iterable[str]) -> set[str]:
    """Return the rows that these mutants break."""
    return {MUTANTS[name].breaks for name in names}


def test_each_row_of_a_case_has_a_mutant_or_a_reason() -> None:
    rows = {row for case in server_cases().values() for row in case.rows}
    binding = {
        row
        for row in rows
        if REQUIREMENTS[row].level == "must"
        and REQUIREMENTS[row].window.until is not Revision.DRAFT  # the server speaks no draft
    }
    explained = {*UNABLE_IN_ANY, *UNABLE_IN_OCTOBER, *filter(is_of_the_watcher, binding)}
    without = binding - broken_by(MUTANTS) - explained
    assert not without, "make a mutant of each: @breaks(row) in a module of mutants/"


@pytest.mark.long
def test_each_row_that_is_judged_has_a_mutant(reference_run: Run) -> None:
    assert passed(reference_run) - broken_by([*OF_OCTOBER, *AS_PROCESS]) == set()


@pytest.mark.long
def test_each_row_that_only_current_s_cases_judge_has_a_mutant(
    reference_run: Run, current_run: Run
) -> None:
    assert passed(current_run) - passed(reference_run) - broken_by(OF_CURRENT) == set()


@pytest.mark.parametrize("name", OF_EACH_CHAPTER)
def test_a_mutant_is_caught_by_the_row_that_it_breaks(name: str) -> None:
    assert judged_mutant(name, OF_EACH_CHAPTER[name]) == {MUTANTS[name].breaks}


@pytest.mark.long
@pytest.mark.parametrize("name", [*OF_OCTOBER, *OF_CURRENT])
def test_the_whole_suite_catches_each_mutant_by_that_row_alone(name: str) -> None:
    assert judged_mutant(name) == {MUTANTS[name].breaks}, MUTANTS[name].does


@pytest.mark.long
@pytest.mark.parametrize("name", AS_PROCESS)
def test_a_mutant_that_is_a_process_is_caught(name: str) -> None:
    command = (sys.executable, "-m", REFERENCE, "--mutant", name)
    target = Target(command=command, env={"PYTHONPATH": str(REPOSITORY)})
    assert broken(judged(target, AS_PROCESS[name])) == {MUTANTS[name].breaks}
