"""`python -m eca_protocol.testing.sessions -- COMMAND...`: test a server with random sessions.

Exit codes: 0 no violation was found, 1 one was found (a script that replays it is printed, or
written to `--replay FILE`), 2 usage error, 3 the command could not be started, or not within the
time, so that no step was judged, 130 Ctrl-C before a violation was found. Ctrl-C after that ends
the shrinking: the script has all steps then.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.run import known_failures
from eca_protocol.testing.requirements import REQUIREMENTS

try:
    from eca_protocol.testing.sessions.check import Outcome, check_sessions
    from eca_protocol.testing.sessions.run import Run
except ModuleNotFoundError as error:
    if error.name != "hypothesis":
        raise
    sys.stderr.write("hypothesis is missing: run pip install 'eca-protocol[testing]'\n")
    raise SystemExit(2) from None


SHRINK_SECONDS = 60.0
"""The time in which a violation's steps are shrunk."""

_NO_STEP = (
    "No step was made within {:.1f} s, so nothing was judged: the server was not ready. Allow more "
    "--seconds (or --steps).\n"
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _parser().parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        _parser().error("expected a COMMAND after --")
    try:
        file: Path | None = options.known_failures
        known = known_failures(file.read_text("utf-8")) if file else frozenset()
    except (OSError, ValueError) as error:
        _parser().error(f"--known-failures: {error}")
    progress = Progress(sys.stderr)
    try:
        outcome = check_sessions(
            command,
            edition=options.edition,
            steps=options.steps,
            seconds=options.seconds,
            seed=options.seed,
            step_seconds=options.step_seconds,
            shrink_seconds=SHRINK_SECONDS,
            known=known,
            on_progress=progress.show,
        )
    except OSError as error:
        sys.stderr.write(f"Could not start the server: {error}\n")
        return 3
    except KeyboardInterrupt:
        return 130
    finally:
        progress.clear()
    if outcome.failure is None and not outcome.steps:
        sys.stderr.write(_NO_STEP.format(outcome.seconds))
        return 3
    replay = None if outcome.failure is None else _write_script(outcome.script, options.replay)
    sys.stderr.write(_summary(outcome, replay, command))
    return 0 if outcome.failure is None else 1


def _write_script(script: str, file: Path | None) -> Path | None:
    """Write the script, and return the file that has it; None: it is on stdout."""
    try:
        if file is not None:
            file.write_text(script, "utf-8")
            return file
    except OSError as error:
        sys.stderr.write(f"Could not write the script, so it follows here: {error}\n")
    try:
        sys.stdout.write(script)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has ended: the exit flushes again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eca_protocol.testing.sessions",
        description="Run random sessions with an ECA server until one violates a requirement.",
    )
    add, editions = parser.add_argument, [revision.value for revision in Revision]
    edition = "the edition that the client speaks (default: %(default)s)"
    add("--edition", choices=editions, default=Revision.R2025_10.value, help=edition)
    add("--steps", type=int, default=5000, help="the number of actions after which to stop")
    add("--seconds", type=float, default=60.0, help="the time after which to stop, in seconds")
    add("--seed", type=int, default=0, help="the seed of the random actions")
    add("--step-seconds", type=float, default=10.0, help="the deadline of one step, in seconds")
    known = "a file with the ids of requirements, one a line, whose violations are ignored"
    add("--known-failures", type=Path, help=known)
    replay = "the file for the script that replays a violation; default: stdout"
    add("--replay", type=Path, help=replay)
    command = "the command of a server on stdio; its workspace and its home are temporary"
    add("command", nargs=argparse.REMAINDER, metavar="-- COMMAND...", help=command)
    return parser


class Progress:
    """A live line on a terminal; elsewhere only the violation, as soon as it is found."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_live = out.isatty()
        self._is_found = False

    def show(self, run: Run) -> None:
        """Show how far a run is."""
        if run.first_failure is not None and not self._is_found:
            self._is_found = True
            self.clear()
            self._out.write(
                f"A violation after {run.steps} steps: {run.first_failure.violation}\n"
                f"Shrinking its steps, for at most {SHRINK_SECONDS:g} s; "
                "Ctrl-C prints them as they are\n"
            )
            self._out.flush()
        shrinking = ", shrinking" if run.first_failure else ""
        self._write(f"{run.steps} steps in {run.examples} sessions{shrinking}")

    def clear(self) -> None:
        """Clear the line."""
        self._write("")

    def _write(self, line: str) -> None:
        if self._is_live:
            self._out.write(f"\r\x1b[K{line}")
            self._out.flush()


def _summary(outcome: Outcome, file: Path | None, command: Sequence[str]) -> str:
    rate = outcome.steps / outcome.seconds
    done = f"{outcome.steps} steps, {outcome.processes} processes, {rate:.0f} steps/s: "
    if outcome.failure is None:
        return f"{done}no violation\n"
    where = {
        True: f"Repeat it: python {file or 'THE_SCRIPT'} -- {shlex.join(command)}",
        False: "These steps alone do not show it in a new process.",
        None: "Interrupted: the steps are not shrunk to the end and were not repeated.",
    }[outcome.replays]
    violation, steps = outcome.failure.violation, len(outcome.failure.steps)
    rule = f"Rule: {REQUIREMENTS[violation.requirement].statement}"
    return "\n".join((f"{done}a violation in {steps} steps", str(violation), rule, where, ""))


if __name__ == "__main__":
    sys.exit(main())
