"""Known failures: what a target fails today, so that only what is new fails the run.

A file of names, one a line: ids of rows, or names of cases during which the target ends, or in
which the suite itself fails. Whatever stands behind a `#` is a comment.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, TypeAlias

from eca_protocol.testing.conformance.run import Run, SuiteFault
from eca_protocol.testing.requirements import REQUIREMENTS

__all__ = [
    "Conclusion",
    "conclusion",
    "known_failures",
    "known_text",
    "new_faults",
    "passing_again",
    "unexpected",
]

Conclusion: TypeAlias = Literal[
    "not conformant", "not judged whole", "only known failures", "nothing judged", "conformant"
]
"""What a whole run comes to; the first of these that holds."""

_CASE = re.compile(r"\w+\.\w+")


def known_failures(text: str) -> frozenset[str]:
    """The names in a file's text.

    Raises:
        ValueError: a name is neither a row's nor like a case's; the text says in which line.
    """
    names = set()
    for number, line in enumerate(text.splitlines(), 1):
        name = line.partition("#")[0].strip()
        if name and name not in REQUIREMENTS and not _CASE.fullmatch(name):
            raise ValueError(f"line {number}: expected the id of a row, got {name!r}")
        names.add(name)
    return frozenset(names - {""})


def known_text(run: Run) -> str:
    """What a run failed, as the text of such a file."""
    lines = [f"{finding.id}  # {finding.requirement.statement}" for finding in run.failed()]
    lines += [f"{incident.case}  # {incident.what}" for incident in run.incidents]
    lines += [f"{fault.case}  # {fault.told}" for fault in run.faults]
    head = f"# Known failures of {run.target}, edition {run.edition.value}"
    return "".join(f"{' '.join(line.split())}\n" for line in (head, *lines))


def unexpected(run: Run, known: Collection[str]) -> tuple[str, ...]:
    """The binding rows that fail, and the cases in which the target ended, without the known."""
    names = [finding.id for finding in run.failed()]
    names += [incident.case for incident in run.incidents]
    return tuple(name for name in dict.fromkeys(names) if name not in known)


def new_faults(run: Run, known: Collection[str]) -> tuple[SuiteFault, ...]:
    """The suite's own faults, without those in cases that are known for them."""
    return tuple(fault for fault in run.faults if fault.case not in known)


def conclusion(run: Run, known: Collection[str] = ()) -> Conclusion:
    """What every report says of the whole run, in one word or two."""
    if unexpected(run, known):
        return "not conformant"
    if new_faults(run, known):
        return "not judged whole"
    if run.failed() or run.incidents or run.faults:
        return "only known failures"
    counts = run.counts()
    return "conformant" if counts.get("pass") or counts.get("warn") else "nothing judged"


def passing_again(run: Run, known: Collection[str]) -> tuple[str, ...]:
    """The known ones that pass today: they can be taken off the list."""
    return tuple(f.id for f in run.findings if f.verdict == "pass" and f.id in known)
