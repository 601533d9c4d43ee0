"""The outcome of a run of the suite, and its form as a list of records.

A record has `id` and `verdict`, the row's data from the table, `expected` and `got`, and the run's
target, edition and times: each record is self-contained.

A file of known failures has one name a line: the id of a row, or the name of a case in which the
target ends or the suite itself fails. Text after a `#` is a comment.
"""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.verdicts import Finding, Transmission, Verdict
from eca_protocol.testing.requirements import ALL_REQUIREMENTS, REQUIREMENTS
from eca_protocol.transcript import Side

__all__ = ["Conclusion", "Incident", "Run", "SuiteError", "binds", "known_failures"]

Conclusion: TypeAlias = Literal[
    "not conformant", "not judged whole", "only known failures", "nothing judged", "conformant"
]
"""The conclusions of a run; the first that holds counts."""

_CASE: Final = re.compile(r"\w+\.\w+")
_LONGEST: Final = 300  # characters of an exception
_FRAMES_AND_LIFECYCLE = frozenset(
    {
        "ECA Protocol",
        "Header Part",
        "Content Part",
        "JSON-RPC 2.0",
        "Lifecycle Messages",
        "Initialized",
        "Shutdown",
        "Exit",
        "Rulings: base",
    }
)


def binds(id_: str, edition: Revision, *, side: Side = "server") -> bool:
    """Return whether a row binds that side in that edition; in the draft frames do, too (W-50)."""
    row = REQUIREMENTS[id_]
    if row.side not in (side, "both"):
        return False
    in_draft = edition is Revision.DRAFT and row.section in _FRAMES_AND_LIFECYCLE
    return row.window.holds(edition) or in_draft


@attrs.frozen(kw_only=True)
class Incident:
    """The unexpected end of the target during a case.

    Attributes:
        what: what the case waited for, and how the target ended.
    """

    case: str
    what: str


@attrs.frozen(kw_only=True)
class SuiteError:
    """An error of the suite in one of its cases: it says nothing about the target.

    The target's output may have caused it, but a case has to handle any output.

    Attributes:
        what: the exception.
        place: the line of the case that raised it.
    """

    case: str
    what: str
    place: str
    traceback: str

    @classmethod
    def of(cls, case: str, file: str, raised: BaseException) -> SuiteError:
        """Build the error for an exception in a case of that file; of a group, for its first."""
        while isinstance(raised, BaseExceptionGroup):
            raised = raised.exceptions[0]
        frames = traceback.extract_tb(raised.__traceback__)
        last = next((each for each in reversed(frames) if each.filename == file), frames[-1])
        return cls(
            case=case,
            what=repr(raised)[:_LONGEST],
            place=f"{Path(last.filename).name}:{last.lineno}, in {last.name}",
            traceback="".join(traceback.format_exception(raised)),
        )

    @property
    def reason(self) -> str:
        """The reason why rows were not judged."""
        return f"the suite itself failed here: {self.what} at {self.place}"


@attrs.frozen(kw_only=True)
class Run:
    """The result of a run.

    Attributes:
        target: the command, for people.
        edition: the edition that was spoken, by its name.
        started: its start, in UTC.
        seconds: its duration.
        findings: one for each row that binds the target, in the order of the table.
        incidents: servers that ended during a case.
        suite_errors: errors of the suite; the rows of their cases are untestable.
        known: known failures, rows and cases, which do not fail the run.
    """

    target: str
    edition: str
    started: datetime
    seconds: float
    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...] = ()
    suite_errors: tuple[SuiteError, ...] = ()
    known: frozenset[str] = frozenset()

    def counts(self) -> Mapping[Verdict, int]:
        """Return the number of findings of each verdict."""
        return Counter(finding.verdict for finding in self.findings)

    def failed(self) -> tuple[Finding, ...]:
        """Return the findings of broken binding rows."""
        return tuple(finding for finding in self.findings if finding.verdict == "fail")

    @property
    def unexpected(self) -> tuple[str, ...]:
        """The failed rows and the cases in which the target ended, without known ones."""
        names = [finding.id for finding in self.failed()]
        names += [incident.case for incident in self.incidents]
        return tuple(name for name in dict.fromkeys(names) if name not in self.known)

    @property
    def new_suite_errors(self) -> tuple[SuiteError, ...]:
        """The suite's own errors without known ones."""
        return tuple(error for error in self.suite_errors if error.case not in self.known)

    @property
    def conclusion(self) -> Conclusion:
        """The conclusion of the run."""
        if self.unexpected:
            return "not conformant"
        if self.new_suite_errors:
            return "not judged whole"
        if self.failed() or self.incidents or self.suite_errors:
            return "only known failures"
        counts = self.counts()
        return "conformant" if counts.get("pass") or counts.get("warn") else "nothing judged"

    @property
    def passing_again(self) -> tuple[str, ...]:
        """The known failures that pass now and can be removed from the list."""
        return tuple(f.id for f in self.findings if f.verdict == "pass" and f.id in self.known)

    def known_text(self) -> str:
        """Return the failures as the text of a file of known ones."""
        lines = [f"{finding.id}  # {finding.requirement.statement}" for finding in self.failed()]
        lines += [f"{incident.case}  # {incident.what}" for incident in self.incidents]
        lines += [f"{error.case}  # {error.reason}" for error in self.suite_errors]
        head = f"# Known failures of {self.target}, edition {self.edition}"
        return "".join(f"{' '.join(line.split())}\n" for line in (head, *lines))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the records."""
        run = {
            "target": self.target,
            "edition": self.edition,
            "started": self.started.isoformat(),
            "seconds": round(self.seconds, 3),
        }
        return [_record(finding) | run for finding in self.findings]

    @classmethod
    def from_json(cls, data: bytes) -> Run:
        """Read the bytes of `to_json`'s records; unknown rows are dropped.

        Raises:
            ValueError: the data is no such list.
        """
        try:
            records = json.loads(data)
            head = records[0]
            return cls(
                target=head["target"],
                edition=str(head["edition"]),
                started=datetime.fromisoformat(head["started"]),
                seconds=float(head["seconds"]),
                findings=tuple(_finding(r) for r in records if r["id"] in ALL_REQUIREMENTS),
            )
        except InvalidJSON as error:
            raise ValueError(f"expected the records of a run: {error}") from error
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"expected the records of a run, got {error!r}") from error


def _record(finding: Finding) -> dict[str, Any]:
    row = finding.requirement
    return {
        "id": finding.id,
        "verdict": finding.verdict,
        "case": finding.case,
        "duty": row.statement,
        "section": row.section,
        "level": row.level,
        "expected": finding.expected,
        "got": finding.got,
        "exchange": [each.to_json() for each in finding.exchange],
        "breach": finding.breach,
    }


def _finding(record: Mapping[str, Any]) -> Finding:
    texts = {name: record[name] for name in ("id", "verdict", "case", "expected", "got")}
    exchange = [Transmission.from_json(each) for each in record["exchange"]]
    return Finding(**texts, exchange=exchange, breach=record.get("breach"))


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
