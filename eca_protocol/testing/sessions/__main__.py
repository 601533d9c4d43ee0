"""`python -m eca_protocol.testing.sessions -- COMMAND...`: have sessions with a server.

Exit codes: 0 no fault was found, 1 one was (a script that replays it is printed, or written to
`--replay FILE`), 2 usage, 3 the command cannot be started.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from eca_protocol.revisions import Revision
from eca_protocol.testing.sessions.check import Outcome, check_sessions
from eca_protocol.testing.sessions.run import Run


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code."""
    options = _parser().parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        _parser().error("no command is given")
    try:
        outcome = check_sessions(
            command,
            edition=options.edition,
            steps=options.steps,
            seconds=options.seconds,
            seed=options.seed,
            step_seconds=options.step_seconds,
            on_progress=_tell_progress,
        )
    except OSError as error:
        sys.stderr.write(f"the server cannot be started: {error}\n")
        return 3
    except KeyboardInterrupt:
        return 130
    sys.stderr.write(_summary(outcome))
    if outcome.failure is None:
        return 0
    try:
        if options.replay is not None:
            options.replay.write_text(outcome.script, "utf-8")
            return 1
    except OSError as error:
        sys.stderr.write(f"{error}; so here it is:\n")
    sys.stdout.write(outcome.script)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eca_protocol.testing.sessions",
        description="Have sessions with an ECA server until a fault shows, and shrink it.",
    )
    editions = [revision.value for revision in Revision]
    parser.add_argument("--edition", choices=editions, default=Revision.R2025_10.value)
    parser.add_argument("--steps", type=int, default=5000, help="how many actions are enough")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long is enough")
    parser.add_argument("--seed", type=int, default=0, help="another one does other things")
    parser.add_argument("--step-seconds", type=float, default=10.0, help="the time for one step")
    parser.add_argument("--replay", type=Path, help="where the script goes; else to stdout")
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND...",
        help="starts the server on stdio, in a folder of its own: name files by their whole paths",
    )
    return parser


def _tell_progress(run: Run) -> None:
    sys.stderr.write(f"{run.steps} steps in {run.examples} sessions\n")


def _summary(outcome: Outcome) -> str:
    rate = outcome.steps / outcome.seconds
    done = f"{outcome.steps} steps, {outcome.processes} processes, {rate:.0f} steps/s: "
    if outcome.failure is None:
        return f"{done}no fault\n"
    where = "" if outcome.replays else "\nIt does not show in a new process that does only this."
    steps = len(outcome.failure.steps)
    return f"{done}a fault, shown by {steps} steps\n{outcome.failure.fault}{where}\n"


if __name__ == "__main__":
    sys.exit(main())
