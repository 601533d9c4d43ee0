"""Bytes to messages and back, as WIRE has them. No I/O."""

import json as stdlib_json
import re
from collections.abc import Iterator
from typing import Any

from eca_protocol import json
from eca_protocol.errors import InvalidJSON

INVALID_JSON, INVALID_REQUEST, UNKNOWN_METHOD, BAD_PARAMS = -32700, -32600, -32601, -32602
NOT_INITIALIZED, CANCELLED = -32002, -32800

_END_OF_HEADER = re.compile(rb"\r?\n\r?\n")
_CHARSET = re.compile(rb'charset\s*=\s*"?([^";\s]+)', re.IGNORECASE)


class Fault(Exception):
    """A protocol error of the client, and the answer to it.

    Attributes:
        code: the code of the answer.
        fatal: nothing says where the next message would begin.
        id: whose answer it is.
    """

    def __init__(self, code: int, text: str, *, fatal: bool = False, id_: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.fatal = fatal
        self.id = id_


class Wire:
    """The framing of one connection: decodes input, encodes output."""

    max_header = 16_384
    max_body = 64 * 2**20
    max_skip = 2**30

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._length: int | None = None
        self._complaint: Fault | None = None

    def encode(self, message: dict[str, Any]) -> bytes:
        body = self.body(message)
        return self.header(len(body)) + body

    def body(self, message: dict[str, Any]) -> bytes:
        return stdlib_json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")

    def header(self, length: int) -> bytes:
        return b"Content-Length: %d\r\n\r\n" % length

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield complete values and protocol errors in the order of the stream."""
        self._buffer += data
        while (body := self._next()) is not None:
            if isinstance(body, Fault):
                yield body
                if body.fatal:
                    return
            else:
                yield self._value_of(body)

    def feed_end(self) -> Fault | None:
        """Return the protocol error of a stream that ends here."""
        if self._buffer or self._length is not None:
            return Fault(INVALID_JSON, "the stream ended inside a message", fatal=True)
        return None

    def _value_of(self, body: bytes) -> Any:
        try:
            return self.decode(body)
        except InvalidJSON as error:
            return Fault(INVALID_JSON, str(error))
        except Fault as fault:
            return fault

    def decode(self, body: bytes) -> Any:
        return json.loads(body)

    def _next(self) -> bytes | Fault | None:
        """Return the next body or protocol error; None if it is incomplete."""
        if self._length is None:
            while self._buffer.startswith((b"\r\n", b"\n")):
                del self._buffer[: self._buffer.index(b"\n") + 1]
            end = _END_OF_HEADER.search(self._buffer)
            if (len(self._buffer) if end is None else end.start()) > self.max_header:
                return Fault(INVALID_JSON, "a header block without an end", fatal=True)
            if end is None:
                return None
            lines = bytes(self._buffer[: end.start()]).split(b"\n")
            del self._buffer[: end.end()]
            try:
                self._length, self._complaint = self.read_header(lines)
            except Fault as fault:
                return fault
        if len(self._buffer) < self._length:
            return None
        body = bytes(self._buffer[: self._length])
        del self._buffer[: self._length]
        self._length = None
        return self._complaint or body

    def read_header(self, lines: list[bytes]) -> tuple[int, Fault | None]:
        """Return the length of the body, and the error of the rest of the header."""
        lengths, complaint = set(), None
        for line in lines:
            name, colon, value = line.partition(b":")
            if not line.isascii():
                complaint = Fault(INVALID_JSON, "expected headers in ASCII")
            elif not colon:
                complaint = Fault(INVALID_JSON, "expected header lines `name: value`")
            if name.strip().lower() == b"content-length":
                lengths.add(self.read_length(value.strip()))
            elif name.strip().lower() == b"content-type":
                charset = _CHARSET.search(value)
                if charset and charset[1].lower() not in (b"utf-8", b"utf8"):
                    complaint = Fault(INVALID_JSON, "expected charset utf-8")
        if len(lengths) != 1:
            raise Fault(INVALID_JSON, "expected one Content-Length", fatal=True)
        length = lengths.pop()
        if length > self.max_skip:
            raise Fault(INVALID_REQUEST, "expected a body within its limit", fatal=True)
        if length > self.max_body:
            complaint = Fault(INVALID_REQUEST, "expected a body within its limit")
        return length, complaint

    def read_length(self, value: bytes) -> int:
        if not value.isdigit() or len(value) > 18:
            raise Fault(INVALID_JSON, f"expected a decimal length, got {value[:20]!r}", fatal=True)
        return int(value)
