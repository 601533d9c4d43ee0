"""Which row of the requirements table a place in a message is, `params.content.limit.context`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.requirements import interfaces_current as current
from eca_protocol.testing.requirements.interfaces import ALIASES, INTERFACES

__all__ = ["row_of_place", "rows_in"]

_STEP: Final = re.compile(r"""\.(\w+)|\[(\d+)\]|\[(".*?")\]""")
_SPELLED: Final = re.compile(r"\*?(\w+)\??:(.+)")


def row_of_place(interface: str, path: str, raw: Any, *, is_value: bool) -> str | None:
    """The row of the field at `path` in a message of that interface, or of its value there.

    Args:
        interface: what the whole params or result are, as the inventory calls it.
        path: as in a `Departure`.
        raw: the whole params or result.
        is_value: the value is what departs, and not the field.

    Returns:
        None: the inventory has no such field.
    """
    type_, value, row = interface, raw, None
    for name, index, key in _STEP.findall(path):
        if index:
            type_, value = type_.removesuffix("[]"), value[int(index)]
            continue
        if key:
            return row
        found = _interface_of(type_, value)
        if found is None or name not in _FIELDS[found]:
            return row if found is None else None
        if name == "type" and type_ in _ALIASES:
            return _known(f"VALUE:{type_}={found}") or _known(f"FIELD:{found}.type")
        row = _known(f"FIELD:{found}.{name}")
        spelled = _FIELDS[found][name]
        type_ = spelled.replace("object", f"{found}.{name}")
        value = value.get(name) if isinstance(value, dict) else None
    return (_row_of_value(row, type_, value) if is_value else None) or row


def rows_in(interface: str, raw: Any) -> Iterator[str]:
    """The rows of all fields and values that stand in a message of that interface.

    Args:
        interface: what the whole params or result are, as the inventory calls it.
        raw: the whole params or result.
    """
    if isinstance(raw, list):
        for item in raw:
            yield from rows_in(interface.removesuffix("[]"), item)
    found = _interface_of(interface, raw) if isinstance(raw, dict) else None
    if found is None:
        return
    if interface in _ALIASES and (row := _known(f"VALUE:{interface}={found}")):
        yield row
    for name, value in raw.items():
        spelled = _FIELDS[found].get(name)
        row = _known(f"FIELD:{found}.{name}")
        if spelled is None or row is None or value is None:
            continue
        yield row
        type_ = spelled.replace("object", f"{found}.{name}")
        for item in value if isinstance(value, list) else [value]:
            if literal := _row_of_value(row, type_.removesuffix("[]"), item):
                yield literal
        yield from rows_in(type_, value)


def _row_of_value(row: str | None, type_: str, value: Any) -> str | None:
    """The row of the value that some edition has there, if it is one."""
    if row is None or not isinstance(value, str):
        return None
    owner = type_ if type_ in _ALIASES else row.removeprefix("FIELD:")
    return _known(f"VALUE:{owner}={value}")


def _interface_of(type_: str, value: Any) -> str | None:
    """The interface of a value; of several it is the one whose `type` the value has."""
    names = [name for name in _alternatives(type_) if name in _FIELDS]
    if len(names) == 1:
        return names[0]
    tag = value.get("type") if isinstance(value, dict) else None
    tagged = (name for name in names if _FIELDS[name].get("type") == f"'{tag}'")
    return next(tagged, None)


def _alternatives(type_: str) -> Iterator[str]:
    for spelled in type_.split("|"):
        plain = spelled.strip("*")
        if plain in _ALIASES:
            for alternative in _ALIASES[plain]:
                yield from _alternatives(alternative)
        else:
            yield plain


def _known(row: str) -> str | None:
    return row if row in REQUIREMENTS else None


def _fields() -> dict[str, dict[str, str]]:
    """Every interface of every edition: its fields and their newest types."""
    found: dict[str, dict[str, str]] = {}
    newer = [
        (name, spelled.split())
        for group in current.INTERFACES_DATA.values()
        for name, spelled in group.items()
    ]
    for name, fields in (*INTERFACES.items(), *newer):
        known = found.setdefault(name, {})
        matches = filter(None, map(_SPELLED.fullmatch, fields))
        known.update((match[1], match[2]) for match in matches)
    return found


def _aliases() -> dict[str, tuple[str, ...]]:
    found = dict(ALIASES)
    for group in current.ALIASES_DATA.values():
        for name, added in group.items():
            found[name] = (*found.get(name, ()), *added.split("|"))
    return found


_FIELDS: Final = _fields()
_ALIASES: Final = _aliases()
