"""The stateful model finds planted errors of a server and shrinks their steps."""

import subprocess
import sys
from pathlib import Path

import pytest

from eca_protocol.testing.sessions.check import Outcome, check_sessions
from eca_protocol.testing.sessions.run import Run
from eca_protocol.testing.sessions.session import Step

SERVER = (sys.executable, "-P", "-m", "eca_server", "--log-level", "error", "server")
PROXY = str(Path(__file__).with_name("faulty_proxy.py"))
OPENING = 4
"""The steps that open a session."""


def actions(steps: tuple[Step, ...]) -> list[str]:
    """Return the actions of the client and the model, without preparation and waits."""
    named = [
        message["method"] if isinstance(message, dict) else "bytes"
        for name, arguments in steps[OPENING:]
        if name == "send"
        for message in arguments[0]
    ]
    return named + [name for name, _ in steps[OPENING:] if name == "open"]


def faulty(fault: str) -> tuple[str, ...]:
    """Return the command of our server with this error."""
    return (sys.executable, "-S", PROXY, fault, "--", *SERVER)


def replay(outcome: Outcome, folder: Path, fault: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a failure, which needs none of our packages, against a server."""
    script = folder / "replay.py"
    script.write_text(outcome.script)
    alone = [sys.executable, "-S", "-I", str(script), "--", *faulty(fault)]
    return subprocess.run(alone, capture_output=True, text=True, check=False, timeout=60)


def assert_found(outcome: Outcome, folder: Path, fault: str, row: str) -> None:
    """Assert that a session has shown this error, and that its script shows it again."""
    assert outcome.failure is not None
    assert outcome.failure.violation.requirement == row
    assert outcome.replays
    played = replay(outcome, folder, fault)
    assert (played.returncode, played.stderr) == (1, "")
    assert row in played.stdout


@pytest.mark.long
@pytest.mark.requirement("W-22e")
def test_a_second_end_is_found_and_replayed_without_this_package(tmp_path):
    outcome = check_sessions(faulty("finishes_twice"), steps=200, shrink=False)
    assert_found(outcome, tmp_path, "finishes_twice", "W-22e")
    assert "eca_protocol" not in outcome.script.partition("EDITION = ")[2]


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "row", "most"),
    [
        ("finishes_twice", "W-22e", 1),
        ("never_answers_a_delete", "BASE-17", 1),
        ("speaks_after_a_stop", "W-23g", 2),
        ("forgets_to_close_a_stopped_call", "W-30g", 3),
        ("shouts", "FIELD:ChatProgressContent.text", 1),
    ],
)
def test_a_violation_is_shrunk_to_few_steps_that_replay_it(fault, row, most, tmp_path):
    outcome = check_sessions(faulty(fault), steps=3000, step_seconds=5, shrink_seconds=160)
    assert_found(outcome, tmp_path, fault, row)
    assert outcome.failure is not None
    assert len(actions(outcome.failure.steps)) <= most, outcome.failure.steps
    assert replay(outcome, tmp_path, "nothing").returncode == 0


def test_an_interrupt_during_the_shrinking_returns_the_steps_as_they_were_found():
    shown = []

    def interrupt(run: Run) -> None:
        if run.first_failure is not None:
            shown.append(run.first_failure)
        if len(shown) == 2:
            raise KeyboardInterrupt

    outcome = check_sessions(faulty("finishes_twice"), steps=200, on_progress=interrupt)
    assert outcome.failure == shown[0]
    assert outcome.replays is None
    assert "STEPS = " in outcome.script


@pytest.mark.long
def test_shrinking_ends_when_its_time_is_over():
    outcome = check_sessions(faulty("finishes_twice"), steps=3000, shrink_seconds=0)
    assert outcome.failure is not None
    assert outcome.failure.violation.requirement == "W-22e"
    assert outcome.replays


def test_a_session_continues_after_a_known_message():
    outcome = check_sessions(faulty("finishes_twice"), steps=30, known={"W-22e"})
    assert outcome.failure is None, outcome.script
    assert outcome.steps >= 30
    assert outcome.processes == 1


def test_a_session_may_end_at_a_known_message_before_it_has_begun():
    limits = {"steps": 120, "seconds": 0.1, "step_seconds": 0.1}
    outcome = check_sessions(faulty("never_answers"), **limits, known={"BASE-17"})
    assert (outcome.failure, outcome.steps) == (None, 0)


@pytest.mark.long
def test_the_next_session_gets_a_new_process_after_a_message_that_is_known_to_be_missing():
    server = faulty("never_answers_a_delete")
    outcome = check_sessions(server, steps=200, seconds=20, known={"BASE-17"})
    assert outcome.failure is None, outcome.script
    assert outcome.processes > 1


@pytest.mark.long
def test_a_new_failure_is_found_beside_a_known_one(tmp_path):
    both = "finishes_twice,speaks_after_a_stop"
    outcome = check_sessions(faulty(both), steps=2000, known={"W-22e"})
    assert_found(outcome, tmp_path, both, "W-23g")
