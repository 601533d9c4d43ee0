"""The stateful model against a server, for so many steps or so long; see `check_sessions`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs
import hypothesis
from hypothesis.stateful import run_state_machine_as_test

from eca_protocol.testing.sessions.machine import machine_for
from eca_protocol.testing.sessions.replaying import script_of
from eca_protocol.testing.sessions.run import Failure, Run
from eca_protocol.testing.sessions.session import Step, play
from eca_protocol.testing.sessions.watched import watching
from eca_protocol.testing.sessions.wire import Fault

__all__ = ["Outcome", "check_sessions"]

_SHARED, _OWN = 20, 2
"""How many examples share a process, and how many then get one each."""
_ACTIONS = 50
"""How many actions an example has at most."""


@attrs.frozen(kw_only=True)
class Outcome:
    """What was done and found.

    Attributes:
        steps: how many actions were done.
        examples: in how many sessions.
        processes: how often the server was started.
        seconds: how long it took.
        failure: the first fault, and the fewest steps that show it; None if there was none.
        replays: the steps show it in a new process, too.
        script: a program that replays it; empty if nothing was found.
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
    on_progress: Callable[[Run], None] = lambda _run: None,
) -> Outcome:
    """Let hypothesis have sessions with a server until it finds a fault, or has done enough.

        outcome = check_sessions(["my-eca-server", "server"], steps=2000)
        assert outcome.failure is None, outcome.script

    Args:
        command: what starts the server on stdio. It gets a home of its own, and its models and
            approvals by `ECA_CONFIG` as upstream reads it.
        edition: the edition to speak: `2025-06`, `2025-09`, `2025-10`, `current`.
        steps: how many actions are enough.
        seconds: how long is enough; what has been found is shrunk all the same.
        seed: another one does other things.
        step_seconds: how long the server may take for what follows from one action.
        shrink: whether the fewest steps are looked for that show the fault.
        on_progress: called now and then.

    Raises:
        OSError: the command cannot be started.
    """
    began = time.monotonic()
    run = Run(
        command=command,
        edition=edition,
        seconds=step_seconds,
        watcher=lambda: watching(edition),
    )
    batch = 0
    try:
        while run.steps < steps and time.monotonic() - began < seconds and run.failure is None:
            _one_batch(
                run, seed=seed + batch, own=batch % 4 == 3, left=steps - run.steps, shrink=shrink
            )
            batch += 1
            on_progress(run)
    finally:
        run.end()
    seconds_spent, failure, replays = time.monotonic() - began, run.failure, False
    if failure is not None:
        again = _again(command, edition, failure.steps, step_seconds)
        replays = again is not None
        if shrink and again and again.requirement == failure.fault.requirement:
            failure = _without_needless_steps(command, edition, failure, run.seconds)
    return Outcome(
        steps=run.steps,
        examples=run.examples,
        processes=run.processes,
        seconds=seconds_spent,
        failure=failure,
        replays=replays,
        script="" if failure is None else script_of(edition, failure.steps, failure.fault),
    )


def _one_batch(run: Run, *, seed: int, own: bool, left: int, shrink: bool) -> None:
    examples = _OWN if own else min(_SHARED, 1 + left // _ACTIONS)
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
    except (Fault, hypothesis.errors.Flaky):
        if run.failure is None:
            raise


def _without_needless_steps(
    command: Sequence[str], edition: str, failure: Failure, seconds: float
) -> Failure:
    """The failure without the actions of which hypothesis has left some that it does not take."""
    actions = _actions(failure.steps)
    for place in range(len(actions) - 2, 0, -1):
        fewer = [*actions[:place], *actions[place + 1 :]]
        steps = tuple(step for action in fewer for step in action)
        fault = _again(command, edition, steps, seconds)
        if fault is not None and fault.requirement == failure.fault.requirement:
            actions, failure = fewer, Failure(fault=fault, steps=steps)
    return failure


def _actions(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps, each action's together: the first opens the session, the last shows the fault."""
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
    command: Sequence[str], edition: str, steps: Sequence[Step], seconds: float
) -> Fault | None:
    """The fault that the steps show in a new process."""
    try:
        play(command, edition, steps, seconds=seconds, watch=watching(edition))
    except Fault as fault:
        return fault
    return None
