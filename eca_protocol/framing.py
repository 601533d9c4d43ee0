"""Where one message ends and the next begins, in a stream of bytes. No I/O.

Two framings with one face: Content-Length headers, which ECA uses, and one message a line, which
ECP uses on stdio. A decoder is fed bytes as they come, in pieces of any size, and gives bodies
and faults in their order; the same bytes give the same output however they are cut, in linear
time, and nothing is allocated for bytes that have not come.

What a fault means is in one table, `FRAME_ERRORS`. After a recoverable one the decoder has skipped the
message and goes on; after a fatal one it is closed, since nothing says where a message begins.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

import attrs

from eca_protocol.errors import INVALID_REQUEST, PARSE_ERROR, LocalProtocolError

__all__ = [
    "CONTENT_LENGTH",
    "FRAME_ERRORS",
    "LINES",
    "MAX_BODY",
    "MAX_HEADER",
    "MAX_SKIP",
    "ContentLengthDecoder",
    "FrameDecoder",
    "FrameError",
    "FrameErrorKind",
    "FrameErrorRule",
    "Frames",
    "Framing",
    "LineDecoder",
    "encode_frame",
    "encode_line",
]

MAX_BODY: Final = 64 * 2**20
MAX_HEADER: Final = 8192
MAX_SKIP: Final = 2**30

_MIN_MAX_HEADER = 64  # the shortest limit that a header block as we write it always fits
_MAX_LENGTH_DIGITS = 18


class FrameErrorKind(enum.Enum):
    """What can be wrong with a frame."""

    MISSING_LENGTH = "missing length"
    NEGATIVE_LENGTH = "negative length"
    SIGNED_LENGTH = "signed length"
    HEX_LENGTH = "hexadecimal length"
    NON_ASCII_DIGITS = "non-ASCII digits"
    NOT_A_NUMBER = "length not a number"
    TOO_MANY_DIGITS = "too many digits"
    TWO_LENGTHS = "two different lengths"
    HEADER_TOO_LONG = "header too long"
    BEYOND_SKIPPING = "body too long to be skipped"
    EOF_IN_HEADER = "end of stream in a header"
    EOF_IN_BODY = "end of stream in a body"
    BODY_TOO_LONG = "body too long"
    FOREIGN_CHARSET = "foreign charset"
    NON_ASCII_HEADER = "non-ASCII header"
    HEADER_WITHOUT_COLON = "header line without colon"
    LINE_TOO_LONG = "line too long"


@attrs.frozen(kw_only=True)
class FrameErrorRule:
    """What follows from a kind of fault.

    Attributes:
        fatal: whether the stream is beyond use; else the message is skipped and the next is read.
        code: the JSON-RPC error code it is answered with; the id is null.
        expected: what should have come, in words.
    """

    fatal: bool
    code: int
    expected: str


def _fatal(expected: str, *, code: int = PARSE_ERROR) -> FrameErrorRule:
    return FrameErrorRule(fatal=True, code=code, expected=expected)


def _skipped(expected: str, *, code: int = PARSE_ERROR) -> FrameErrorRule:
    return FrameErrorRule(fatal=False, code=code, expected=expected)


_A_LENGTH = "Content-Length to be a decimal number of bytes"

FRAME_ERRORS: Final[Mapping[FrameErrorKind, FrameErrorRule]] = MappingProxyType(
    {
        FrameErrorKind.MISSING_LENGTH: _fatal("a Content-Length header"),
        FrameErrorKind.NEGATIVE_LENGTH: _fatal(_A_LENGTH),
        FrameErrorKind.SIGNED_LENGTH: _fatal(_A_LENGTH),
        FrameErrorKind.HEX_LENGTH: _fatal(_A_LENGTH),
        FrameErrorKind.NON_ASCII_DIGITS: _fatal(_A_LENGTH),
        FrameErrorKind.NOT_A_NUMBER: _fatal(_A_LENGTH),
        FrameErrorKind.TOO_MANY_DIGITS: _fatal(
            f"Content-Length to have at most {_MAX_LENGTH_DIGITS} digits"
        ),
        FrameErrorKind.TWO_LENGTHS: _fatal("one Content-Length"),
        FrameErrorKind.HEADER_TOO_LONG: _fatal("a header block within its limit"),
        FrameErrorKind.BEYOND_SKIPPING: _fatal("a body within its limit", code=INVALID_REQUEST),
        FrameErrorKind.EOF_IN_HEADER: _fatal("the rest of a header block"),
        FrameErrorKind.EOF_IN_BODY: _fatal("the rest of a body"),
        FrameErrorKind.BODY_TOO_LONG: _skipped("a body within its limit", code=INVALID_REQUEST),
        FrameErrorKind.FOREIGN_CHARSET: _skipped("charset utf-8"),
        FrameErrorKind.NON_ASCII_HEADER: _skipped("headers in ASCII"),
        FrameErrorKind.HEADER_WITHOUT_COLON: _skipped("header lines `name: value`"),
        FrameErrorKind.LINE_TOO_LONG: _skipped("a line within its limit", code=INVALID_REQUEST),
    }
)


@attrs.frozen(kw_only=True)
class FrameError:
    """One fault in the stream; holds all that an answer with id null needs."""

    kind: FrameErrorKind
    got: str

    @property
    def fatal(self) -> bool:
        """Whether the stream is beyond use after it."""
        return FRAME_ERRORS[self.kind].fatal

    @property
    def code(self) -> int:
        """The JSON-RPC error code that it deserves."""
        return FRAME_ERRORS[self.kind].code

    @property
    def message(self) -> str:
        """For a person: what was expected and what came."""
        return f"expected {FRAME_ERRORS[self.kind].expected}, got {self.got}"


Frames: TypeAlias = list[bytes | FrameError]
"""What a decoder gives: bodies and faults, in the order of the stream."""


class FrameDecoder(Protocol):
    """Bytes in, bodies and faults out, in the order of the stream."""

    def feed(self, data: bytes) -> Frames:
        """Take the next bytes; give what they complete."""
        ...

    def feed_eof(self) -> Frames:
        """Take the end of the stream; give what it completes or cuts short."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the stream has ended, by a fatal fault or by `feed_eof`."""
        ...


