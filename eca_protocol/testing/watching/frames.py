"""Bytes that are no message, or not written as ruling W-1 has it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from eca_protocol.json import MAX_VALUES, holds_too_many_values
from eca_protocol.testing.watching.observation import Notes, Side
from eca_protocol.transcript.splitter import header_of, message_in

__all__ = ["Frames"]

_PLAIN: Final = re.compile(rb"Content-Length: (?:0|[1-9][0-9]*)\r\n\r\n")
_HEADER_LINE: Final = re.compile(rb"[!-9;-~]+[ \t]*:[^\r\n]*")
_BOM: Final = b"\xef\xbb\xbf"


class Frames:
    """Judges what passed as bytes, of both sides."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._misses_some: set[Side] = set()

    def take(self, side: Side, data: bytes) -> dict[str, Any] | None:
        """Judge these bytes; the message in them, if there is one after all."""
        header = header_of(data)
        if header is None:
            self._no_frame(side, data)
            return None
        end, length = header
        if not _is_header(data[:end]):
            self._tell(side, "BASE-2", "nothing but messages", _shown(data[:end]))
        elif not _PLAIN.fullmatch(data, 0, end):
            self._tell(side, "W-1", "the one header Content-Length", _shown(data[:end]))
        if length is None:
            return None
        message = message_in(data[end:])
        if message is None:
            self._no_message(side, data[end:], length)
        else:
            self._misses_some.discard(side)
        return message

    def _no_frame(self, side: Side, data: bytes) -> None:
        if side in self._misses_some:  # what a wrong length left over
            return
        if _is_header(data):
            self._tell(side, "BASE-6", "a whole message", f"its beginning, {_shown(data)}")
        else:
            self._tell(side, "BASE-2", "nothing but messages", _shown(data))

    def _no_message(self, side: Side, body: bytes, length: int) -> None:
        if len(body) < length:
            self._tell(side, "BASE-6", f"a body of {length} bytes", f"{len(body)} and the end")
            return
        row, expected = _fault_of(body)
        if row == "BASE-6":
            self._misses_some.add(side)
        self._tell(side, row, expected, _shown(body))

    def _tell(self, side: Side, row: str, expected: str, got: str) -> None:
        self._notes.tell(row, side=side, expected=expected, got=got)


def _is_header(data: bytes) -> bool:
    """Whether these are header lines that end alike, the last one perhaps not yet."""
    *lines, last = data.split(b"\n")
    has_returns = {line.endswith(b"\r") for line in lines}
    names = [line.rstrip(b"\r") for line in (*lines, last)]
    return len(has_returns) < 2 and all(map(_HEADER_LINE.fullmatch, filter(None, names)))


def _fault_of(body: bytes) -> tuple[str, str]:
    """The row that a body which is no message breaks, and what it asks for."""
    if body.startswith(_BOM):
        return "W-1", "a body without a byte order mark"
    try:
        text = body.decode()
    except UnicodeDecodeError as fault:
        if fault.reason == "unexpected end of data":
            return "BASE-6", "a length that counts bytes"
        return "W-5a", "a body in UTF-8"
    if holds_too_many_values(body):
        return "BASE-13", f"a body of at most {MAX_VALUES:,} values"
    return _fault_of_json(text)


def _fault_of_json(text: str) -> tuple[str, str]:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except _ConstantError:
        return "W-5d", "numbers that JSON has"
    except json.JSONDecodeError as fault:
        is_cut = not text[fault.pos :].strip() or "Unterminated" in fault.msg
        if is_cut or fault.msg == "Extra data":
            return "BASE-6", "a length that is the body's"
        return "BASE-13", "a body that is JSON"
    except (RecursionError, ValueError):
        return "BASE-13", "a body that can be read"
    if isinstance(value, dict):
        return "W-5g", "values nested up to 128 deep"
    return "BASE-13", "one message of JSON-RPC 2.0"


class _ConstantError(Exception):
    """NaN or an infinity."""


def _refuse_constant(name: str) -> None:
    raise _ConstantError(name)


def _shown(data: bytes) -> str:
    return repr(data[:80])[1:] + ("..." if len(data) > 80 else "")
