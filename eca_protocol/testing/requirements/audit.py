"""The comparison of the table with the markers of a test suite. No test runner is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import attrs

from eca_protocol.testing.requirements import GROUPS, REQUIREMENTS, lookup


@attrs.frozen(kw_only=True)
class Claim:
    """A test and the rows that its markers name."""

    test: str
    names: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Audit:
    """The result of a comparison.

    Attributes:
        shown: the tests that verify each row, by id and in the order of the table, without rows
            that have no test.
        findings: one sentence for each mismatch.
    """

    shown: Mapping[str, tuple[str, ...]]
    findings: tuple[str, ...]


def audit(claims: Iterable[Claim]) -> Audit:
    """Compare the claims of a whole suite with the table."""
    tests: dict[str, list[str]] = {id_: [] for id_ in REQUIREMENTS}
    wrong: list[str] = []
    for claim in claims:
        for name in claim.names:
            wrong.extend(_record(claim.test, name, tests))
    wrong += [
        f"{id_}: has no test: {REQUIREMENTS[id_].statement}"
        for id_, showing in tests.items()
        if not showing
    ]
    shown = {id_: tuple(showing) for id_, showing in tests.items() if showing}
    return Audit(shown=MappingProxyType(shown), findings=tuple(wrong))


def _record(test: str, name: str, tests: dict[str, list[str]]) -> Iterator[str]:
    try:
        rows = lookup(name)
    except KeyError:
        yield f"{test}: names {name!r}, which is not in the requirements table"
        return
    if name not in GROUPS:
        for requirement in rows:
            tests[requirement.id].append(test)
