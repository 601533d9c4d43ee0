"""The requirements of the protocol, one row each; tests name the rows that they verify.

A test is marked `@pytest.mark.requirement("BASE-3", "W-13a")`. A ruling with several requirements
has lettered rows. Its plain number (`W-13`) names the group and verifies no row.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from eca_protocol.testing.requirements import interfaces
from eca_protocol.testing.requirements.row import Requirement, rows, table_text

__all__ = [
    "ACP_REQUIREMENTS",
    "ALL_REQUIREMENTS",
    "GROUPS",
    "REQUIREMENTS",
    "SECTIONS",
    "Requirement",
    "lookup",
]

_CHAPTERS: Final = (
    rows(table_text("specification.txt")),
    rows(table_text("rulings.txt")),
    interfaces.ROWS,
    rows(table_text("diagrams.txt")),
)


def _by_id(*chapters: tuple[Requirement, ...]) -> Mapping[str, Requirement]:
    requirements: dict[str, Requirement] = {}
    for requirement in itertools.chain(*chapters):
        if requirement.id in requirements:
            raise ValueError(f"expected unique ids, got two rows {requirement.id}")
        requirements[requirement.id] = requirement
    return MappingProxyType(requirements)


def _groups(table: Mapping[str, Requirement]) -> dict[str, tuple[Requirement, ...]]:
    groups: dict[str, tuple[Requirement, ...]] = {}
    for requirement in table.values():
        if lettered := re.fullmatch(r"(W-\d+)[a-z]", requirement.id):
            group = lettered.group(1)
            groups[group] = (*groups.get(group, ()), requirement)
    return groups


REQUIREMENTS: Final = _by_id(*_CHAPTERS)
"""The rows of ECA, by id and in the order of the chapters."""

ACP_REQUIREMENTS: Final = _by_id(rows(table_text("acp.txt")))
"""The rows of ACP that bind agents, by id."""

ALL_REQUIREMENTS: Final = _by_id(tuple(REQUIREMENTS.values()), tuple(ACP_REQUIREMENTS.values()))
"""The rows of both protocols."""

SECTIONS: Final = tuple(dict.fromkeys(requirement.section for requirement in REQUIREMENTS.values()))
"""Sections with requirements: of the specification, of its references, and our own."""

GROUPS: Final[Mapping[str, tuple[Requirement, ...]]] = MappingProxyType(_groups(REQUIREMENTS))
"""The lettered rows of each ruling that has several: `W-13` -> `W-13a`, `W-13b`, ..."""


def lookup(name: str) -> tuple[Requirement, ...]:
    """Return the rows of a row id, a ruling's number, or a pattern of fields or values.

    A pattern contains `*` and starts with `FIELD:` or `VALUE:`; other rows have no patterns.

    Raises:
        KeyError: if no row matches.
    """
    if name in ALL_REQUIREMENTS:
        return (ALL_REQUIREMENTS[name],)
    if name in GROUPS:
        return GROUPS[name]
    if name.startswith(("FIELD:", "VALUE:")) and "*" in name:
        matches = tuple(
            requirement
            for id_, requirement in REQUIREMENTS.items()
            if fnmatch.fnmatchcase(id_, name)
        )
        if matches:
            return matches
    raise KeyError(name)
