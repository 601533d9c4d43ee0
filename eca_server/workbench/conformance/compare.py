"""Comparison of two runs, requirement by requirement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

import attrs

from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.verdicts import Finding, Verdict

ChangeKind: TypeAlias = Literal["broken", "failing", "fixed", "judged", "lost", "new", "gone"]

DESCRIPTIONS: Final[Mapping[ChangeKind, str]] = {
    "broken": "broken now",
    "failing": "judged now, and broken",
    "fixed": "fixed now",
    "judged": "judged now",
    "lost": "no longer judged",
    "new": "only in this run",
    "gone": "only in the earlier run",
}
_SHOWN: Final = 30  # ids of a line


@attrs.frozen(kw_only=True)
class Change:
    """The change of one requirement.

    Attributes:
        before: the verdict of the earlier run; None if it has none.
        after: the verdict of the later run; None if it has none.
    """

    id: str
    kind: ChangeKind
    before: Verdict | None
    after: Verdict | None


def compare(before: Run, after: Run) -> tuple[Change, ...]:
    """Return the requirements with changed verdicts, broken ones first."""
    earlier = {finding.id: finding for finding in before.findings}
    later = {finding.id: finding for finding in after.findings}
    order = tuple(DESCRIPTIONS)
    changes = [
        change
        for id_ in dict.fromkeys((*earlier, *later))
        if (change := _change(id_, earlier.get(id_), later.get(id_))) is not None
    ]
    return tuple(sorted(changes, key=lambda change: order.index(change.kind)))


def describe_changes(changes: tuple[Change, ...]) -> Iterator[str]:
    """Yield the changes as lines for a terminal."""
    if not changes:
        yield "Nothing has changed since the earlier run."
    for kind, description in DESCRIPTIONS.items():
        ids = [change.id for change in changes if change.kind == kind]
        if ids:
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            yield f"{len(ids)} {description}: {' '.join(ids[:_SHOWN])}{more}"


def _change(id_: str, before: Finding | None, after: Finding | None) -> Change | None:
    old = before.verdict if before else None
    new = after.verdict if after else None
    kind = _kind(old, new)
    return None if kind is None else Change(id=id_, kind=kind, before=old, after=new)


def _kind(old: Verdict | None, new: Verdict | None) -> ChangeKind | None:
    judged: tuple[Verdict, ...] = ("pass", "fail", "warn")
    if old is None:
        return "new"
    if new is None:
        return "gone"
    if old in judged and new in judged:
        return (
            None if (old == "pass") == (new == "pass") else "fixed" if new == "pass" else "broken"
        )
    if old not in judged and new not in judged:
        return None
    if new in {"fail", "warn"}:
        return "failing"  # no regression: the earlier run did not judge it
    return "judged" if new in judged else "lost"
