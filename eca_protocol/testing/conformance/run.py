"""The outcome of a run of the suite, and its form as a list of records.

A record has `id` and `verdict`, beside them what the table says of the row, what was expected and
what came, and of the run itself its target, edition and times: each record can stand alone.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs

from eca_protocol import json
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.verdicts import Exchanged, Finding, Verdict
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.transcript import Side

__all__ = ["Incident", "Run", "SuiteFault", "binds"]

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
    """Whether a row binds that side in that edition; in the draft frames do, too (W-50)."""
    row = REQUIREMENTS[id_]
    if row.side not in (side, "both"):
        return False
    in_draft = edition is Revision.DRAFT and row.section in _FRAMES_AND_LIFECYCLE
    return row.window.holds(edition) or in_draft


@attrs.frozen(kw_only=True)
class Incident:
    """The target ended while a case talked to it.

    Attributes:
        case: the case.
        what: what was waited for, and how the target ended.
    """

    case: str
    what: str


@attrs.frozen(kw_only=True)
class SuiteFault:
    """A fault of the suite's own in one of its cases: it says nothing of the target.

    What the target wrote may have led to it, but a case has to bear whatever comes.

    Attributes:
        case: the case.
        what: the exception.
        place: the line of the case where it rose.
        traceback: all of it.
    """

    case: str
    what: str
    place: str
    traceback: str

    @classmethod
    def of(cls, case: str, file: str, raised: BaseException) -> SuiteFault:
        """The fault that an exception is, which rose in a case written in that file."""
        frames = traceback.extract_tb(raised.__traceback__)
        last = next((each for each in reversed(frames) if each.filename == file), frames[-1])
        return cls(
            case=case,
            what=repr(raised)[:_LONGEST],
            place=f"{Path(last.filename).name}:{last.lineno}, in {last.name}",
            traceback="".join(traceback.format_exception(raised)),
        )

    @property
    def told(self) -> str:
        """As the reason why rows were not judged."""
        return f"the suite itself failed here: {self.what} at {self.place}"


@attrs.frozen(kw_only=True)
class Run:
    """What a run has found.

    Attributes:
        target: what was tested, as a person would write it.
        edition: the edition that was spoken.
        started: when it began, in UTC.
        seconds: how long it took.
        findings: one for each row that binds the target, in the order of the table.
        incidents: what went wrong beside the rows: a server that ended while it was talked to.
        faults: the suite's own: the rows behind them are untestable.
    """

    target: str
    edition: Revision
    started: datetime
    seconds: float
    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...] = ()
    faults: tuple[SuiteFault, ...] = ()

    def counts(self) -> Mapping[Verdict, int]:
        """How many findings there are of each verdict."""
        return Counter(finding.verdict for finding in self.findings)

    def failed(self) -> tuple[Finding, ...]:
        """What is binding and broken."""
        return tuple(finding for finding in self.findings if finding.verdict == "fail")

    def to_json(self) -> list[dict[str, Any]]:
        """The records."""
        run = {
            "target": self.target,
            "edition": self.edition.value,
            "started": self.started.isoformat(),
            "seconds": round(self.seconds, 3),
        }
        return [_record(finding) | run for finding in self.findings]

    @classmethod
    def from_json(cls, data: bytes) -> Run:
        """Read what `to_json` gave, as bytes; rows that the table no longer has are left out.

        Raises:
            ValueError: it is no such list.
        """
        try:
            records = json.loads(data)
            return _run(records)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as fault:
            raise ValueError(f"expected the records of a run, got {fault!r}") from fault


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


def _run(records: Sequence[Mapping[str, Any]]) -> Run:
    head = records[0]
    return Run(
        target=head["target"],
        edition=Revision(head["edition"]),
        started=datetime.fromisoformat(head["started"]),
        seconds=float(head["seconds"]),
        findings=tuple(_findings(records)),
    )


def _findings(records: Iterable[Mapping[str, Any]]) -> Iterable[Finding]:
    for record in records:
        if record["id"] in REQUIREMENTS:
            yield Finding(
                id=record["id"],
                verdict=record["verdict"],
                case=record["case"],
                expected=record["expected"],
                got=record["got"],
                exchange=[Exchanged.from_json(each) for each in record["exchange"]],
                breach=record.get("breach"),
            )
