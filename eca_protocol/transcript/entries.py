r"""The file format of a transcript, version 1: JSON Lines, and nothing that passed is lost in it.

The first line is `{"transcript":1,"started":TIME,"command":[...]}`, TIME in UTC by RFC 3339. Each
other line is one entry; `at` is in seconds since the start, when its last byte passed:

    {"at":0.012,"from":"client","message":{...}}   a message, its body as it passed
    {"at":0.013,"from":"server","raw":"..."}       bytes that are no message, as text
    {"at":0.013,"from":"server","base64":"..."}    the same where they are not UTF-8
    {"at":0.014,"from":"client","ended":true}      the end of what that side writes
    {"at":0.015,"exit":0}                          the server's exit code, negative for a signal

`message` stands last, and its bytes are those of the body. Where these and the one header that
ruling W-1 writes are not exactly what passed, `raw` or `base64` stands beside it and counts. An
entry with `"masked":true` lost what looked like a secret, and its exact bytes with it. A last line
without its end was cut by a crash and does not count.
"""

from __future__ import annotations

import base64
import binascii
import json as stdlib_json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_protocol import json
from eca_protocol.errors import LocalProtocolError
from eca_protocol.framing import encode_frame
from eca_protocol.transcript.cutter import header_of, message_in

__all__ = [
    "VERSION",
    "Ended",
    "Entry",
    "Exited",
    "Passed",
    "Side",
    "Transcript",
    "first_line",
    "line_of",
    "read_transcript",
]

VERSION: Final = 1

Side: TypeAlias = Literal["client", "server"]


@attrs.frozen(kw_only=True)
class Passed:
    """Bytes that one side wrote: one message, or something that is none.

    Attributes:
        at: seconds since the start, when the last of them passed.
        data: the bytes, header included.
        body: the body, if they are a message.
        masked: a secret was taken out of them.
    """

    at: float
    side: Side
    data: bytes
    body: bytes | None = None
    masked: bool = False

    @property
    def message(self) -> dict[str, Any] | None:
        """The message, if it is one."""
        return None if self.body is None else message_in(self.body)


@attrs.frozen(kw_only=True)
class Ended:
    """The end of what one side writes."""

    at: float
    side: Side


@attrs.frozen(kw_only=True)
class Exited:
    """The end of the server's process; a negative code is a signal."""

    at: float
    code: int


Entry: TypeAlias = Passed | Ended | Exited


@attrs.frozen(kw_only=True)
class Transcript:
    """A conversation as it was.

    Attributes:
        started: when it began, in UTC.
        command: what started the server; empty where that is not known.
    """

    started: datetime
    command: tuple[str, ...]
    entries: tuple[Entry, ...]

    def messages(self) -> Iterator[tuple[Side, dict[str, Any]]]:
        """Every message with the side that wrote it."""
        for entry in self.entries:
            if isinstance(entry, Passed) and (message := entry.message) is not None:
                yield entry.side, message


def first_line(started: datetime, command: Iterable[str]) -> bytes:
    """The line that says what the file is."""
    head = {"transcript": VERSION, "started": started.isoformat(), "command": list(command)}
    return json.dumps(head) + b"\n"


def line_of(entry: Entry) -> bytes:
    """An entry as its line, with its end."""
    if isinstance(entry, Exited):
        return b'{"at":%.6f,"exit":%d}\n' % (entry.at, entry.code)
    start = b'{"at":%.6f,"from":"%b"' % (entry.at, entry.side.encode())
    if isinstance(entry, Ended):
        return start + b',"ended":true}\n'
    if entry.masked:
        start += b',"masked":true'
    body = entry.body
    if body is None:
        return b"%b,%b}\n" % (start, _exactly(entry.data))
    if b"\n" in body or b"\r" in body:
        body = json.dumps(message_in(body))
    if encode_frame(body) != entry.data:
        start += b"," + _exactly(entry.data)
    return b'%b,"message":%b}\n' % (start, body)


def _exactly(data: bytes) -> bytes:
    try:
        return b'"raw":' + json.dumps(data.decode())
    except UnicodeDecodeError:
        return b'"base64":"%b"' % base64.b64encode(data)


_UNFIT = (KeyError, OverflowError, RecursionError, TypeError, ValueError, LocalProtocolError)
"""What reading raises for JSON that is none of ours; a message that cannot be written is local."""

_AS_WRITTEN = re.compile(
    rb'\{"at":(?P<at>[0-9]+\.[0-9]+),"from":"(?P<side>client|server)"(?P<masked>,"masked":true)?'
    rb',"message":'
)


def read_transcript(path: Path) -> Transcript:
    """Read a transcript; what other programs have reformatted is read too.

    Raises:
        ValueError: it is none, or not of this version; the text says where.
        OSError: the file cannot be read.
    """
    head, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]
    try:
        started, command = _beginning(_object(head))
    except _UNFIT as fault:
        raise ValueError(f"{path}:1: expected a transcript, got {fault}") from fault
    entries = []
    for number, line in enumerate(lines, 2):
        try:
            entries.append(_entry(line))
        except _UNFIT as fault:
            raise ValueError(f"{path}:{number}: expected an entry, got {fault}") from fault
    return Transcript(started=started, command=command, entries=tuple(entries))


def _beginning(head: Mapping[str, Any]) -> tuple[datetime, tuple[str, ...]]:
    version = head["transcript"]
    if version != VERSION:
        raise ValueError(f"version {version}, and not {VERSION}")
    return datetime.fromisoformat(head["started"]), tuple(head.get("command") or ())


def _entry(line: bytes) -> Entry:
    found = _AS_WRITTEN.match(line)
    body = line[found.end() : -1] if found else b""
    if found is None or message_in(body) is None:
        return _reformatted(_object(line))
    side: Side = "client" if found["side"] == b"client" else "server"
    return Passed(
        at=float(found["at"]),
        side=side,
        data=encode_frame(body),
        body=body,
        masked=found["masked"] is not None,
    )


def _reformatted(value: Mapping[str, Any]) -> Entry:
    at = float(value["at"])
    if "exit" in value:
        return Exited(at=at, code=int(value["exit"]))
    side = value["from"]
    if side not in {"client", "server"}:
        raise ValueError(f"{side!r} as the side")
    if value.get("ended"):
        return Ended(at=at, side=side)
    body = json.dumps(value["message"]) if "message" in value else None
    data = encode_frame(body) if body is not None else b""
    if "raw" in value or "base64" in value:
        data = _data(value)
        header = header_of(data)
        body = data[header[0] :] if header and body is not None else None
    elif body is None:
        raise ValueError("neither a message nor bytes")
    return Passed(at=at, side=side, data=data, body=body, masked=bool(value.get("masked")))


def _data(value: Mapping[str, Any]) -> bytes:
    if "raw" in value:
        return str(value["raw"]).encode()
    try:
        return base64.b64decode(value["base64"], validate=True)
    except binascii.Error as fault:
        raise ValueError(f"base64: {fault}") from fault


def _object(line: bytes) -> dict[str, Any]:
    value = stdlib_json.loads(line)  # a line nests one level deeper than our own reader takes
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, got {type(value).__name__}")
    return value
