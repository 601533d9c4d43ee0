"""The body of an answer with status 200: a stream, one JSON value, or a web page.

All content before the first error, or the end of the answer, reaches the decoder, however the bytes
are chunked. A body that is no answer is reported with its first words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from eca_protocol import json
from eca_protocol.errors import InvalidJSON, RemoteProtocolError
from eca_protocol.framing import FrameError, LineDecoder
from eca_protocol.sse import SSEDecoder
from eca_server.models.backend import BackendError
from eca_server.models.errors import error_from_page, is_binary
from eca_server.models.events import Event
from eca_server.models.stream_decoder import StreamDecoder, parse

Framing = Literal["sse", "lines"]
"""The format of a stream: server-sent events, or one JSON value a line."""

MAX_BODY = 64 * 2**20
"""The limit of an answer that is not streamed, in bytes."""
MAX_STREAM = 256 * 2**20
"""The limit of a stream, in bytes: it may consist of values that are not shown, only stored."""


class AnswerBody:
    """The bytes of one answer in, events out.

    Args:
        content_type: the server's content type, for the description of a body that is no answer.
        framing: the stream format of this API.
    """

    def __init__(
        self, *, content_type: str, decoder: StreamDecoder, framing: Framing = "sse"
    ) -> None:
        self.decoder = decoder
        self._lines = LineDecoder(max_line=MAX_BODY) if framing == "lines" else None
        self._sse = SSEDecoder()
        self._content_type = content_type
        self._is_stream: bool | None = None if self._lines is None else True
        self._head = b""
        self._whole = bytearray()
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Decode the next bytes; yield the events before an error.

        Raises:
            BackendError: as `StreamDecoder.feed`, or the body is unreadable.
        """
        self._size += len(chunk)
        most = MAX_BODY if self._is_stream is False else MAX_STREAM
        if self._size > most:
            raise BackendError("protocol", f"the answer has more than {most} bytes")
        head = self._head
        if len(head) < 200:
            self._head += chunk[: 200 - len(head)]
        if self._is_stream is None:
            self._is_stream = self._looks_like_a_stream()
            if self._is_stream is False:
                self._whole += head
        if self._is_stream is False:
            self._whole += chunk
        elif self._lines is not None:
            for line in self._lines.feed(chunk):
                if not self.decoder.done:
                    yield from self._line(line)
        else:
            try:
                for event in self._sse.feed(chunk):
                    if not self.decoder.done:
                        yield from self.decoder.feed(event)
            except RemoteProtocolError as error:
                raise BackendError("protocol", str(error)) from error

    def close(self) -> Iterator[Event]:
        """Handle the end of the bytes.

        Raises:
            BackendError: as `feed`, or the answer is incomplete.
        """
        if self.decoder.done:
            return
        if self._is_stream is False:
            yield from self._close_whole()
            return
        try:
            yield from self._flush()
        except BackendError as error:
            if error.kind != "protocol" or not self.decoder.started:
                raise  # otherwise it is unreadable because it was cut
        yield from self.decoder.close()

    def _flush(self) -> Iterator[Event]:
        """Decode the last value, which has no end of its own."""
        if self._lines is not None:
            for line in self._lines.feed_eof():
                yield from self._line(line)
        else:
            for event in self._sse.close():
                yield from self.decoder.feed(event)
            if not self.decoder.started and self._head.strip() and not self._has_fields():
                if is_binary(self._head):
                    raise error_from_page(self._content_type, self._head)
                excerpt = self._head.decode("utf-8", "replace").strip()
                raise BackendError("protocol", f"expected an event stream, got {excerpt}")

    def _line(self, line: bytes | FrameError) -> Iterable[Event]:
        if isinstance(line, FrameError):
            raise BackendError("protocol", line.message)
        if not self.decoder.started and line.lstrip().startswith(b"<"):
            raise error_from_page(self._content_type, line[:200])
        return self.decoder.feed_object(parse(line))

    def _close_whole(self) -> Iterator[Event]:
        try:
            value = json.loads(bytes(self._whole))
        except InvalidJSON:
            raise error_from_page(self._content_type, bytes(self._whole[:65536])) from None
        yield from self.decoder.feed_object(value)
        yield from self.decoder.close()

    def _looks_like_a_stream(self) -> bool | None:
        """Return None as long as only white space has been received."""
        content = self._head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return content[:1] not in b"{[<" if content else None

    def _has_fields(self) -> bool:
        content = self._head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return content.startswith((b"data", b"event", b"id", b"retry", b":"))
