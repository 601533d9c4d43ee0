"""The test run of a server against the stateful model; see `check_sessions`."""

from __future__ import annotations

import contextlib
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
from eca_protocol.testing.sessions.run import Failure, OutOfTime, Run, is_like
from eca_protocol.testing.sessions.session import Step, Watch, play
from eca_protocol.testing.sessions.signatures import Signatures, signature_finder
from eca_protocol.testing.sessions.wire import DeadlineMissed, Violation, frame
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
        replays: whether the steps reproduce it in a new process; None if an interrupt came before.
        script: a program that replays it; empty without a failure.
    """

    steps: int
    examples: int
    processes: int
    seconds: float
    failure: Failure | None = None
    replays: bool | None = None
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
    shrink_seconds: float = 60.0,
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
        shrink_seconds: the time for that, after which the smallest steps so far are returned.
        known: requirements whose violations are ignored, with a new process where it has to be.
        on_progress: called as each session starts, and as a violation is found.

    Raises:
        OSError: if the command cannot be started.
        KeyboardInterrupt: unless a violation was found, which is then returned as it is.
    """
    started = time.monotonic()
    run = Run(
        command=command,
        edition=edition,
        seconds=step_seconds,
        watcher=lambda: _watcher(edition, known),
        known=frozenset(known),
        on_progress=on_progress,
        until=started + seconds,
        shrink_seconds=shrink_seconds / 2,  # the other half is for `_without_unnecessary_steps`
    )
    try:
        replays = _search(run, steps=steps, seed=seed, shrink=shrink)
    finally:
        run.end()
    took = time.monotonic() - started
    outcome = Outcome(steps=run.steps, examples=run.examples, processes=run.processes, seconds=took)
    if (failure := run.failure) is None:
        return outcome
    script = script_of(edition, failure.steps, failure.violation, known=run.known)
    return attrs.evolve(outcome, failure=failure, replays=replays, script=script)


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


def _search(run: Run, *, steps: int, seed: int, shrink: bool) -> bool | None:
    """Run sessions until one fails or a limit is reached; return whether its steps replay it."""
    batch = 0
    try:
        with contextlib.suppress(OutOfTime):
            while run.steps < steps and run.failure is None and time.monotonic() < run.until:
                own, remaining = batch % 4 == 3, steps - run.steps
                _one_batch(run, seed=seed + batch, own=own, remaining=remaining, shrink=shrink)
                batch += 1
        return None if run.failure is None else _replay(run, run.shrink_seconds if shrink else 0)
    except KeyboardInterrupt:
        if run.failure is None:
            raise
        return None


def _replay(run: Run, shrink_seconds: float) -> bool:
    """Replay the failure of a run in new processes and shrink it; return whether it occurs again.

    The smallest failure that occurs again is stored; after an interrupt, the smallest so far.
    """
    for failure in (run.failure, run.first_failure):
        assert failure is not None
        again = _again(run, failure.steps, seconds=run.seconds)
        if again is not None and is_like(again, failure.violation):
            break
    else:
        return False
    run.failure = confirmed = Failure(violation=again, steps=failure.steps)
    _without_unnecessary_steps(run, until=time.monotonic() + shrink_seconds)
    if isinstance(run.failure.violation, DeadlineMissed):  # of a short deadline
        violation = _again(run, run.failure.steps, seconds=run.seconds)
        if violation is None or not is_like(violation, again):
            run.failure = confirmed
    return _is_found_by_script(run, run.failure)


def _is_found_by_script(run: Run, failure: Failure) -> bool:
    """Return whether the script, which has no watcher, finds the violation, too."""
    violation = failure.violation
    if not violation.signature:
        return True
    finder = signature_finder(
        violation.signature, violation.requirement, violation.expected, violation.got
    )
    return _again(run, failure.steps, seconds=run.seconds, watch=finder) is not None


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


def _without_unnecessary_steps(run: Run, *, until: float) -> None:
    """Remove unnecessary actions of the failure while there is time; hypothesis leaves some.

    Large parts are tried first, single actions at the end.
    """
    assert run.failure is not None
    sought, actions = run.failure.violation, _actions(run.failure.steps)
    size = len(actions) // 2
    while size:
        for place in range(len(actions) - 1 - size, 0, -size):
            if time.monotonic() > until:
                return
            fewer = [*actions[:place], *actions[place + size :]]
            steps = tuple(step for action in fewer for step in action)
            violation = _again(run, steps, seconds=run.step_seconds)
            if violation is not None and is_like(violation, sought):
                actions, run.failure = fewer, Failure(violation=violation, steps=steps)
        size //= 2


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


def _again(
    run: Run, steps: Sequence[Step], *, seconds: float, watch: Watch | None = None
) -> Violation | None:
    options = {"seconds": seconds, "watch": watch or run.watcher(), "known": run.known}
    try:
        play(run.command, run.edition, steps, **options)
    except Violation as violation:
        return violation
    return None
