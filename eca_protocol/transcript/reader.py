"""The reader of transcripts, including those that are still being written."""

from __future__ import annotations

import base64
import binascii
import json as stdlib_json
import math
import os
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from eca_protocol import json
from eca_protocol.errors import LocalProtocolError
from eca_protocol.framing import encode_frame
from eca_protocol.transcript.entries import (
    VERSION,
    DataEntry,
    EndEntry,
    Entry,
    ExitEntry,
    Side,
    Transcript,
)
from eca_protocol.transcript.splitter import header_of, message_in

_INVALID = (KeyError, OverflowError, RecursionError, TypeError, ValueError, LocalProtocolError)
"""The exceptions for JSON that is no entry; LocalProtocolError: its message cannot be written."""

_AS_WRITTEN = re.compile(
    rb'\{"at":(?P<at>[0-9]{1,15}\.[0-9]+),"from":"(?P<side>client|server)"(?P<masked>,"masked":true)?'
    rb',"message":'
)


def read_transcript(path: str | os.PathLike[str]) -> Transcript:
    """Read a transcript, also one that a different program has reformatted.

    Raises:
        ValueError: the file is no transcript of this version; the message names the line.
        OSError: the file cannot be read.
    """
    path = Path(path)
    reader = TranscriptReader(str(path))
    entries = tuple(reader.feed(path.read_bytes() or b"\n"))
    started = reader.started
    if started is None:
        raise ValueError(f"{path}:1: expected a transcript, got a line without its end")
    return Transcript(started=started, command=reader.command, entries=entries)


class TranscriptReader:
    """An incremental reader of a transcript.

    Attributes:
        started: the start of the conversation; None before the first line.
        command: the command that started the server.

    Args:
        name: the transcript's name in errors.
        max_first_line: the limit of the first line, in bytes.
    """

    def __init__(self, name: str, *, max_first_line: int = 2**24) -> None:
        self.started: datetime | None = None
        self.command: tuple[str, ...] = ()
        self._name = name
        self._max_first_line = max_first_line
        self._line = 0
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Entry]:
        """Take the next bytes; yield the entries whose lines they complete.

        The iterator has to be exhausted.

        Raises:
            ValueError: the file is no transcript of this version; the message names the line.
        """
        self._rest += data
        if b"\n" not in data:
            if self.started is None and len(self._rest) > self._max_first_line:
                raise ValueError(f"{self._name}:1: expected a transcript, got no end of the line")
            return
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            self._line += 1
            expected = "a transcript" if self.started is None else "an entry"
            try:
                if self.started is None:
                    self.started, self.command = _beginning(_object(line))
                else:
                    yield _entry(line)
            except _INVALID as error:
                place = f"{self._name}:{self._line}"
                got = f"no member {error}" if isinstance(error, KeyError) else error
                raise ValueError(f"{place}: expected {expected}, got {got}") from error


def _beginning(head: Mapping[str, Any]) -> tuple[datetime, tuple[str, ...]]:
    version = head["transcript"]
    if version != VERSION:
        raise ValueError(f"version {version}, and not {VERSION}")
    command = head.get("command") or []
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise ValueError("no list of texts as the command")
    return datetime.fromisoformat(head["started"]), tuple(command)


def _entry(line: bytes) -> Entry:
    match = _AS_WRITTEN.match(line)
    body = line[match.end() : -1] if match else b""
    if match is None or message_in(body) is None:
        return _reformatted(_object(line))
    side: Side = "client" if match["side"] == b"client" else "server"
    return DataEntry(
        at=float(match["at"]),
        side=side,
        data=encode_frame(body),
        body=body,
        masked=match["masked"] is not None,
    )


def _reformatted(value: Mapping[str, Any]) -> Entry:
    at = float(value["at"])
    if not math.isfinite(at):
        raise ValueError(f"{at} as the time")
    if "exit" in value:
        return ExitEntry(at=at, code=int(value["exit"]))
    side = value["from"]
    if side not in {"client", "server"}:
        raise ValueError(f"{side!r} as the side")
    if value.get("ended"):
        return EndEntry(at=at, side=side)
    body = json.dumps(value["message"]) if "message" in value else None
    data = encode_frame(body) if body is not None else b""
    if "raw" in value or "base64" in value:
        data = _data(value)
        header = header_of(data)
        body = data[header[0] :] if header and body is not None else None
        if body is not None and message_in(body) is None:
            body = None
    elif body is None:
        raise ValueError("neither a message nor bytes")
    return DataEntry(at=at, side=side, data=data, body=body, masked=bool(value.get("masked")))


def _data(value: Mapping[str, Any]) -> bytes:
    if "raw" in value:
        return str(value["raw"]).encode()
    try:
        return base64.b64decode(value["base64"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"base64: {error}") from error


def _object(line: bytes) -> dict[str, Any]:
    if json.holds_too_many_values(line):
        raise ValueError(f"expected at most {json.MAX_VALUES:,} values in a line, got more")
    try:
        value = stdlib_json.loads(line)  # a line nests one level deeper than our reader allows
    except UnicodeDecodeError as error:
        byte = error.object[error.start]  # of the line without its byte order mark
        raise ValueError(f"the byte 0x{byte:02x}, which is not UTF-8") from error
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, got {type(value).__name__}")
    return value
