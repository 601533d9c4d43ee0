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
without its end was cut by a crash and does not count. While a file is written its writer holds the
lock of `lock_file`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_protocol import json
from eca_protocol.framing import encode_frame
from eca_protocol.transcript.splitter import message_in

__all__ = [
    "VERSION",
    "DataEntry",
    "EndEntry",
    "Entry",
    "ExitEntry",
    "Mask",
    "Side",
    "Transcript",
    "encode_entry",
    "encode_header",
    "mask_entry",
]

VERSION: Final = 1

Side: TypeAlias = Literal["client", "server"]

Mask: TypeAlias = Callable[[bytes], bytes]
"""What may be kept of a message's body, or of bytes that are no message."""


@attrs.frozen(kw_only=True)
class DataEntry:
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
class EndEntry:
    """The end of what one side writes."""

    at: float
    side: Side


@attrs.frozen(kw_only=True)
class ExitEntry:
    """The end of the server's process; a negative code is a signal."""

    at: float
    code: int


Entry: TypeAlias = DataEntry | EndEntry | ExitEntry


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
            if isinstance(entry, DataEntry) and (message := entry.message) is not None:
                yield entry.side, message


def encode_header(started: datetime, command: Iterable[str]) -> bytes:
    """The line that says what the file is."""
    head = {"transcript": VERSION, "started": started.isoformat(), "command": list(command)}
    return json.dumps(head) + b"\n"


def encode_entry(entry: Entry) -> bytes:
    """An entry as its line, with its end."""
    if isinstance(entry, ExitEntry):
        return b'{"at":%.6f,"exit":%d}\n' % (entry.at, entry.code)
    start = b'{"at":%.6f,"from":"%b"' % (entry.at, entry.side.encode())
    if isinstance(entry, EndEntry):
        return start + b',"ended":true}\n'
    if entry.masked:
        start += b',"masked":true'
    body = entry.body
    if body is None:
        return b"%b,%b}\n" % (start, _exact_bytes(entry.data))
    if b"\n" in body or b"\r" in body:
        body = json.dumps(message_in(body))
    if encode_frame(body) != entry.data:
        start += b"," + _exact_bytes(entry.data)
    return b'%b,"message":%b}\n' % (start, body)


def _exact_bytes(data: bytes) -> bytes:
    try:
        return b'"raw":' + json.dumps(data.decode())
    except UnicodeDecodeError:
        return b'"base64":"%b"' % base64.b64encode(data)


def mask_entry(entry: DataEntry, mask: Mask) -> DataEntry:
    """What may be kept of an entry; where that is all of it, the entry itself."""
    if entry.body is None:
        masked = mask(entry.data)
        return entry if masked == entry.data else _masked_entry(entry, masked, None)
    body = mask(entry.body)
    if body != entry.body:
        return _masked_entry(entry, encode_frame(body), body)
    if entry.data == encode_frame(body):
        return entry
    header = entry.data.removesuffix(body)
    masked = mask(header)  # lines that are none of a header's may stand there, too
    return entry if masked == header else _masked_entry(entry, masked + body, body)


def _masked_entry(entry: DataEntry, data: bytes, body: bytes | None) -> DataEntry:
    return DataEntry(at=entry.at, side=entry.side, data=data, body=body, masked=True)
