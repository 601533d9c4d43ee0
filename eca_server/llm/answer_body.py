"""The bytes of an answer with status 200, which may be a stream, one JSON value, or a page.

The rules it keeps: what came is told to the decoder up to the first fault or the answer's end,
however the bytes are cut; what is no answer at all is told in its own first words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol

from eca_protocol import json
from eca_protocol.errors import InvalidJSON, RemoteProtocolError
from eca_protocol.framing import FrameError, LineDecoder
from eca_protocol.sse import SSEDecoder, SSEvent
from eca_server.llm.backend import BackendError
from eca_server.llm.errors import error_from_page, is_binary
from eca_server.llm.events import Event

__all__ = ["MAX_BODY", "AnswerBody", "Decoder", "Framing"]

Framing = Literal["sse", "lines"]
"""How a stream is cut into values: server-sent events, or one JSON value a line."""

MAX_BODY = 64 * 2**20


class Decoder(Protocol):
    """One answer of an API: its values in, our events out, in the order of `events`.

    Attributes:
        started: `Started` was given.
        finish_seen: the end is near: what may follow is usage and the API's own mark.
        done: `Finished` was given; nothing follows.
    """

    started: bool
    finish_seen: bool
    done: bool

    def feed(self, event: SSEvent) -> Iterable[Event]:
        """Takes the next event of the stream.

        Raises:
            BackendError: the stream carries an error, or what cannot be read.
        """
        ...

    def feed_object(self, value: Any) -> Iterable[Event]:
        """Takes a value that is JSON already: a line's, or a whole answer that was no stream.

        Raises:
            BackendError: as `feed`.
        """
        ...

    def close(self) -> Iterable[Event]:
        """Takes the end of the bytes.

        Raises:
            BackendError: `premature_stop`, the answer had not come to its end; or as `feed`.
        """
        ...


class AnswerBody:
    """The bytes of one answer in, events out.

    Args:
        content_type: as the server names it; one that names none, or a wrong one, is looked at.
        decoder: what reads the values.
        framing: how a stream of this API is cut.
    """

    def __init__(self, *, content_type: str, decoder: Decoder, framing: Framing = "sse") -> None:
        self.decoder = decoder
        self._lines = LineDecoder(max_line=MAX_BODY) if framing == "lines" else None
        self._sse = SSEDecoder()
        self._content_type = content_type
        streams = self._lines is not None or "event-stream" in content_type
        self._is_stream: bool | None = True if streams else None
        self._head = b""
        self._whole = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Takes the next bytes; gives the events up to the fault, if they hold one.

        Raises:
            BackendError: as `Decoder.feed`, or the body is nothing that can be read.
        """
        if len(self._head) < 200:
            self._head += chunk[: 200 - len(self._head)]
        if self._is_stream is None:
            self._is_stream = self._looks_like_a_stream()
        if self._is_stream is False:
            self._whole += chunk
            if len(self._whole) > MAX_BODY:
                raise BackendError("protocol", f"an answer of more than {MAX_BODY} bytes came")
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
        """Takes the end of the bytes.

        Raises:
            BackendError: as `feed`, or the answer had not come to its end.
        """
        if self.decoder.done:
            return
        if self._is_stream is False:
            yield from self._close_whole()
            return
        try:
            yield from self._unended()
        except BackendError as error:
            if error.kind != "protocol" or not self.decoder.started:
                raise  # else it cannot be read because it was cut
        yield from self.decoder.close()

    def _unended(self) -> Iterator[Event]:
        """What has begun and has no end of its own."""
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
        try:
            value = json.loads(line)
        except InvalidJSON as fault:
            excerpt = line[:200].decode("utf-8", "replace")
            raise BackendError("protocol", f"not JSON in the stream ({fault}): {excerpt}") from None
        return self.decoder.feed_object(value)

    def _close_whole(self) -> Iterator[Event]:
        try:
            value = json.loads(bytes(self._whole))
        except InvalidJSON:
            raise error_from_page(self._content_type, bytes(self._whole[:65536])) from None
        yield from self.decoder.feed_object(value)
        yield from self.decoder.close()

    def _looks_like_a_stream(self) -> bool | None:
        """None as long as only white space came."""
        begun = self._head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return begun[:1] not in b"{[<" if begun else None

    def _has_fields(self) -> bool:
        begun = self._head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return begun.startswith((b"data", b"event", b"id", b"retry", b":"))
