"""Server-sent events in both directions, by the WHATWG standard, without I/O.

The decoder splits lines at CR, LF and CRLF only, since JSON may contain Unicode's other line
separators unescaped. It differs from the standard in one point: at the end of the stream it
returns an event that has data even without its blank line, since some servers omit that line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from eca_protocol.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["SSEDecoder", "SSEvent", "encode_comment", "encode_event"]

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(r"\r\n|\r|\n")
_PLAIN_EVENT = re.compile(
    rb"(?:event: ?([^\r\n]*)\r?\n)?data: ?([^\r\n]*)\r?\n\r?\n"
)  # the form of most events that models send
_BLANK_LINE = re.compile(rb"\n\r?\n")
_MAX_RETRY_DIGITS = 15


class SSEvent(NamedTuple):
    """One event.

    Attributes:
        event: its name; `message` by default.
        data: its data lines, joined by LF.
        id: the last id in the stream, from this event or an earlier one; None before any.
        retry: the delay before a reconnection in this event, in milliseconds.
    """

    event: str
    data: str
    id: str | None = None
    retry: int | None = None


class SSEDecoder:
    """A decoder of an event stream; its output does not depend on the size of the chunks.

    Bytes that are not UTF-8 become U+FFFD, as the standard says. Comments are dropped: a caller
    with an idle timeout has to watch the bytes, not the events.

    Args:
        max_event: the limit of one event's data and of one line, in bytes.

    Attributes:
        last_event_id: the value of `Last-Event-ID` for a reconnection; None before any id.
        retry: the delay before a reconnection, in milliseconds; None before the stream sets it.
    """

    def __init__(self, *, max_event: int = 16 * 2**20) -> None:
        self.last_event_id: str | None = None
        self.retry: int | None = None
        self._max_event = max_event
        self._error: RemoteProtocolError | None = None
        self._closed = False
        self._at_start = True
        self._after_cr = False  # a LF at the start belongs to the previous line end
        self._line = bytearray()  # the incomplete line
        self._id: str | None = None
        self._event = b""
        self._data: list[bytes] = []
        self._data_size = 0
        self._retry: int | None = None

    def feed(self, data: bytes) -> list[SSEvent]:
        """Take the next bytes; return the events that they complete.

        Raises:
            RemoteProtocolError: an event exceeds the limit; raised after the events before it
                have been returned, and by every later call.
            LocalProtocolError: the decoder was closed.
        """
        if self._closed:
            raise LocalProtocolError("expected no bytes after the end of the stream, got some")
        if self._error:
            raise self._error
        if not data:
            return []
        after_cr, self._after_cr = self._after_cr, data.endswith(b"\r")
        if after_cr and data.startswith(b"\n"):
            data = data[1:]
        events: list[SSEvent] = []
        position = 0
        while position < len(data) and not self._error:
            if not self._has_begun():
                position = self._take_plain(data, position, events)
            blank = _BLANK_LINE.search(data, position)
            end = blank.end() if blank else len(data)
            self._take_bytes(data[position:end], events)
            position = end
        if self._error and not events:
            raise self._error
        return events

    def close(self) -> list[SSEvent]:
        """Take the end of the stream; return the incomplete event if it has data.

        An incomplete line counts only if it is data: half an id would name a different event.

        Raises:
            RemoteProtocolError: an event exceeds the limit.
        """
        if self._closed:
            return []
        self._closed = True
        cut = bytes(self._line)
        self._line.clear()
        name, _, _ = cut.removeprefix(_BOM).partition(b":")
        lines = [cut] if name == b"data" else []
        events: list[SSEvent] = []
        self._take_lines([*lines, b""] if lines or self._data else [], events)
        if self._error and not events:
            raise self._error
        return events

    def _has_begun(self) -> bool:
        """Return True if an event is incomplete, or the stream is at its start."""
        return bool(
            self._at_start or self._line or self._data or self._event or self._retry is not None
        )

    def _take_plain(self, data: bytes, position: int, events: list[SSEvent]) -> int:
        """Take whole events with one data line each; return the position after them."""
        make = tuple.__new__  # twice as fast as a call of the class
        match, append, last_id = _PLAIN_EVENT.match, events.append, self._id
        raw_name, name = None, "message"
        while (event_match := match(data, position)) is not None:
            end = event_match.end()
            if end - position > self._max_event:
                break
            new_name, text = event_match.groups()
            if new_name != raw_name:
                raw_name = new_name
                name = new_name.decode("utf-8", "replace") if new_name else "message"
            append(make(SSEvent, (name, text.decode("utf-8", "replace"), last_id, None)))
            position = end
        if events:
            self.last_event_id = last_id
        return position

    def _take_bytes(self, data: bytes, events: list[SSEvent]) -> None:
        lines = data.splitlines()
        rest = lines.pop() if lines and not data.endswith((b"\n", b"\r")) else b""
        if lines and self._line:
            lines[0] = bytes(self._line) + lines[0]
            self._line.clear()
        self._line += rest
        self._take_lines(lines, events)

    def _take_lines(self, lines: list[bytes], events: list[SSEvent]) -> None:
        for line in lines:
            if len(line) > self._max_event or self._error:
                self._fail()
                break
            if self._at_start:
                self._at_start = False
                line = line.removeprefix(_BOM)  # noqa: PLW2901  # the same line, bare
            if line:
                self._take_field(line)
                continue
            self.last_event_id = self._id
            if self._data:
                events.append(self._event_so_far())
                self._data = []
                self._data_size = 0
            self._event = b""
            self._retry = None
        if len(self._line) > self._max_event:
            self._fail()

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._data_size += len(value) + 1
            if self._data_size > self._max_event:
                self._fail()
        elif name == b"event":
            self._event = value
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            self._retry = self.retry = int(value)

    def _event_so_far(self) -> SSEvent:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        return SSEvent(
            event=self._event.decode("utf-8", "replace") if self._event else "message",
            data=data.decode("utf-8", "replace"),
            id=self._id,
            retry=self._retry,
        )

    def _fail(self) -> None:
        self._error = self._error or RemoteProtocolError(
            f"expected an event of at most {self._max_event} bytes, got more", fatal=True
        )


def encode_event(data: str, *, event: str | None = None, id: str | None = None) -> bytes:  # noqa: A002  # the field's own name
    """Return the bytes of one event; line ends in `data` are written as LF.

    Raises:
        LocalProtocolError: `event` or `id` contains a line end, `id` contains a NUL (readers ignore
            such an id), or a text is not Unicode.
    """
    if event is not None and _LINE_END.search(event):
        raise LocalProtocolError(f"event: expected one line, got {event!r}")
    if id is not None and (_LINE_END.search(id) or "\0" in id):
        raise LocalProtocolError(f"id: expected one line without NUL, got {id!r}")
    fields = [("event", event), ("id", id), *(("data", line) for line in _LINE_END.split(data))]
    lines = [f"{name}: {value}\n" for name, value in fields if value is not None]
    return _encoded("".join([*lines, "\n"]))


def encode_comment(text: str) -> bytes:
    """Return the bytes of a comment, which readers ignore; it keeps the connection alive.

    Raises:
        LocalProtocolError: the text is not Unicode.
    """
    return _encoded("".join([*(f": {line}\n" for line in _LINE_END.split(text)), "\n"]))


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        got = f"a lone surrogate at position {error.start}"
        raise LocalProtocolError(f"expected Unicode text, got {got}") from None
