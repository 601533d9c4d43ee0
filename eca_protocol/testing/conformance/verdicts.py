"""What a run of the suite finds: a verdict for each row, with the exchange that shows it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import attrs

from eca_protocol.testing.requirements import REQUIREMENTS, Requirement

__all__ = [
    "NO_TIME",
    "VERDICTS",
    "Exchanged",
    "Finding",
    "Party",
    "Verdict",
    "failing",
    "judgement",
    "worst",
]

Verdict = Literal["pass", "fail", "warn", "not-applicable", "untestable"]
Party = Literal["client", "server", "model"]

VERDICTS: Final[tuple[Verdict, ...]] = ("fail", "warn", "pass", "untestable", "not-applicable")
"""From what counts most: of several verdicts on one row the first of these stays."""

NO_TIME: Final = "no time in"
"""So begins what is told of rows that were not judged because the time of the run was over."""

_SHOWN: Final = 4096  # bytes of one message that a finding keeps
_LONGEST: Final = 600  # characters of what was got


@attrs.frozen(kw_only=True)
class Exchanged:
    """Bytes that passed between two of the three parties.

    Attributes:
        at: seconds since the server was started.
        source: who wrote them.
        target: to whom.
        data: the bytes, header included; of a long message the beginning.
        size: how many there were.
    """

    at: float
    source: Party
    target: Party
    data: bytes
    size: int

    @classmethod
    def of(cls, at: float, source: Party, target: Party, data: bytes) -> Exchanged:
        """Keep the beginning of what passed."""
        shown = data if len(data) <= _SHOWN else _whole_characters(data[:_SHOWN])
        return cls(at=round(at, 6), source=source, target=target, data=shown, size=len(data))

    def to_json(self) -> dict[str, Any]:
        """As a record of a report: the bytes as `text`, or as `base64` if they are none."""
        shown: dict[str, Any]
        try:
            shown = {"text": self.data.decode()}
        except UnicodeDecodeError:
            shown = {"base64": base64.b64encode(self.data).decode()}
        head = {"at": self.at, "from": self.source, "to": self.target}
        return {**head, "size": self.size, **shown}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Exchanged:
        """What `to_json` wrote.

        Raises:
            KeyError: a member is missing.
            ValueError: the base64 is none.
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
    """The judgement on one row.

    Attributes:
        id: the row.
        verdict: what came of it; a broken `should` or `observed` row is a warning.
        case: who judged; empty: nobody did.
        expected: what the row wants, in the words of who judged.
        got: what came instead; for untestable and not applicable: why, in a sentence.
        exchange: what passed around the breach.
        breach: the place in it of what broke the row, if it is one message.
    """

    id: str
    verdict: Verdict
    case: str = ""
    expected: str = ""
    got: str = ""
    exchange: tuple[Exchanged, ...] = attrs.field(default=(), converter=tuple[Exchanged, ...])
    breach: int | None = None

    @property
    def requirement(self) -> Requirement:
        """The row itself."""
        return REQUIREMENTS[self.id]


def _whole_characters(data: bytes) -> bytes:
    """Without the beginning of a character that UTF-8 spells in several bytes, at its end."""
    end = len(data)
    while end and data[end - 1] & 0xC0 == 0x80:
        end -= 1
    return data[: end - 1] if end and data[end - 1] >= 0xC0 else data


def failing(id_: str) -> Verdict:
    """How a breach of that row counts."""
    return "fail" if REQUIREMENTS[id_].level == "must" else "warn"


def worst(findings: Iterable[Finding]) -> Finding:
    """Of several findings on one row the one that counts most; of equals the first."""
    return min(findings, key=lambda finding: VERDICTS.index(finding.verdict))


def judgement(
    id_: str,
    ok: object,
    *,
    case: str,
    expected: str,
    got: object,
    exchange: Callable[[], Iterable[Exchanged]],
) -> Finding:
    """The finding of a case on one row: kept or not; `exchange` is asked for if it is not."""
    text = got if isinstance(got, str) else repr(got)
    return Finding(
        id=id_,
        verdict="pass" if ok else failing(id_),
        case=case,
        expected=expected,
        got=text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...",
        exchange=() if ok else tuple(exchange()),
    )