@attrs.frozen(kw_only=True)
class Framing:
    """How messages are cut from a stream and put into one: what a transport needs to know."""

    decoder: Callable[[], FrameDecoder]
    encode: Callable[[bytes], bytes]


def encode_frame(body: bytes) -> bytes:
    """A body with its header, exactly as ruling W-1 writes it."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def encode_line(body: bytes) -> bytes:
    """A body as one line.

    Raises:
        LocalProtocolError: it holds a line end, which JSON as this package writes it never does.
    """
    if b"\n" in body or b"\r" in body:
        raise LocalProtocolError("expected a body without line ends, got one with a line end")
    return body + b"\n"


class ContentLengthDecoder:
    """Cuts a stream framed by Content-Length headers (specification, Base Protocol).

    Read are header names in any case, white space around values, headers in any order, unknown
    headers, bare LF line ends, blank lines before a header, and the same length given twice.

    Args:
        max_body: the longest body that is given, in bytes; a longer one is skipped.
        max_header: the longest header block, in bytes.
        max_skip: the longest body that is skipped, in bytes; a longer one is a fatal fault.
    """

    # The header that nearly all writers write, whole. Nine digits can always be read.
    _PLAIN_HEADER = re.compile(rb"Content-Length: ([0-9]{1,9})\r\n\r\n")

    def __init__(
        self,
        *,
        max_body: int = MAX_BODY,
        max_header: int = MAX_HEADER,
        max_skip: int = MAX_SKIP,
    ) -> None:
        if max_header < _MIN_MAX_HEADER:
            raise ValueError(f"max_header: expected {_MIN_MAX_HEADER} or more, got {max_header}")
        self._max_body = max_body
        self._max_header = max_header
        self._max_skip = max_skip
        self._closed = False
        self._line = bytearray()  # the header line that has begun
        self._block: list[bytes] = []  # the complete lines of the header that has begun
        self._block_size = 0
        self._body = bytearray()  # the body that has begun
        self._missing = 0  # bytes of it that have not come
        self._to_skip = 0  # bytes of a refused body that have not come

    @property
    def closed(self) -> bool:
        """Whether the stream has ended, by a fatal fault or by `feed_eof`."""
        return self._closed

    def feed(self, data: bytes) -> Frames:
        """Take the next bytes; give the bodies and faults that they complete.

        Raises:
            LocalProtocolError: the decoder is closed.
        """
        if self._closed:
            raise LocalProtocolError("expected no bytes after the end of the stream, got some")
        output: Frames = []
        position, end = 0, len(data)
        while position < end and not self._closed:
            if self._missing:
                position = self._take_body(data, position, output)
            elif self._to_skip:
                skipped = min(self._to_skip, end - position)
                self._to_skip -= skipped
                position += skipped
            elif self._line or self._block:
                position = self._take_header_line(data, position, output)
            else:
                position = self._take_plain_frames(data, position, output)
        return output

    def feed_eof(self) -> Frames:
        """Take the end of the stream; a message that it cuts short is a fatal fault."""
        if self._closed:
            return []
        self._closed = True
        if self._missing or self._to_skip:
            got = f"the end of the stream with {self._missing or self._to_skip} bytes to come"
            return [FrameError(kind=FrameErrorKind.EOF_IN_BODY, got=got)]
        if self._line or self._block:
            return [FrameError(kind=FrameErrorKind.EOF_IN_HEADER, got="the end of the stream")]
        return []

    def _take_plain_frames(self, data: bytes, position: int, output: Frames) -> int:
        """Take whole frames that look as everybody writes them; leave the rest to the others."""
        header = self._PLAIN_HEADER.match(data, position)
        while header:
            length = int(header[1])
            start = header.end()
            stop = start + length
            if length > self._max_body:
                break
            if stop > len(data):
                self._missing = length
                return start
            output.append(data[start:stop])
            position = stop
            header = self._PLAIN_HEADER.match(data, position)
        return self._take_header_line(data, position, output)

    def _take_body(self, data: bytes, position: int, output: Frames) -> int:
        part = data[position : position + self._missing]
        self._body += part
        self._missing -= len(part)
        if not self._missing:
            output.append(bytes(self._body))
            self._body = bytearray()
        return position + len(part)

    def _take_header_line(self, data: bytes, position: int, output: Frames) -> int:
        """Take bytes up to the next line end, or all; the block's last line judges the block."""
        stop = data.find(b"\n", position) + 1 or len(data)
        room = self._max_header - self._block_size - len(self._line)
        if stop - position > room:
            got = f"more than {self._max_header} bytes"
            self._report(FrameError(kind=FrameErrorKind.HEADER_TOO_LONG, got=got), output)
            return len(data)
        self._line += data[position:stop]
        if not self._line.endswith(b"\n"):
            return stop
        self._block_size += len(self._line)
        line = bytes(self._line).removesuffix(b"\n").removesuffix(b"\r")
        self._line.clear()
        if line:
            self._block.append(line)
        elif self._block:
            block, self._block = self._block, []
            self._begin_body(_Header(block), output)
        if not self._block:
            self._block_size = 0
        return stop

    def _begin_body(self, header: _Header, output: Frames) -> None:
        """Decide on a header block: a body follows, or is skipped, or the stream is lost."""
        length = header.length()
        if isinstance(length, FrameError):
            self._report(length, output)
            return
        fault = header.fault()
        if length > self._max_body:
            kind = FrameErrorKind.BODY_TOO_LONG
            if length > self._max_skip:
                kind = FrameErrorKind.BEYOND_SKIPPING
            fault = FrameError(kind=kind, got=f"one of {length} bytes")
        if fault:
            self._report(fault, output)
            self._to_skip = length
        elif length:
            self._missing = length
        else:
            output.append(b"")

    def _report(self, fault: FrameError, output: Frames) -> None:
        output.append(fault)
        self._closed = fault.fatal


