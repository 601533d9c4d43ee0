r"""The file format of a transcript, version 1: JSON Lines without loss of any byte.

The first line is `{"transcript":1,"started":TIME,"command":[...]}`, TIME in UTC by RFC 3339. Each
other line is one entry; `at` is the time of its last byte, in seconds since the start:

    {"at":0.012,"from":"client","message":{...}}   a message with its exact body
    {"at":0.013,"from":"server","raw":"..."}       bytes that are no message, as text
    {"at":0.013,"from":"server","base64":"..."}    bytes that are no message and not UTF-8
    {"at":0.014,"from":"client","ended":true}      the end of that side's stream
    {"at":0.015,"exit":0}                          the server's exit code, negative for a signal

`message` is the last key, and its bytes are those of the body. If the recorded bytes differ from
this body with the header of ruling W-1, `raw` or `base64` contains them and takes precedence. In an
entry with `"masked":true` possible secrets were masked, so its exact bytes are unknown. A last line
without its end was cut by a crash and is ignored. The writer of a file locks it (`lock_file`).
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

VERSION: Final = 1

Side: TypeAlias = Literal["client", "server"]

Mask: TypeAlias = Callable[[bytes], bytes]
"""A function that masks the secrets in a message's body, or in bytes that are no message."""


@attrs.frozen(kw_only=True)
class DataEntry:
    """Bytes that one side wrote: a message, or bytes that are no message.

    Attributes:
        at: the time of the last byte, in seconds since the start.
        data: the bytes, including a header.
        body: the body of a message.
        masked: a secret was masked in the bytes.
    """

    at: float
    side: Side
    data: bytes
    body: bytes | None = None
    masked: bool = False

    @property
    def message(self) -> dict[str, Any] | None:
        """The message, or None."""
        return None if self.body is None else message_in(self.body)


@attrs.frozen(kw_only=True)
class EndEntry:
    """The end of the stream of one side."""

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
    """A recorded conversation.

    Attributes:
        started: the time of its start, in UTC.
        command: the command that started the server; empty if unknown.
    """

    started: datetime
    command: tuple[str, ...]
    entries: tuple[Entry, ...]

    def messages(self) -> Iterator[tuple[Side, dict[str, Any]]]:
        """Yield every message with the side that wrote it."""
        for entry in self.entries:
            if isinstance(entry, DataEntry) and (message := entry.message) is not None:
                yield entry.side, message


def encode_header(started: datetime, command: Iterable[str]) -> bytes:
    """Return the first line of a file."""
    head = {"transcript": VERSION, "started": started.isoformat(), "command": list(command)}
    return json.dumps(head) + b"\n"


def encode_entry(entry: Entry) -> bytes:
    """Return the line of an entry, with its line end."""
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
    """Return an entry with its secrets masked; without secrets, the entry itself."""
    if entry.body is None:
        masked = mask(entry.data)
        return entry if masked == entry.data else _masked_entry(entry, masked, None)
    body = mask(entry.body)
    if body != entry.body:
        return _masked_entry(entry, encode_frame(body), body)
    if entry.data == encode_frame(body):
        return entry
    header = entry.data.removesuffix(body)
    masked = mask(header)  # it may contain other lines than those of a header
    return entry if masked == header else _masked_entry(entry, masked + body, body)


def _masked_entry(entry: DataEntry, data: bytes, body: bytes | None) -> DataEntry:
    return DataEntry(at=entry.at, side=entry.side, data=data, body=body, masked=True)
