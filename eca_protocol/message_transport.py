"""Messages under a `Peer`: decoded JSON values in both directions.

A `MessageTransport` carries messages; an HTTP exchange is one by itself. A `StreamTransport` makes
one of a byte stream: it frames, parses each message once, and queues what is to be written (design
decision 11).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from eca_protocol import json
from eca_protocol.errors import RemoteProtocolError
from eca_protocol.framing import (
    CONTENT_LENGTH,
    ContentLengthDecoder,
    FrameError,
    FrameErrorKind,
    Frames,
    Framing,
)
from eca_protocol.outbox import Outbox, WriteShape
from eca_protocol.streams import Transport

__all__ = ["MessageTransport", "Reader", "StreamTransport", "read_strictly"]

DRAINED = 65_536
"""The limit of unsent bytes below which `drain()` returns."""

CLOGGED = 64 * 2**20
"""The limit of unwritten bytes above which a stream is not read."""

_TRUNCATED: Final = frozenset({FrameErrorKind.EOF_IN_HEADER, FrameErrorKind.EOF_IN_BODY})

_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
"""An escaped U+0000 in a JSON text: an even number of backslashes is in front of it."""

_DIGITS_TO_ZEROS = bytes(0x30 if each in b"0123456789" else 0x20 for each in range(256))
"""A table for the search for many digits; a regular expression takes several times as long."""

_STRING_OR_NUMBER = re.compile(
    rb'"(?:[^"\\]+|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?', re.DOTALL
)

Reader: TypeAlias = Callable[[Frames], Sequence[Any]]
"""A function from frames to messages, with a `RemoteProtocolError` in place of an invalid one."""


class MessageTransport(Protocol):
    """A two-way stream of messages."""

    @property
    def closed(self) -> bool:
        """True if messages are dropped instead of sent."""
        ...

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; a plain call that never waits. A closed transport drops it.

        Raises:
            LocalProtocolError: the message is not JSON; nothing was sent.
        """
        ...

    async def receive(self) -> Sequence[Any]:
        """Return the next messages, in order; none at the end of the stream.

        In place of an invalid message comes a `RemoteProtocolError`; if it is fatal, it is the
        last one, and it is an `EOFError`, too, if the stream ended inside a message.

        Raises:
            OSError: reading failed.
        """
        ...

    async def run(self) -> None:
        """Do the work of sending until cancelled.

        Raises:
            OSError: sending failed, and the transport is closed.
        """
        ...

    async def drain(self, size: int = DRAINED) -> None:
        """Wait until at most `size` bytes are unsent, or the transport is closed.

        For sources of much data, between two messages.
        """
        ...

    async def aclose(self) -> None:
        """Drop the unsent messages, and close both directions."""
        ...


class _Truncated(RemoteProtocolError, EOFError):
    """The end of the stream inside a message."""


class StreamTransport:
    """A `MessageTransport` over a byte stream, which it closes.

    Args:
        stream: the byte stream.
        framing: the framing of its messages.
        duplicate_keys: the treatment of duplicate keys in an object (ruling W-5).
        read: reads frames in place of strict JSON.
    """

    def __init__(
        self,
        stream: Transport,
        *,
        framing: Framing = CONTENT_LENGTH,
        duplicate_keys: json.DuplicateKeys = "last",
        read: Reader | None = None,
        shape: WriteShape | None = None,
    ) -> None:
        self._stream = stream
        self._decoder = framing.decoder()
        self._frame = framing.encode
        self._read = read or partial(read_strictly, duplicate_keys=duplicate_keys)
        self._outbox = Outbox(stream)
        if shape is not None:
            self._outbox.shape = shape

    @property
    def shape(self) -> WriteShape:
        """The grouping of frames into writes; may be replaced at any time."""
        return self._outbox.shape

    @shape.setter
    def shape(self, shape: WriteShape) -> None:
        self._outbox.shape = shape

    @property
    def closed(self) -> bool:
        """True if messages are dropped instead of written."""
        return self._outbox.closed

    @property
    def incomplete_header(self) -> str:
        """The received beginning of a header, escaped for display; empty: there is none."""
        decoder = self._decoder
        return decoder.incomplete_header if isinstance(decoder, ContentLengthDecoder) else ""

    def send(self, message: Mapping[str, Any]) -> None:
        """Append a message to the outbox."""
        text = json.dumps(message)
        if self.shape.limits_values and (limited := _limited(text)) != text:
            request_id = json.dumps(message.get("id"))  # returned unchanged: its sender reads it
            text = limited if _limited(request_id) == request_id else text
        frame = self._frame(text)
        self._outbox.append(frame, is_answer="method" not in message)

    async def receive(self) -> Sequence[Any]:
        """Return the messages that the next bytes complete; wait while too much is unwritten."""
        while not self._decoder.closed:
            if self._outbox.size > CLOGGED:
                await self._outbox.wait_below(CLOGGED)
            data = await self._stream.receive()
            messages = self._read(self._decoder.feed(data) if data else self._decoder.feed_eof())
            if messages:
                return messages
        return ()

    async def run(self) -> None:
        """Write what is appended."""
        await self._outbox.run()

    async def drain(self, size: int = DRAINED) -> None:
        """Wait until at most `size` bytes are unwritten, or writing has failed."""
        if self._outbox.size > size:
            await self._outbox.wait_below(size)

    async def aclose(self) -> None:
        """Drop the unwritten messages, and close the stream."""
        self._outbox.close()
        await self._stream.aclose()


def _limited(text: bytes) -> bytes:
    """Return a JSON text without U+0000 and without integers of more than 64 bits."""
    if b"\\u0000" in text:
        text = _NUL.sub(rb"\1\\ufffd", text)
    if 19 * b"0" in text.translate(_DIGITS_TO_ZEROS):
        text = _STRING_OR_NUMBER.sub(_limited_value, text)
    return text


def _limited_value(match: re.Match[bytes]) -> bytes:
    value = match[0]
    digits = value.lstrip(b"-")
    if len(digits) < 19 or not digits.isdigit():
        return value
    is_small = len(digits) == 19 and -(2**63) <= int(value) < 2**63
    return value if is_small else b'"%b"' % value


def read_strictly(frames: Frames, *, duplicate_keys: json.DuplicateKeys = "last") -> list[Any]:
    """Return the messages in frames: strict JSON, with an error in place of an invalid one."""
    texts = [frame for frame in frames if isinstance(frame, bytes)]
    values = json.loads_each(texts, duplicate_keys=duplicate_keys)
    if len(texts) == len(frames):
        return values
    in_order = iter(values)
    return [_error(frame) if isinstance(frame, FrameError) else next(in_order) for frame in frames]


def _error(error: FrameError) -> RemoteProtocolError:
    kind = _Truncated if error.kind in _TRUNCATED else RemoteProtocolError
    return kind(error.message, code=error.code, fatal=error.fatal)
