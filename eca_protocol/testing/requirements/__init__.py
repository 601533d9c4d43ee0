"""Every duty of the protocol, one row each; tests name the rows that they show.

A test says `@pytest.mark.requirement("BASE-3", "W-13a")`, or `@pytest.mark.requirement` if it
shows none. The rule: each row has a test or names the later work that brings one, never both. A
ruling of several duties has lettered rows; its plain number (`W-13`) names them as a group, which
shows none of them in particular.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from eca_protocol.testing.requirements import (
    base,
    chat,
    clients,
    configuration,
    contexts,
    diagrams,
    editor,
    general,
    interfaces,
    lifecycle,
    rulings,
    rulings_tools,
    tools,
)
from eca_protocol.testing.requirements.row import LATER, SECTIONS, Requirement

__all__ = ["GROUPS", "LATER", "REQUIREMENTS", "SECTIONS", "Requirement", "lookup"]

_CHAPTERS: Final = (
    base,
    lifecycle,
    chat,
    tools,
    contexts,
    editor,
    configuration,
    general,
    rulings,
    rulings_tools,
    clients,
    interfaces,
    diagrams,
)


def _table() -> dict[str, Requirement]:
    table: dict[str, Requirement] = {}
    for chapter in _CHAPTERS:
        for requirement in chapter.ROWS:
            if requirement.id in table:
                raise ValueError(f"two rows are called {requirement.id}")
            table[requirement.id] = requirement
    return table


def _groups(table: Mapping[str, Requirement]) -> dict[str, tuple[Requirement, ...]]:
    groups: dict[str, tuple[Requirement, ...]] = {}
    for requirement in table.values():
        if lettered := re.fullmatch(r"(W-\d+)[a-z]", requirement.id):
            group = lettered.group(1)
            groups[group] = (*groups.get(group, ()), requirement)
    return groups


REQUIREMENTS: Final[Mapping[str, Requirement]] = MappingProxyType(_table())
"""All rows by id, in the order of the chapters."""

GROUPS: Final[Mapping[str, tuple[Requirement, ...]]] = MappingProxyType(_groups(REQUIREMENTS))
"""The rulings that are split into lettered rows: `W-13` -> `W-13a`, `W-13b`, ..."""


def lookup(name: str) -> tuple[Requirement, ...]:
    """The rows that `name` means: one row, a ruling's group, or a pattern of fields or values.

    A pattern has a `*` and starts with `FIELD:` or `VALUE:`; rows of other kinds are named one
    by one.

    Raises:
        KeyError: no row has that name, or the pattern fits none.
    """
    if name in REQUIREMENTS:
        return (REQUIREMENTS[name],)
    if name in GROUPS:
        return GROUPS[name]
    if name.startswith(("FIELD:", "VALUE:")) and "*" in name:
        found = tuple(
            requirement
            for id_, requirement in REQUIREMENTS.items()
            if fnmatch.fnmatchcase(id_, name)
        )
        if found:
            return found
    raise KeyError(name)
