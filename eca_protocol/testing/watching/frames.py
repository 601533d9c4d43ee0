"""Bytes that are not a message, or not framed as ruling W-1 requires."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any, Final

from eca_protocol.json import MAX_VALUES, holds_too_many_values
from eca_protocol.testing.watching.observation import ObservationLog, Side
from eca_protocol.transcript.splitter import header_of, message_in

_PLAIN: Final = re.compile(rb"Content-Length: (?:0|[1-9][0-9]*)\r\n\r\n")
_HEADER_LINE: Final = re.compile(rb"[!-9;-~]+[ \t]*:[^\r\n]*")
_NAME: Final = re.compile(rb"(?im)^[ \t]*content-length[ \t]*:")
_BOM: Final = b"\xef\xbb\xbf"


class Frames:
    """Checks the bytes of both sides."""

    def __init__(self, log: ObservationLog) -> None:
        self._log = log
        self._truncated: set[Side] = set()

    def check(self, side: Side, data: bytes) -> dict[str, Any] | None:
        """Check bytes; return the message in them, or None."""
        header = header_of(data)
        if header is None:
            self._report_no_frame(side, data)
            return None
        end, length = header
        report, got = partial(self._log.report, side=side), _shown(data[:end])
        if not _is_header(data[:end]):
            report("BASE-2", "only messages in the stream", got)
        elif length is None and _NAME.search(data[:end]):
            report("BASE-6", "the length of a body", got)
        elif not _PLAIN.fullmatch(data, 0, end):
            report("W-1", "`Content-Length` as the only header", got)
        if length is None:
            return None
        message = message_in(data[end:])
        if message is None or len(data) - end < length:
            self._report_no_message(side, data[end:], length)
        else:
            self._truncated.discard(side)
        return message

    def _report_no_frame(self, side: Side, data: bytes) -> None:
        if side in self._truncated:  # the rest of a frame with a wrong length
            return
        if _is_header(data):
            got = f"only its beginning, {_shown(data)}"
            self._log.report("BASE-6", "a complete message", got, side=side)
        else:
            self._log.report("BASE-2", "only messages in the stream", _shown(data), side=side)

    def _report_no_message(self, side: Side, body: bytes, length: int) -> None:
        if len(body) < length:
            got = f"{len(body)} bytes before the next header, or the end of the stream"
            self._log.report("BASE-6", f"a body of {length} bytes", got, side=side)
            return
        row, expected = _violation_of(body)
        if row == "BASE-6":
            self._truncated.add(side)
        self._log.report(row, expected, _shown(body), side=side)


def _is_header(data: bytes) -> bool:
    """Return whether bytes are header lines with uniform ends; the last may be incomplete."""
    *lines, last = data.split(b"\n")
    has_returns = {line.endswith(b"\r") for line in lines}
    names = [line.rstrip(b"\r") for line in (*lines, last)]
    named = [*filter(None, names)]
    return bool(named) and len(has_returns) < 2 and all(map(_HEADER_LINE.fullmatch, named))


def _violation_of(body: bytes) -> tuple[str, str]:
    if body.startswith(_BOM):
        return "W-1", "a body without a byte order mark"
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            return "BASE-6", "a Content-Length that counts bytes, not characters"
        return "W-5a", "a body in UTF-8"
    if holds_too_many_values(body):
        return "BASE-13", f"a body of at most {MAX_VALUES:,} values"
    return _violation_of_json(text)


def _violation_of_json(text: str) -> tuple[str, str]:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except _ConstantError:
        return "W-5d", "JSON numbers, neither NaN nor Infinity"
    except json.JSONDecodeError as error:
        is_cut = not text[error.pos :].strip() or "Unterminated" in error.msg
        if is_cut or error.msg == "Extra data":
            return "BASE-6", "a Content-Length equal to the length of the body"
        return "BASE-13", "a JSON body"
    except (RecursionError, ValueError):
        return "BASE-13", "a readable JSON body"
    if isinstance(value, dict):
        return "W-5g", "at most 128 levels of nesting"
    return "BASE-13", "one JSON-RPC 2.0 message"


class _ConstantError(Exception):
    """NaN or an infinity in JSON."""


def _refuse_constant(name: str) -> None:
    raise _ConstantError(name)


def _shown(data: bytes) -> str:
    return repr(data[:80])[1:] + ("..." if len(data) > 80 else "")
