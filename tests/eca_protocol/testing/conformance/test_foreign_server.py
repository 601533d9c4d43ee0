"""A foreign server, in Node: one error of it costs one row, and rows that depend on it say so."""

from collections.abc import Collection
from pathlib import Path

import pytest

from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.server import stops
from eca_protocol.testing.conformance.target import Target
from eca_protocol.testing.conformance.verdicts import OUT_OF_STEP
from tests.eca_protocol.testing.conformance.test_mutants import broken, judged
from tests.node import node

SERVER = str(Path(__file__).with_name("foreign_server.mjs"))

APPROVED = "approvals.an_approved_command_runs"
REJECTED = "approvals.a_rejected_command_does_not_run"
STOPPED = "stops.a_stop_ends_the_turn_in_each_state_of_the_answer"
IN_PARTS = "turns.a_turn_has_its_parts_in_order"
BY_CHAT = "turns.a_chat_knows_nothing_of_another"
CASES = (APPROVED, REJECTED, IN_PARTS, BY_CHAT)

OWN = {"W-11e"}
"""The rows that the server breaks by design: it announces no task."""


def run_with(fault: str, *cases: str) -> Run:
    return judged(Target(command=(node(), SERVER), env={"FAULTS": fault}), *cases)


def verdicts(run: Run, rows: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return the verdict and the reason of each of these rows."""
    return {each.id: (each.verdict, each.got) for each in run.findings if each.id in rows}


@pytest.mark.long(but=1)  # a stop is watched for seconds
@pytest.mark.parametrize("cases", [CASES, (STOPPED,)], ids=["quick", "stops"])
def test_the_server_without_errors_passes(cases: Collection[str]) -> None:
    assert broken(run_with("", *cases)) - OWN == set()


def test_an_exit_code_is_one_row() -> None:
    assert broken(run_with("exit", "ends.exit_comes_without_shutdown")) - OWN == {"W-13f"}


@pytest.mark.long
def test_a_crash_is_reported_with_the_exit_code_and_stderr() -> None:
    run = run_with("", "bodies.bodies_that_are_no_message_are_refused")
    ((verdict, got),) = verdicts(run, {"BASE-23"}).values()
    assert verdict == "fail"
    assert got.startswith("the end of the server with exit code 1; its stderr: ")
    assert "SyntaxError" in got


def test_a_wrong_length_is_one_row_and_what_needs_no_other_characters_is_judged() -> None:
    run = run_with("characters", APPROVED, REJECTED, BY_CHAT, IN_PARTS)
    assert broken(run) - OWN == {"BASE-6"}
    assert run.incidents == ()
    assert {verdict for verdict, _ in verdicts(run, {"TOOL-14", "W-31b", "CHAT-39"}).values()} == {
        "pass"
    }
    assert verdicts(run, {"CHAT-7", "W-20e"}) == {
        "CHAT-7": ("untestable", OUT_OF_STEP),
        "W-20e": ("untestable", OUT_OF_STEP),
    }


def test_a_length_that_is_too_large_is_one_row() -> None:
    run = run_with("long", BY_CHAT, IN_PARTS)
    assert broken(run) - OWN == {"BASE-6"}
    assert verdicts(run, {"W-20a"}) == {"W-20a": ("untestable", OUT_OF_STEP)}
    assert run.seconds < 15


@pytest.mark.long
def test_output_after_a_stopped_turn_passes_no_row_that_forbids_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = "in the midst of a text"
    monkeypatch.setattr(stops, "STATES", {state: stops.STATES[state]})
    run = run_with("late", STOPPED)
    assert broken(run) - OWN == {"W-23f", "W-23g"}
    why = "the output came after `finished`, which breaks W-23g"
    assert verdicts(run, {"CHAT-33"}) == {"CHAT-33": ("untestable", why)}


def test_an_unknown_reason_passes_no_row_that_names_the_reasons() -> None:
    run = run_with("reason", REJECTED)
    assert broken(run) - OWN == {"W-32b"}
    untestable = ("untestable", "the unknown reason 'user' breaks W-32b")
    rows = {"TOOL-9", "W-30f"}
    assert verdicts(run, rows) == dict.fromkeys(rows, untestable)


def test_a_history_that_chats_share_is_one_row_and_no_other_row_is_blamed() -> None:
    run = run_with(
        "shared", APPROVED, REJECTED, BY_CHAT, "turns.prompts_to_a_busy_chat_wait_for_their_turn"
    )
    assert broken(run) - OWN == {"CHAT-39"}
    assert {verdict for verdict, _ in verdicts(run, {"TOOL-14", "W-31b"}).values()} == {"pass"}


@pytest.mark.long
def test_a_tool_that_is_offered_but_not_announced_is_judged() -> None:
    run = run_with("unannounced", APPROVED, REJECTED)
    assert broken(run) - OWN == {"W-11c"}
    assert {verdict for verdict, _ in verdicts(run, {"TOOL-14", "TOOL-18", "W-31b"}).values()} == {
        "pass"
    }
