"""Message framing in a stream of bytes, without I/O.

Two framings share one interface: Content-Length headers, which ECA uses, and one message per
line, which ECP uses on stdio. A decoder is fed bytes in chunks of any size and returns bodies and
errors in the order of the stream. Its output does not depend on the size of the chunks, its time
is linear, and it allocates no memory for bytes that have not arrived.

The table `FRAME_ERRORS` says how each error is treated. After a recoverable error the decoder has
skipped the message and continues. After a fatal error it is closed, since the start of the next
message is unknown.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol, Self, TypeAlias

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


@attrs.frozen(kw_only=True)
class FrameErrorRule:
    """The treatment of one kind of framing error.

    Attributes:
        fatal: the stream cannot be read any further; otherwise only the message is skipped.
        code: the JSON-RPC error code of the reply, whose id is null.
        expected: a description of valid input.
    """

    fatal: bool
    code: int
    expected: str


def _fatal(expected: str, *, code: int = PARSE_ERROR) -> FrameErrorRule:
    return FrameErrorRule(fatal=True, code=code, expected=expected)


def _skipped(expected: str, *, code: int = PARSE_ERROR) -> FrameErrorRule:
    return FrameErrorRule(fatal=False, code=code, expected=expected)


_A_LENGTH = _fatal("Content-Length to be a decimal number of bytes")
_FEW_DIGITS = _fatal(f"Content-Length to have at most {_MAX_LENGTH_DIGITS} digits")
_A_BODY = "a body within its limit"
_A_LINE = "a line within its limit"


class FrameErrorKind(enum.Enum):
    """The kinds of framing errors, each with its rule."""

    rule: FrameErrorRule

    def __new__(cls, name: str, rule: FrameErrorRule) -> Self:
        """Make a member: its value is the name."""
        kind = object.__new__(cls)
        kind._value_ = name
        kind.rule = rule
        return kind

    MISSING_LENGTH = "missing length", _fatal("a Content-Length header")
    NEGATIVE_LENGTH = "negative length", _A_LENGTH
    SIGNED_LENGTH = "signed length", _A_LENGTH
    HEX_LENGTH = "hexadecimal length", _A_LENGTH
    NON_ASCII_DIGITS = "non-ASCII digits", _A_LENGTH
    NOT_A_NUMBER = "length not a number", _A_LENGTH
    TOO_MANY_DIGITS = "too many digits", _FEW_DIGITS
    TWO_LENGTHS = "two different lengths", _fatal("one Content-Length")
    HEADER_TOO_LONG = "header too long", _fatal("a header block within its limit")
    BEYOND_SKIPPING = "body too long to be skipped", _fatal(_A_BODY, code=INVALID_REQUEST)
    EOF_IN_HEADER = "end of stream in a header", _fatal("the rest of a header block")
    EOF_IN_BODY = "end of stream in a body", _fatal("the rest of a body")
    BODY_TOO_LONG = "body too long", _skipped(_A_BODY, code=INVALID_REQUEST)
    FOREIGN_CHARSET = "foreign charset", _skipped("charset utf-8")
    NON_ASCII_HEADER = "non-ASCII header", _skipped("headers in ASCII")
    HEADER_WITHOUT_COLON = "header line without colon", _skipped("header lines `name: value`")
    LINE_TOO_LONG = "line too long", _skipped(_A_LINE, code=INVALID_REQUEST)


FRAME_ERRORS: Final[Mapping[FrameErrorKind, FrameErrorRule]] = MappingProxyType(
    {kind: kind.rule for kind in FrameErrorKind}
)


@attrs.frozen(kw_only=True)
class FrameError:
    """One error in the stream, with the data for a reply whose id is null."""

    kind: FrameErrorKind
    got: str

    @property
    def fatal(self) -> bool:
        """True if the stream cannot be read any further."""
        return self.kind.rule.fatal

    @property
    def code(self) -> int:
        """The JSON-RPC error code of the reply."""
        return self.kind.rule.code

    @property
    def message(self) -> str:
        """The expected and the received input, for people."""
        return f"expected {self.kind.rule.expected}, got {self.got}"


Frames: TypeAlias = list[bytes | FrameError]
"""The output of a decoder: bodies and errors, in the order of the stream."""


class FrameDecoder(Protocol):
    """A decoder of one framing: bytes in, bodies and errors out."""

    def feed(self, data: bytes) -> Frames:
        """Take the next bytes; return the frames that they complete."""
        ...

    def feed_eof(self) -> Frames:
        """Take the end of the stream; return the last frame or the error, if any."""
        ...

    @property
    def closed(self) -> bool:
        """True if the stream has ended, by a fatal error or by `feed_eof`."""
        ...


@attrs.frozen(kw_only=True)
class Framing:
    """A framing in both directions: a decoder, and the encoding of one body."""

    decoder: Callable[[], FrameDecoder]
    encode: Callable[[bytes], bytes]


def encode_frame(body: bytes) -> bytes:
    """Return a body with its header (ruling W-1)."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def encode_line(body: bytes) -> bytes:
    """Return a body as one line.

    Raises:
        LocalProtocolError: the body contains a line end; `json.dumps` writes none.
    """
    if b"\n" in body or b"\r" in body:
        raise LocalProtocolError("expected a body without line ends, got one with a line end")
    return body + b"\n"


