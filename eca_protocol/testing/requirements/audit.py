"""Whether the table and a suite's markers agree, both ways; pure, it knows no test runner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import attrs

from eca_protocol.testing.requirements import GROUPS, REQUIREMENTS, lookup

__all__ = ["Audit", "Claim", "audit"]


@attrs.frozen(kw_only=True)
class Claim:
    """A test and the names of the rows that it says it shows.

    Attributes:
        test: the test's name.
        names: None if it carries no marker; an empty marker says that no row binds it.
    """

    test: str
    names: tuple[str, ...] | None


@attrs.frozen(kw_only=True)
class Audit:
    """What is shown, and what is wrong.

    Attributes:
        shown: row id -> the tests that show it, in the order of the table; rows without a test
            are missing.
        findings: one sentence for each disagreement; empty if table and tests agree.
    """

    shown: Mapping[str, tuple[str, ...]]
    findings: tuple[str, ...]


def audit(claims: Iterable[Claim], *, binds: Callable[[str], bool]) -> Audit:
    """Compare the claims of a whole suite with the table.

    Args:
        claims: one per test, also of tests without a marker.
        binds: whether the test of that name has to carry a marker.
    """
    claims = tuple(claims)
    tests: dict[str, list[str]] = {id_: [] for id_ in REQUIREMENTS}
    wrong: list[str] = []
    for claim in claims:
        if claim.names is None and binds(claim.test):
            wrong.append(f"{claim.test}: carries no requirement marker, and here each test must")
        for name in claim.names or ():
            wrong.extend(_record(claim.test, name, tests))
    for id_, showing in tests.items():
        wrong.extend(_judge_row(id_, showing))
    shown = {id_: tuple(showing) for id_, showing in tests.items() if showing}
    return Audit(shown=MappingProxyType(shown), findings=tuple(wrong))


def _record(test: str, name: str, tests: dict[str, list[str]]) -> Iterator[str]:
    try:
        rows = lookup(name)
    except KeyError:
        yield f"{test}: names {name!r}, which is no requirement"
        return
    if name not in GROUPS:
        for requirement in rows:
            tests[requirement.id].append(test)
    elif all(requirement.later for requirement in rows):
        yield f"{test}: names {name}, all of whose rows wait for later work"


def _judge_row(id_: str, showing: list[str]) -> Iterator[str]:
    later = REQUIREMENTS[id_].later
    if later and showing:
        yield f"{id_}: waits for {later!r}, yet {showing[0]} shows it"
    elif not later and not showing:
        yield f"{id_}: has neither a test nor later work: {REQUIREMENTS[id_].duty}"
