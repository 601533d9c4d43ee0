"""The findings of a run, a verdict for each row, and the exceptions that end a case early."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import attrs

from eca_protocol.testing.requirements import ALL_REQUIREMENTS, Requirement

__all__ = [
    "NO_TIME",
    "OUT_OF_STEP",
    "VERDICTS",
    "Finding",
    "NotApplicable",
    "OutOfStep",
    "Party",
    "ServerExited",
    "Transmission",
    "Unmet",
    "Verdict",
    "failing",
    "shortened",
    "shown",
    "with_stderr",
    "worst",
]

Verdict = Literal["pass", "fail", "warn", "not-applicable", "untestable"]
Party = Literal["client", "server", "model"]

VERDICTS: Final[tuple[Verdict, ...]] = ("fail", "warn", "pass", "untestable", "not-applicable")
"""Verdicts by severity; the most severe one of a row counts."""

NO_TIME: Final = "no time in"
"""The beginning of the reason of rows that had no time."""

OUT_OF_STEP: Final = "a wrong header or length lost the server's messages, which breaks BASE-6"
"""The reason of rows that could not be judged because of that only."""

_END: Final = 200  # characters of stderr
_SHOWN: Final = 4096  # bytes of one message in a finding


def shortened(stderr: str) -> str:
    """Return both ends of what a process wrote on stderr, on one line.

    A program of Node or Go writes its error before the stack, one of Python behind it.
    """
    line = " ".join(stderr.split())
    return line if len(line) <= 2 * _END else f"{line[:_END]} ... {line[-_END:]}"


def with_stderr(end: object, stderr: str) -> str:
    """Return a text about the end of a process, and what it wrote on stderr."""
    return f"{end}; its stderr: {shortened(stderr) or 'empty'}"


def shown(value: object) -> str:
    """Return a text as it is, and a value of JSON as JSON, in whatever language the target is."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)


class Unmet(Exception):
    """A precondition of a case is not met; its remaining rows are untestable.

    Sessions raise it when a server does not read, or when what they wait for does not come in time.
    """

    def __init__(self, expected: str, got: object = "nothing") -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected = expected
        self.got = got


class ServerExited(Unmet):
    """A precondition is not met because the server has ended.

    Attributes:
        stderr: the end of its stderr.
    """

    def __init__(self, expected: str, got: str, stderr: str) -> None:
        super().__init__(expected, got)
        self.stderr = stderr


class OutOfStep(Unmet):
    """A precondition is not met because the server's messages can no longer be distinguished."""


class NotApplicable(Exception):
    """The target lacks the feature; the remaining rows are not applicable."""


@attrs.frozen(kw_only=True)
class Transmission:
    """Bytes between two of the three parties.

    Attributes:
        at: seconds since the server was started.
        data: the bytes, header included; of a long message the beginning.
        size: the number of bytes.
    """

    at: float
    source: Party
    target: Party
    data: bytes
    size: int

    @classmethod
    def of(cls, at: float, source: Party, target: Party, data: bytes) -> Transmission:
        """Store the beginning of the bytes."""
        shown = data if len(data) <= _SHOWN else _whole_characters(data[:_SHOWN])
        return cls(at=round(at, 6), source=source, target=target, data=shown, size=len(data))

    def to_json(self) -> dict[str, Any]:
        """Return a record of a report: the bytes as `text`, or else as `base64`."""
        shown: dict[str, Any]
        try:
            shown = {"text": self.data.decode()}
        except UnicodeDecodeError:
            shown = {"base64": base64.b64encode(self.data).decode()}
        head = {"at": self.at, "from": self.source, "to": self.target}
        return {**head, "size": self.size, **shown}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Transmission:
        """Read a record of `to_json`.

        Raises:
            KeyError: a member is missing.
            ValueError: the base64 is invalid.
        """
        data = record["text"].encode() if "text" in record else base64.b64decode(record["base64"])
        return cls(
            at=record["at"],
            source=record["from"],
            target=record["to"],
            data=data,
            size=record["size"],
        )


@attrs.frozen(kw_only=True)
class Finding:
    """The verdict on one row.

    Attributes:
        verdict: the verdict; a broken `should` or `observed` row is a warning.
        case: the case that judged; empty: none.
        got: the observed behaviour; for untestable and not applicable: the reason.
        exchange: the messages around the breach.
        breach: the index in `exchange` of the message that breaks the row, if it is one.
    """

    id: str
    verdict: Verdict
    case: str = ""
    expected: str = ""
    got: str = ""
    exchange: tuple[Transmission, ...] = attrs.field(default=(), converter=tuple[Transmission, ...])
    breach: int | None = None

    @property
    def requirement(self) -> Requirement:
        """The row itself."""
        return ALL_REQUIREMENTS[self.id]


def _whole_characters(data: bytes) -> bytes:
    """Cut an incomplete UTF-8 character off the end."""
    end = len(data)
    while end and data[end - 1] & 0xC0 == 0x80:
        end -= 1
    return data[: end - 1] if end and data[end - 1] >= 0xC0 else data


def failing(id_: str) -> Verdict:
    """Return the verdict of a breach of that row."""
    return "fail" if ALL_REQUIREMENTS[id_].level == "must" else "warn"


def worst(findings: Iterable[Finding]) -> Finding:
    """Return the most severe finding of a row; the first of equals."""
    return min(findings, key=lambda finding: VERDICTS.index(finding.verdict))
