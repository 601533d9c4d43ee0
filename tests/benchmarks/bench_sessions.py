"""Steps a second of the stateful model with our server as a live process.

A step is one action of a client or a model, with all that follows from it, in a process that serves
many examples. Bound: at least 200 a second.
"""

import time

from report import Row, at_least, machine, print_table
from rig import SERVER

from eca_protocol.testing.sessions.check import Outcome, check_sessions

STEPS = 3000
EDITIONS = ("2025-10", "current")


def measured(edition: str) -> tuple[Outcome, float]:
    """The steps done, and the CPU time of the model itself."""
    began = time.process_time()
    outcome = check_sessions(SERVER, edition=edition, steps=STEPS, seconds=60)
    assert outcome.failure is None, outcome.script
    return outcome, time.process_time() - began


def main() -> list[Row]:
    print(machine("hypothesis", "trio"))
    rows, promised = [], []
    for edition in EDITIONS:
        outcome, cpu = measured(edition)
        rate = outcome.steps / outcome.seconds
        figures = (f"{rate:.0f}", f"{cpu / outcome.steps * 1e3:.2f}", str(outcome.processes))
        rows.append((edition, *figures))
        what = f"sessions with a live server, {edition}"
        promised.append(at_least(what, rate, 200, " steps/s", digits=0))
    head = ("edition", "steps/s", "CPU ms a step", "processes")
    print_table(f"{STEPS} steps of the stateful model", head, rows)
    return promised