class ContentLengthDecoder:
    """A decoder of Content-Length frames (specification, Base Protocol).

    It accepts header names in any case, white space around values, headers in any order, unknown
    headers, bare LF line ends, blank lines before a header, and a repeated equal length.

    Args:
        max_body: the limit of a body, in bytes; a longer one is skipped.
        max_header: the limit of a header block, in bytes.
        max_skip: the limit of a skipped body, in bytes; a longer one is a fatal error.

    Attributes:
        closed: the stream has ended, by a fatal error or by `feed_eof`.
    """

    # The header as most peers write it. Nine digits are always a valid length.
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
        self.closed: bool = False
        self._line = bytearray()  # the incomplete header line
        self._block: list[bytes] = []  # the complete lines of the incomplete header
        self._block_size = 0
        self._body = bytearray()  # the incomplete body
        self._missing = 0  # its bytes that have not arrived
        self._to_skip = 0  # bytes of a refused body that have not arrived

    @property
    def incomplete_header(self) -> str:
        """The beginning of a header block without its end, escaped for display, or empty."""
        text = b"\n".join((*self._block, bytes(self._line))).strip()
        return _excerpt(text) if text else ""

    def feed(self, data: bytes) -> Frames:
        """Take the next bytes; return the bodies and errors that they complete.

        Raises:
            LocalProtocolError: the decoder is closed.
        """
        if self.closed:
            raise LocalProtocolError("expected no bytes after the end of the stream, got some")
        output: Frames = []
        position, end = 0, len(data)
        while position < end and not self.closed:
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
        """Take the end of the stream; an incomplete message is a fatal error."""
        if self.closed:
            return []
        self.closed = True
        if self._missing or self._to_skip:
            got = f"the end of the stream, {self._missing or self._to_skip} bytes too early"
            return [FrameError(kind=FrameErrorKind.EOF_IN_BODY, got=got)]
        if self._line or self._block:
            got = f"the end of the stream after {self.incomplete_header}"
            return [FrameError(kind=FrameErrorKind.EOF_IN_HEADER, got=got)]
        return []

    def _take_plain_frames(self, data: bytes, position: int, output: Frames) -> int:
        """Take whole frames with the usual header; leave all else to the slower methods."""
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
        """Take bytes up to the next line end, or all; a blank line completes the header."""
        stop = data.find(b"\n", position) + 1 or len(data)
        allowance = self._max_header - self._block_size - len(self._line)
        if stop - position > allowance:
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
        """Evaluate a header block: its body is read or skipped, or the error is fatal."""
        length = header.length()
        if isinstance(length, FrameError):
            self._report(length, output)
            return
        error = header.error()
        if length > self._max_body:
            kind = FrameErrorKind.BODY_TOO_LONG
            if length > self._max_skip:
                kind = FrameErrorKind.BEYOND_SKIPPING
            error = FrameError(kind=kind, got=f"one of {length} bytes")
        if error:
            self._report(error, output)
            self._to_skip = length
        elif length:
            self._missing = length
        else:
            output.append(b"")

    def _report(self, error: FrameError, output: Frames) -> None:
        output.append(error)
        self.closed = error.fatal


class _Header:
    """The lines of one header block."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def _values(self, name: bytes) -> list[bytes]:
        fields = [line.partition(b":") for line in self._lines]
        return [
            value.strip(b" \t")
            for field, colon, value in fields
            if colon and field.strip(b" \t").lower() == name
        ]

    def length(self) -> int | FrameError:
        """Return the body's length in bytes, or a fatal error."""
        texts = self._values(b"content-length")
        if not texts:
            return FrameError(kind=FrameErrorKind.MISSING_LENGTH, got="none")
        for text in texts:
            kind = _length_error(text)
            if kind:
                return FrameError(kind=kind, got=_excerpt(text))
        lengths = {int(text) for text in texts}
        if len(lengths) > 1:
            return FrameError(kind=FrameErrorKind.TWO_LENGTHS, got=_excerpt(b" and ".join(texts)))
        return lengths.pop()

    def error(self) -> FrameError | None:
        """Return the first recoverable error, or None."""
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


def _length_error(text: bytes) -> FrameErrorKind | None:
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
    shown = repr(text[:40].decode("utf-8", "backslashreplace"))
    return f"{shown}..." if len(text) > 40 else shown


class LineDecoder:
    """A decoder of a stream with one message per line.

    Lines end in LF or CRLF. Blank lines are skipped. The last line needs no line end.

    Args:
        max_line: the limit of a line without its end, in bytes; a longer line is skipped.

    Attributes:
        closed: the stream has ended.
    """

    def __init__(self, *, max_line: int = MAX_BODY) -> None:
        self._max_line = max_line
        self.closed: bool = False
        self._line = bytearray()  # the incomplete line
        self._skipping = False  # the line is too long, and reported

    def feed(self, data: bytes) -> Frames:
        """Take the next bytes; return the lines that they complete, without their ends.

        Raises:
            LocalProtocolError: the decoder is closed.
        """
        if self.closed:
            raise LocalProtocolError("expected no bytes after the end of the stream, got some")
        output: Frames = []
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._line or self._skipping or len(line) > self._max_line:
                self._take_part(line, output)
                self._end_line(output)
            elif line.strip(b" \t\r"):
                output.append(line.removesuffix(b"\r"))
        self._take_part(rest, output)
        return output

    def feed_eof(self) -> Frames:
        """Take the end of the stream, which also ends the last line."""
        output: Frames = []
        if not self.closed:
            self.closed = True
            self._end_line(output)
        return output

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