class _Header:
    """One header block: its lines, judged as a whole."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def _values(self, name: bytes) -> list[bytes]:
        """The values of the headers of that name, given in lower case."""
        fields = [line.partition(b":") for line in self._lines]
        return [
            value.strip(b" \t")
            for field, colon, value in fields
            if colon and field.strip(b" \t").lower() == name
        ]

    def length(self) -> int | FrameError:
        """The body's length in bytes, or why it is not known; such a fault is fatal."""
        texts = self._values(b"content-length")
        if not texts:
            return FrameError(kind=FrameErrorKind.MISSING_LENGTH, got="none")
        for text in texts:
            kind = _fault_of_length(text)
            if kind:
                return FrameError(kind=kind, got=_excerpt(text))
        lengths = {int(text) for text in texts}
        if len(lengths) > 1:
            return FrameError(kind=FrameErrorKind.TWO_LENGTHS, got=_excerpt(b" and ".join(texts)))
        return lengths.pop()

    def fault(self) -> FrameError | None:
        """What is wrong beside the length, if anything; such a fault costs this body only."""
        for line in self._lines:
            if not line.isascii():
                return FrameError(kind=FrameErrorKind.NON_ASCII_HEADER, got=_excerpt(line))
        for line in self._lines:
            if b":" not in line:
                return FrameError(kind=FrameErrorKind.HEADER_WITHOUT_COLON, got=_excerpt(line))
        for value in self._values(b"content-type"):
            for parameter in value.split(b";")[1:]:
                name, _, charset = parameter.partition(b"=")
                charset = charset.strip(b" \t\"'")
                if name.strip().lower() == b"charset" and charset.lower() not in _CHARSETS:
                    return FrameError(kind=FrameErrorKind.FOREIGN_CHARSET, got=_excerpt(charset))
        return None


