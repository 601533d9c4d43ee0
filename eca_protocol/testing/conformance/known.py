"""Known failures of a target, so that only new ones fail the run.

A file has one name a line: the id of a row, or the name of a case in which the target ends or the
suite itself fails. Text after a `#` is a comment.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, TypeAlias

from eca_protocol.testing.conformance.run import Run, SuiteError
from eca_protocol.testing.requirements import ALL_REQUIREMENTS

__all__ = [
    "Conclusion",
    "conclusion",
    "known_failures",
    "known_text",
    "new_suite_errors",
    "passing_again",
    "unexpected",
]

Conclusion: TypeAlias = Literal[
    "not conformant", "not judged whole", "only known failures", "nothing judged", "conformant"
]
"""The conclusions of a run; the first that holds counts."""

_CASE = re.compile(r"\w+\.\w+")


def known_failures(text: str) -> frozenset[str]:
    """Parse a file of known failures.

    Raises:
        ValueError: a name is neither a row's id nor the form of a case's; the text has the line.
    """
    names = set()
    for number, line in enumerate(text.splitlines(), 1):
        name = line.partition("#")[0].strip()
        if name and name not in ALL_REQUIREMENTS and not _CASE.fullmatch(name):
            raise ValueError(f"line {number}: expected the id of a row, got {name!r}")
        names.add(name)
    return frozenset(names - {""})


def known_text(run: Run) -> str:
    """Return the failures of a run as the text of such a file."""
    lines = [f"{finding.id}  # {finding.requirement.statement}" for finding in run.failed()]
    lines += [f"{incident.case}  # {incident.what}" for incident in run.incidents]
    lines += [f"{error.case}  # {error.reason}" for error in run.suite_errors]
    head = f"# Known failures of {run.target}, edition {run.edition}"
    return "".join(f"{' '.join(line.split())}\n" for line in (head, *lines))


def unexpected(run: Run, known: Collection[str]) -> tuple[str, ...]:
    """Return the failed rows and the cases in which the target ended, without known ones."""
    names = [finding.id for finding in run.failed()]
    names += [incident.case for incident in run.incidents]
    return tuple(name for name in dict.fromkeys(names) if name not in known)


def new_suite_errors(run: Run, known: Collection[str]) -> tuple[SuiteError, ...]:
    """Return the suite's own errors without known ones."""
    return tuple(error for error in run.suite_errors if error.case not in known)


def conclusion(run: Run, known: Collection[str] = ()) -> Conclusion:
    """Return the conclusion of a run."""
    if unexpected(run, known):
        return "not conformant"
    if new_suite_errors(run, known):
        return "not judged whole"
    if run.failed() or run.incidents or run.suite_errors:
        return "only known failures"
    counts = run.counts()
    return "conformant" if counts.get("pass") or counts.get("warn") else "nothing judged"


def passing_again(run: Run, known: Collection[str]) -> tuple[str, ...]:
    """Return the known failures that pass now and can be removed from the list."""
    return tuple(f.id for f in run.findings if f.verdict == "pass" and f.id in known)
