"""Rows of every field and literal value of the specification's interfaces.

The tables are an inventory: for each section, the interfaces and their fields, written `name:type`,
or `name?:type` if optional. An anonymous object is named by its path. `|` separates alternatives,
`'x'` is a literal, and a leading `*` marks additions of October 2025. `NAME = ...` is an alias with
its alternatives. `interfaces_current.txt` has the additions and changes since October 2025: of an
older interface only new and changed fields, and `-name` for a removed one; of an older alias only
the added alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from eca_protocol.revisions import EVER, Revision, Window
from eca_protocol.testing.requirements.row import (
    SINCE_2025_10,
    SINCE_CURRENT,
    Requirement,
    table_text,
)


class _Entry(NamedTuple):
    """An interface with its fields, or an alias with its alternatives."""

    section: str
    name: str
    is_alias: bool
    items: list[str]


def _read(name: str) -> tuple[_Entry, ...]:
    """Return the entries of a table, the aliases behind the interfaces."""
    entries = []
    section = ""
    for line in table_text(name).splitlines():
        if line.startswith("# "):
            section = line.removeprefix("# ")
        elif " = " in line:
            alias, alternatives = line.split(" = ")
            entries.append(_Entry(section, alias, True, alternatives.split(" | ")))
        elif line:
            interface, *fields = line.split()
            entries.append(_Entry(section, interface, False, fields))
    return tuple(sorted(entries, key=lambda entry: entry.is_alias))


_OLD: Final = _read("interfaces.txt")
_NEW: Final = _read("interfaces_current.txt")


def interfaces_of(revision: Revision) -> dict[str, tuple[str, ...]]:
    """Return the fields of each interface of an edition, in the notation of the data."""
    interfaces = {
        entry.name: known
        for entry in _OLD
        if not entry.is_alias and ((known := _known(entry.items, revision)) or not entry.items)
    }
    for entry in _NEW if SINCE_CURRENT.holds(revision) else ():
        if not entry.is_alias:
            interfaces[entry.name] = _changed(interfaces.get(entry.name, ()), entry.items)
    return interfaces


def aliases_of(revision: Revision) -> dict[str, tuple[str, ...]]:
    """Return the alternatives of each alias of an edition, in the notation of the data."""
    aliases = {entry.name: _known(entry.items, revision) for entry in _OLD if entry.is_alias}
    for entry in _NEW if SINCE_CURRENT.holds(revision) else ():
        if entry.is_alias:
            aliases[entry.name] = (*aliases.get(entry.name, ()), *entry.items)
    return aliases


def _known(spelled: list[str], revision: Revision) -> tuple[str, ...]:
    is_october = SINCE_2025_10.holds(revision)
    return tuple(each for each in spelled if is_october or not each.startswith("*"))


def _changed(fields: tuple[str, ...], changes: list[str]) -> tuple[str, ...]:
    by_name = {_name(field): field for field in fields}
    for change in changes:
        if change.startswith("-"):
            del by_name[change.removeprefix("-")]
        else:
            by_name[_name(change)] = change
    return tuple(by_name.values())


def _name(spelled: str) -> str:
    return spelled.partition(":")[0].strip("*?")


_FIELD: Final = re.compile(r"(\*?)(\w+)(\??):(.+)")
_RULED: Final = {
    "FIELD:ChatToolCalledContent.arguments": "W-32",
    "FIELD:EditorDiagnostic.code": "W-42",
    "FIELD:MCPServerUpdatedParams.command": "W-60",
    "FIELD:MCPServerUpdatedParams.args": "W-60",
}


def _requirement(id_: str, section: str, statement: str, window: Window) -> Requirement:
    return Requirement(
        id=id_,
        section=section,
        statement=statement,
        side="both",
        window=window,
        ruling=_RULED.get(id_),
    )


def _rows_of(entries: tuple[_Entry, ...], window: Window) -> Iterator[Requirement]:
    for section, name, is_alias, items in entries:
        for item in items:
            if is_alias:
                value = item.strip("*'")
                since = SINCE_2025_10 if item.startswith("*") else window
                statement = f"{name} may be {value}."
                yield _requirement(f"VALUE:{name}={value}", section, statement, since)
            elif not item.startswith("-"):
                yield from _field_rows(section, name, item, window)


def _field_rows(
    section: str, interface: str, spelling: str, window: Window
) -> Iterator[Requirement]:
    match = _FIELD.fullmatch(spelling)
    assert match, f"{interface}: expected `name:type`, got {spelling!r}"
    star, name, optional, type_ = match.groups()
    window = SINCE_2025_10 if star else window
    statement = f"{interface} has {'an optional' if optional else 'a'} {name}: {type_}."
    yield _requirement(f"FIELD:{interface}.{name}", section, statement, window)
    for literal in re.findall(r"'([^']+)'", type_):
        yield _requirement(
            f"VALUE:{interface}.{name}={literal}",
            section,
            f"{name} of {interface} may be {literal}.",
            window,
        )


_ROWS = {row.id: row for row in (*_rows_of(_NEW, SINCE_CURRENT), *_rows_of(_OLD, EVER))}
ROWS = tuple(_ROWS.values())
