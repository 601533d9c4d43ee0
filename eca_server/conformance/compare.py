"""Two runs side by side: what broke since, what was mended, what is judged now or no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

import attrs

from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.verdicts import Finding, Verdict

__all__ = ["Change", "Kind", "compare", "compared"]

Kind: TypeAlias = Literal["broken", "mended", "judged", "lost", "new", "gone"]

WORDS: Final[Mapping[Kind, str]] = {
    "broken": "not kept any more",
    "mended": "kept now",
    "judged": "judged now",
    "lost": "not judged any more",
    "new": "only in this run",
    "gone": "only in the earlier run",
}
_SHOWN: Final = 30  # ids of a line


@attrs.frozen(kw_only=True)
class Change:
    """What became of one row.

    Attributes:
        id: the row.
        kind: what became of it.
        before: the earlier verdict; None: it was not in that run.
        after: today's; None: it is not in this run.
    """

    id: str
    kind: Kind
    before: Verdict | None
    after: Verdict | None


def compare(before: Run, after: Run) -> tuple[Change, ...]:
    """Every row whose verdict is another, what broke first."""
    earlier = {finding.id: finding for finding in before.findings}
    today = {finding.id: finding for finding in after.findings}
    order = tuple(WORDS)
    changes = [
        change
        for id_ in dict.fromkeys((*earlier, *today))
        if (change := _change(id_, earlier.get(id_), today.get(id_))) is not None
    ]
    return tuple(sorted(changes, key=lambda change: order.index(change.kind)))


def compared(changes: tuple[Change, ...]) -> Iterator[str]:
    """The changes as lines for a terminal."""
    if not changes:
        yield "Nothing has changed since the earlier run."
    for kind, words in WORDS.items():
        ids = [change.id for change in changes if change.kind == kind]
        if ids:
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            yield f"{len(ids)} {words}: {' '.join(ids[:_SHOWN])}{more}"


def _change(id_: str, before: Finding | None, after: Finding | None) -> Change | None:
    was = before.verdict if before else None
    is_ = after.verdict if after else None
    kind = _kind(was, is_)
    return None if kind is None else Change(id=id_, kind=kind, before=was, after=is_)


def _kind(was: Verdict | None, is_: Verdict | None) -> Kind | None:
    judged: tuple[Verdict, ...] = ("pass", "fail", "warn")
    if was is None:
        return "new"
    if is_ is None:
        return "gone"
    if was in judged and is_ in judged:
        return (
            None if (was == "pass") == (is_ == "pass") else "mended" if is_ == "pass" else "broken"
        )
    if was not in judged and is_ not in judged:
        return None
    if is_ in {"fail", "warn"}:
        return "broken"
    return "judged" if is_ in judged else "lost"
