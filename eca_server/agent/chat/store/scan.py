"""A scan for rows in the pages of a damaged file, without the tree of pages.

Rule: a row belongs to the table whose columns it fits, whatever page it is on; a row that fits none
is left out. The format is that of https://www.sqlite.org/fileformat.html.
"""

from __future__ import annotations

import sqlite3
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Final

from eca_server.agent.chat.store.schema import Column

_PAGE = 4096  # bytes
_LEAF = 13  # the kind of a page that holds rows
_LARGEST_LOCAL = _PAGE - 35
_SMALLEST_LOCAL = (_PAGE - 12) * 32 // 255 - 23
_LARGEST_ROW = 1 << 27

_KINDS: Final[Mapping[str, Any]] = {
    "TEXT": str,
    "INTEGER": int,
    "REAL": int | float,  # a whole number is stored as an integer
    "BLOB": bytes,
}


def scan(
    source: Path, target: Path, deadline: float, tables: Mapping[str, Sequence[Column]]
) -> None:
    """Write the rows of these tables into a new file, until a time of the monotonic clock.

    A row that is older than the last columns of its table lacks their values.

    Raises:
        OSError: the file cannot be read.
        sqlite3.Error: the new one cannot be written.
    """
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for table, columns in tables.items():
            names = ", ".join(column.name for column in columns)
            connection.execute(f"CREATE TABLE {table} ({names})")
        for rowid, row in _rows_of(source, deadline):
            for table, columns in tables.items():
                values = [*row, *[None] * (len(columns) - len(row))]
                if len(values) == len(columns) and all(map(_fits, values, columns)):
                    values = [
                        rowid if column.is_rowid else value
                        for value, column in zip(values, columns, strict=True)
                    ]
                    marks = ", ".join("?" for _ in values)
                    connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)  # noqa: S608
                    break
        connection.execute("COMMIT")


def _fits(value: Any, column: Column) -> bool:
    if value is None:
        return column.is_rowid or not column.is_required
    return not column.is_rowid and isinstance(value, _KINDS[column.kind])


def _rows_of(source: Path, deadline: float) -> Iterator[tuple[int, list[Any]]]:
    if source.stat().st_size < _PAGE:  # an empty file cannot be mapped
        return
    with source.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        yield from _rows(data, deadline)


def _rows(data: mmap, deadline: float) -> Iterator[tuple[int, list[Any]]]:
    for start in range(0, len(data) - _PAGE + 1, _PAGE):
        if time.monotonic() > deadline:
            return
        page = data[start : start + _PAGE]
        if page[0] != _LEAF:
            continue
        for number in range(min(int.from_bytes(page[3:5], "big"), (_PAGE - 8) // 2)):
            cell = int.from_bytes(page[8 + 2 * number : 10 + 2 * number], "big")
            with suppress(ValueError, IndexError, struct.error, OverflowError):
                yield _row(data, page, cell)


def _row(data: mmap, page: bytes, cell: int) -> tuple[int, list[Any]]:
    """Read one row.

    Raises:
        ValueError: there is no row.
        IndexError: as above.
        struct.error: as above.
    """
    size, place = _varint(page, cell)
    rowid, place = _varint(page, place)
    if size > _LARGEST_ROW:
        raise ValueError
    local = size
    if size > _LARGEST_LOCAL:
        local = _SMALLEST_LOCAL + (size - _SMALLEST_LOCAL) % (_PAGE - 4)
        local = local if local <= _LARGEST_LOCAL else _SMALLEST_LOCAL
    payload = bytearray(page[place : place + local])
    following = int.from_bytes(page[place + local : place + local + 4], "big")
    while len(payload) < size:
        start = (following - 1) * _PAGE
        if start < 0 or start + _PAGE > len(data):
            raise ValueError
        payload += data[start + 4 : start + 4 + min(_PAGE - 4, size - len(payload))]
        following = int.from_bytes(data[start : start + 4], "big")
    if len(payload) != size:
        raise ValueError
    return rowid, [*_columns(bytes(payload))]


def _columns(payload: bytes) -> Iterator[Any]:
    head, place = _varint(payload, 0)
    content = head
    while place < head:
        kind, place = _varint(payload, place)
        if kind >= 12:
            size = (kind - 12) // 2
        elif kind in (8, 9):
            yield kind - 8
            continue
        else:
            size = (0, 1, 2, 3, 4, 6, 8, 8)[kind]
        value = payload[content : content + size]
        content += size
        if len(value) != size:
            raise ValueError
        if kind >= 12:
            yield value.decode(errors="replace") if kind % 2 else value
        elif kind == 7:
            yield struct.unpack(">d", value)[0]
        else:
            yield int.from_bytes(value, "big", signed=True) if kind else None


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for count in range(8):
        byte = data[place + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + count + 1
    value = value << 8 | data[place + 8]
    return value - (1 << 64) if value >> 63 else value, place + 9
