"""The requirement row of a place in a message, such as `params.content.limit.context`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.requirements.interfaces import aliases_of, interfaces_of

_STEP: Final = re.compile(r"""\.(\w+)|\[(\d+)\]|\[(".*?")\]""")
_SPELLED: Final = re.compile(r"\*?(\w+)\??:(.+)")


def interface_name(hint: object) -> str:
    """Return the inventory's name for the type of params or of a result."""
    return hint.__name__ if isinstance(hint, type) else "ToolServerUpdatedParams"


def row_of_path(interface: str, path: str, raw: Any, *, is_value: bool) -> str | None:
    """Return the row of the field at `path`, or of its value.

    Args:
        interface: the inventory's name for the type of the params or result.
        path: the path, as in a `Departure`.
        raw: the complete params or result.
        is_value: whether the value departs, not the field.

    Returns:
        The id of the row; None if the inventory has no such field.
    """
    type_, value, row = interface, raw, None
    for name, index, key in _STEP.findall(path):
        if index:
            type_, value = type_.removesuffix("[]"), value[int(index)]
            continue
        if key:
            return row
        interface_name = _interface_of(type_, value)
        if interface_name is None or name not in _FIELDS[interface_name]:
            return row if interface_name is None else None
        if name == "type" and type_ in _ALIASES:
            return _known(f"VALUE:{type_}={interface_name}") or _known(
                f"FIELD:{interface_name}.type"
            )
        row = _known(f"FIELD:{interface_name}.{name}")
        type_ = _FIELDS[interface_name][name].replace("object", f"{interface_name}.{name}")
        value = value.get(name) if isinstance(value, dict) else None
    return (_row_of_value(row, type_, value) if is_value else None) or row


def rows_used(interface: str, raw: Any) -> Iterator[str]:
    """Yield the rows of all fields and values in a message.

    Args:
        interface: the inventory's name for the type of the params or result.
        raw: the complete params or result.
    """
    if isinstance(raw, list):
        for item in raw:
            yield from rows_used(interface.removesuffix("[]"), item)
    interface_name = _interface_of(interface, raw) if isinstance(raw, dict) else None
    if interface_name is None:
        return
    if interface in _ALIASES and (row := _known(f"VALUE:{interface}={interface_name}")):
        yield row
    for name, value in raw.items():
        spelled = _FIELDS[interface_name].get(name)
        row = _known(f"FIELD:{interface_name}.{name}")
        if spelled is None or row is None or value is None:
            continue
        yield row
        type_ = spelled.replace("object", f"{interface_name}.{name}")
        for item in value if isinstance(value, list) else [value]:
            if literal := _row_of_value(row, type_.removesuffix("[]"), item):
                yield literal
        yield from rows_used(type_, value)


def _row_of_value(row: str | None, type_: str, value: Any) -> str | None:
    if row is None or not isinstance(value, str):
        return None
    owner = type_ if type_ in _ALIASES else row.removeprefix("FIELD:")
    return _known(f"VALUE:{owner}={value}")


def _interface_of(type_: str, value: Any) -> str | None:
    """Return the interface of a value; `type` decides between several."""
    names = [name for name in _alternatives(type_) if name in _FIELDS]
    if len(names) == 1:
        return names[0]
    tag = value.get("type") if isinstance(value, dict) else None
    return next((name for name in names if _FIELDS[name].get("type") == f"'{tag}'"), None)


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
    """Return the fields of every interface of every edition, with their newest types."""
    interfaces: dict[str, dict[str, str]] = {}
    for revision in (Revision.R2025_10, Revision.CURRENT):
        for name, fields in interfaces_of(revision).items():
            matches = filter(None, map(_SPELLED.fullmatch, fields))
            interfaces.setdefault(name, {}).update((match[1], match[2]) for match in matches)
    return interfaces


_FIELDS: Final = _fields()
_ALIASES: Final = aliases_of(Revision.CURRENT)
