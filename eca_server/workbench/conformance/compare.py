"""Comparison of two runs, requirement by requirement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.verdicts import Verdict

Changes: TypeAlias = Mapping[str, list[str]]
"""The ids of the requirements with changed verdicts, by the kind of change, broken ones first."""

_KINDS: Final = (
    "broken now", "judged now, and broken", "fixed now", "judged now", "no longer judged",
    "only in this run", "only in the earlier run",
)  # fmt: skip
_JUDGED: Final = frozenset({"pass", "fail", "warn"})
_SHOWN: Final = 30  # ids of a line


def compare(before: Run, after: Run) -> Changes:
    """Return the requirements with changed verdicts."""
    earlier = {finding.id: finding.verdict for finding in before.findings}
    later = {finding.id: finding.verdict for finding in after.findings}
    changes: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for id_ in {**earlier, **later}:
        if kind := _kind(earlier.get(id_), later.get(id_)):
            changes[kind].append(id_)
    return {kind: ids for kind, ids in changes.items() if ids}


def describe_changes(changes: Changes) -> Iterator[str]:
    """Yield the changes as lines for a terminal."""
    if not changes:
        yield "Nothing has changed since the earlier run."
    for kind, ids in changes.items():
        more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
        yield f"{len(ids)} {kind}: {' '.join(ids[:_SHOWN])}{more}"


def _kind(old: Verdict | None, new: Verdict | None) -> str:
    """Return the kind of a change; empty: it is none."""
    if old is None:
        return "only in this run"
    if new is None:
        return "only in the earlier run"
    if new not in _JUDGED:
        return "no longer judged" if old in _JUDGED else ""
    if old not in _JUDGED:  # a breach is no regression: the earlier run did not judge it
        return "judged now" if new == "pass" else "judged now, and broken"
    if (old == "pass") == (new == "pass"):
        return ""
    return "fixed now" if new == "pass" else "broken now"
