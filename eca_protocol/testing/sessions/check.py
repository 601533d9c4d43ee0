"""The test run of a server against the stateful model; see `check_sessions`."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import attrs
import hypothesis
from hypothesis.stateful import run_state_machine_as_test

from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.sessions.machine import machine_for
from eca_protocol.testing.sessions.replaying import script_of
from eca_protocol.testing.sessions.run import Failure, Run
from eca_protocol.testing.sessions.session import Step, Watch, play
from eca_protocol.testing.sessions.signatures import Signatures, signature_finder
from eca_protocol.testing.sessions.wire import Violation, frame
from eca_protocol.testing.watching import Side, Watcher

__all__ = ["Outcome", "check_sessions"]

_SHARED, _OWN = 20, 2
"""Numbers of examples in a batch: with a shared process, with a process each."""
_ACTIONS = 50  # the maximum number of actions of an example


@attrs.frozen(kw_only=True)
class Outcome:
    """The result of a test run.

    Attributes:
        processes: the number of started server processes.
        failure: the first violation and its shrunk steps; None if there was none.
        replays: whether the steps reproduce it in a new process.
        script: a program that replays it; empty without a failure.
    """

    steps: int
    examples: int
    processes: int
    seconds: float
    failure: Failure | None = None
    replays: bool = False
    script: str = ""


def check_sessions(
    command: Sequence[str],
    *,
    edition: str = "2025-10",
    steps: int = 5000,
    seconds: float = 60.0,
    seed: int = 0,
    step_seconds: float = 10.0,
    shrink: bool = True,
    known: Collection[str] = (),
    on_progress: Callable[[Run], None] = lambda _run: None,
) -> Outcome:
    """Test a server with random sessions until one violates a requirement, or a limit is reached.

        outcome = check_sessions(["my-eca-server", "server"], steps=2000)
        assert outcome.failure is None, outcome.script

    Args:
        command: the command of a server on stdio. It gets a temporary home, and its models and
            approvals in `ECA_CONFIG`.
        edition: the edition to use: `2025-06`, `2025-09`, `2025-10`, `current`.
        steps: the number of actions after which to stop.
        seconds: the time after which to stop; shrinking a failure may take longer.
        seed: the seed of the random actions.
        step_seconds: the deadline for all effects of one action.
        shrink: whether to minimize the steps of a failure.
        known: requirements whose violations are ignored, with a new process where it has to be.
        on_progress: called as each session starts.

    Raises:
        OSError: if the command cannot be started.
    """
    started = time.monotonic()
    run = Run(
        command=command,
        edition=edition,
        seconds=step_seconds,
        watcher=lambda: _watcher(edition, known),
        known=frozenset(known),
        on_progress=on_progress,
    )
    batch = 0
    try:
        while run.steps < steps and time.monotonic() - started < seconds and run.failure is None:
            own, remaining = batch % 4 == 3, steps - run.steps
            _one_batch(run, seed=seed + batch, own=own, remaining=remaining, shrink=shrink)
            batch += 1
    finally:
        run.end()
    took = time.monotonic() - started
    outcome = Outcome(steps=run.steps, examples=run.examples, processes=run.processes, seconds=took)
    return outcome if run.failure is None else _with_failure(outcome, run, run.failure, shrink)


def _watcher(edition: str, known: Collection[str]) -> Watch:
    """Return a callback for the messages of one process, which raises what a `Watcher` reports.

    Only violations of the server with level `must` count.
    """
    watcher, signatures = Watcher(revision=Revision(edition)), Signatures()

    def watch(side: str, message: Any) -> None:
        who: Side = "client" if side == "client" else "server"
        if isinstance(message, bytes):
            watcher.feed_raw(who, frame(message))
            return
        signature = signatures.take(side, message)
        for each in watcher.feed(who, message):
            is_binding = REQUIREMENTS[each.requirement].level == "must"
            if each.side == "server" and is_binding and each.requirement not in known:
                raise Violation(each.requirement, each.expected, each.got, signature)

    return watch


def _with_failure(outcome: Outcome, run: Run, failure: Failure, shrink: bool) -> Outcome:
    """Return the outcome with the failure, replayed and, if wanted, without unnecessary steps."""
    again = _again(run, failure.steps)
    if again and again.requirement == failure.violation.requirement:
        failure = Failure(violation=again, steps=failure.steps)
        failure = _without_unnecessary_steps(run, failure) if shrink else failure
    script = script_of(run.edition, failure.steps, failure.violation, known=run.known)
    replays = again is not None and _is_found_by_script(run, failure)
    return attrs.evolve(outcome, failure=failure, replays=replays, script=script)


def _is_found_by_script(run: Run, failure: Failure) -> bool:
    """Return whether the script, which has no watcher, finds the violation, too."""
    violation = failure.violation
    if not violation.signature:
        return True
    finder = signature_finder(
        violation.signature, violation.requirement, violation.expected, violation.got
    )
    return _again(run, failure.steps, watch=finder) is not None


def _one_batch(run: Run, *, seed: int, own: bool, remaining: int, shrink: bool) -> None:
    examples = _OWN if own else min(_SHARED, 1 + remaining // _ACTIONS)
    machine = machine_for(run, own=own)
    hypothesis.seed(seed)(machine)
    settings = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=_ACTIONS,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[hypothesis.Phase.generate, *([hypothesis.Phase.shrink] if shrink else [])],
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    try:
        run_state_machine_as_test(machine, settings=settings)
    except Violation:
        if run.failure is None:
            raise
    except hypothesis.errors.Flaky:
        if run.failure is None and not run.known:  # a known violation may end an example by chance
            raise


def _without_unnecessary_steps(run: Run, failure: Failure) -> Failure:
    """Return the failure without unnecessary actions; hypothesis leaves some."""
    actions = _actions(failure.steps)
    for place in range(len(actions) - 2, 0, -1):
        fewer = [*actions[:place], *actions[place + 1 :]]
        steps = tuple(step for action in fewer for step in action)
        violation = _again(run, steps)
        if violation is not None and violation.requirement == failure.violation.requirement:
            actions, failure = fewer, Failure(violation=violation, steps=steps)
    return failure


def _actions(steps: Sequence[Step]) -> list[list[Step]]:
    """Group steps by action: the first opens the session, the last shows the violation."""
    actions: list[list[Step]] = [[]]
    for step in steps:
        actions[-1].append(step)
        if step[0] == "rest" and any(name == "send" for name, _ in actions[-1]):
            actions.append([])
    if not actions[-1]:
        del actions[-1]
    opening = [step for action in actions[:2] for step in action]
    return [opening, *actions[2:]]


def _again(run: Run, steps: Sequence[Step], watch: Watch | None = None) -> Violation | None:
    options = {"seconds": run.seconds, "watch": watch or run.watcher(), "known": run.known}
    try:
        play(run.command, run.edition, steps, **options)
    except Violation as violation:
        return violation
    return None