_CHARSETS = frozenset({b"utf-8", b"utf8"})
_HEXADECIMAL = re.compile(rb"(0[xX])?[0-9a-fA-F]+")


def _fault_of_length(text: bytes) -> FrameErrorKind | None:
    if text.isdigit():
        return FrameErrorKind.TOO_MANY_DIGITS if len(text) > _MAX_LENGTH_DIGITS else None
    if text[:1] == b"-" and text[1:].isdigit():
        return FrameErrorKind.NEGATIVE_LENGTH
    if text[:1] == b"+" and text[1:].isdigit():
        return FrameErrorKind.SIGNED_LENGTH
    if _HEXADECIMAL.fullmatch(text):
        return FrameErrorKind.HEX_LENGTH
    if text.decode("utf-8", "replace").isdigit():
        return FrameErrorKind.NON_ASCII_DIGITS
    return FrameErrorKind.NOT_A_NUMBER


def _excerpt(text: bytes) -> str:
    """A few bytes of what came, safe to show."""
    shown = repr(text[:40].decode("utf-8", "backslashreplace"))
    return f"{shown}..." if len(text) > 40 else shown


class LineDecoder:
    """Cuts a stream of one message a line.

    Lines end in LF or CRLF; blank ones are skipped; the last one needs no line end.

    Args:
        max_line: the longest line that is given, in bytes without its end; a longer one is
            skipped.
    """

    def __init__(self, *, max_line: int = MAX_BODY) -> None:
        self._max_line = max_line
        self._closed = False
        self._line = bytearray()  # the line that has begun
        self._skipping = False  # it is too long, and reported

    @property
    def closed(self) -> bool:
        """Whether the stream has ended."""
        return self._closed

    def feed(self, data: bytes) -> Frames:
        """Take the next bytes; give the lines that they complete, without their ends.

        Raises:
            LocalProtocolError: the decoder is closed.
        """
        if self._closed:
            raise LocalProtocolError("expected no bytes after the end of the stream, got some")
        output: Frames = []
        first, *others = data.split(b"\n")
        self._take_part(first, output)
        if others:
            self._end_line(output)
            rest = others.pop()
            for whole in others:
                self._take_line(whole, output)
            self._take_part(rest, output)
        return output

    def feed_eof(self) -> Frames:
        """Take the end of the stream; it ends a line like a line end."""
        output: Frames = []
        if not self._closed:
            self._closed = True
            self._end_line(output)
        return output

    def _take_line(self, line: bytes, output: Frames) -> None:
        if len(line) > self._max_line:
            self._take_part(line, output)
            self._end_line(output)
        elif line.strip(b" \t\r"):
            output.append(line.removesuffix(b"\r"))

    def _take_part(self, part: bytes, output: Frames) -> None:
        if self._skipping:
            return
        self._line += part
        if len(self._line) - self._line.endswith(b"\r") > self._max_line:
            got = f"more than {self._max_line} bytes"
            output.append(FrameError(kind=FrameErrorKind.LINE_TOO_LONG, got=got))
            self._line.clear()
            self._skipping = True

    def _end_line(self, output: Frames) -> None:
        line = bytes(self._line).removesuffix(b"\r")
        self._line.clear()
        self._skipping = False
        if line.strip(b" \t\r"):
            output.append(line)


CONTENT_LENGTH: Final = Framing(decoder=ContentLengthDecoder, encode=encode_frame)
LINES: Final = Framing(decoder=LineDecoder, encode=encode_line)
