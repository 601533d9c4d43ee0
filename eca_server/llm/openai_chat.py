"""Chat Completions over HTTP: OpenAI's, and the one that most other servers imitate.

The rules it keeps: the base URL keeps its query; the key goes into one header and nowhere else; an
optional field that a server refuses by name is dropped, remembered, and the request sent once
more; silence is bounded by four timers, the fourth being that of bytes which are no progress.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, MutableSet, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import trio

from eca_protocol import json
from eca_protocol.errors import HTTPFault, InvalidJSON, RemoteProtocolError
from eca_protocol.http import Deadlines, HTTPClient, HTTPResponse
from eca_protocol.sse import SSEDecoder
from eca_server.llm.backend import BackendError, Capabilities, ModelInfo, Request
from eca_server.llm.errors import error_from_fault, error_from_response
from eca_server.llm.events import Event, Progress
from eca_server.llm.history import Origin
from eca_server.llm.openai_chat_decoder import ChatDecoder
from eca_server.llm.openai_chat_history import Histories
from eca_server.llm.openai_chat_profiles import Profile
from eca_server.llm.openai_chat_request import encoded, refused_parameter, write_request
from eca_server.secret import Secret

__all__ = ["API", "AnswerBody", "OpenAIChat", "endpoint"]

API = "openai-chat"

TAIL = 2.0
"""Seconds the rest may take once the finish reason is here: usage, `[DONE]`."""
DRAIN = 0.5
"""Seconds the end of the body may take after `[DONE]`; it saves the connection."""
MAX_BODY = 64 * 2**20


def endpoint(base: str, path: str) -> str:
    """`path` added to the path of `base`; the queries of both are kept."""
    parts = urlsplit(base.strip())
    added, _, query = path.partition("?")
    joined = f"{parts.path.rstrip('/')}/{added.lstrip('/')}"
    queries = "&".join(piece for piece in (parts.query, query) if piece)
    return urlunsplit((parts.scheme, parts.netloc, joined, queries, ""))


class OpenAIChat:
    """A `Backend` for one model behind one base URL.

    Args:
        http: the client, shared by all backends.
        origin: whose messages it makes.
        url: the base that `path` is added to.
        key: the API key; None for servers without.
        wire_model: what the endpoint calls the model.
        profile: what the server takes.
        path: the API's path.
        extra_payload: merged into each request; a null removes the key.
        extra_headers: replace ours in any case.
        deadlines: of each request.
        no_progress: seconds that may pass without an event, whatever bytes come.
        capabilities: what the model can do.
        refused: names of fields the provider has refused; shared by all of its models.
    """

    def __init__(
        self,
        *,
        http: HTTPClient,
        origin: Origin,
        url: str,
        key: Secret | None = None,
        wire_model: str | None = None,
        profile: Profile | None = None,
        path: str = "/chat/completions",
        extra_payload: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
        deadlines: Deadlines | None = None,
        no_progress: float = 600,
        capabilities: Capabilities | None = None,
        refused: MutableSet[str] | None = None,
    ) -> None:
        self.origin = origin
        self.capabilities = capabilities or Capabilities()
        self._http = http
        self._base = url
        self._url = endpoint(url, path)
        self._key = key
        self._wire_model = wire_model or origin.model
        self._profile = profile or Profile()
        self._histories = Histories(origin, self._profile, images=self.capabilities.images)
        self._extra_payload = dict(extra_payload or {})
        self._extra_headers = dict(extra_headers or {})
        self._deadlines = deadlines or Deadlines()
        self._no_progress = no_progress
        self._refused = refused if refused is not None else set()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Event]]:
        """As `Backend.stream`."""
        async with aclosing(self._events(request)) as events:
            yield events

    async def models(self) -> Sequence[ModelInfo]:
        """As `Backend.models`: what `GET /models` lists."""
        url = endpoint(self._base, "/models")
        try:
            async with self._http.stream(
                "GET", url, headers=self._headers(), deadlines=self._deadlines
            ) as response:
                body = await response.read(limit=MAX_BODY)
        except HTTPFault as fault:
            raise error_from_fault(fault) from fault
        if response.status != 200:
            raise error_from_response(response.status, response.headers, body)
        try:
            listed = json.loads(body)["data"]
            return [ModelInfo(name=str(model["id"])) for model in listed]
        except (InvalidJSON, TypeError, KeyError):
            excerpt = body[:200].decode("utf-8", "replace")
            raise BackendError("protocol", f"expected a list of models, got {excerpt}") from None

    async def count_tokens(self, request: Request) -> int | None:
        """As `Backend.count_tokens`: unknown to this API."""
        return None

    def payload(self, request: Request) -> dict[str, Any]:
        """The JSON that `request` is sent as, its messages written already."""
        payload = write_request(
            request,
            wire_model=self._wire_model,
            profile=self._profile,
            histories=self._histories,
        )
        payload |= self._extra_payload
        return {
            name: value
            for name, value in payload.items()
            if name not in self._refused and (value is not None or name not in self._extra_payload)
        }

    def _headers(self) -> dict[str, str]:
        headers = {"accept": "text/event-stream", "content-type": "application/json"}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key.reveal()}"
        added = {**self._profile.headers, **self._extra_headers}
        return headers | {name.lower(): value for name, value in added.items()}

    async def _events(self, request: Request) -> AsyncGenerator[Event, None]:
        last = request.messages[-1] if request.messages else None
        while True:
            payload = self.payload(request)
            try:
                async with self._http.stream(
                    "POST",
                    self._url,
                    headers=self._headers(),
                    content=encoded(payload),
                    deadlines=self._deadlines,
                ) as response:
                    if response.status == 200:
                        body = AnswerBody(
                            content_type=response.headers.get("content-type", ""),
                            decoder=ChatDecoder(
                                think_tags=self._profile.think_tags,
                                may_be_empty=last is not None and last.role == "tool",
                                request_id=response.headers.get("x-request-id"),
                            ),
                        )
                        async with aclosing(self._read(response, body)) as events:
                            async for event in events:
                                yield event
                        return
                    refusal = await response.read()
            except HTTPFault as fault:
                raise error_from_fault(fault) from fault
            error = error_from_response(response.status, response.headers, refusal)
            name = refused_parameter(response.status, f"{error.message} {error.raw}", payload)
            if name is None:
                raise error
            self._refused.add(name)

    async def _read(self, response: HTTPResponse, body: AnswerBody) -> AsyncGenerator[Event, None]:
        progress_at = trio.current_time()
        chunks = response.chunks()
        try:
            async for chunk in chunks:
                progressed = False
                for event in body.feed(chunk):
                    progressed = True
                    yield event
                if body.decoder.done:
                    break
                if body.decoder.finish_seen:
                    response.idle = min(response.idle, TAIL)
                if progressed:
                    progress_at = trio.current_time()
                else:
                    if trio.current_time() - progress_at > self._no_progress:
                        words = f"the answer made no progress for {self._no_progress:g} s"
                        raise BackendError("timeout", words, retryable=True)
                    if chunk.lstrip().startswith(b":"):
                        yield Progress("ping")
        except HTTPFault as fault:
            if not body.decoder.finish_seen:
                error = error_from_fault(fault)
                kind = "premature_stop" if fault.kind == "broken" else error.kind
                raise BackendError(kind, error.message, retryable=error.retryable) from fault
        for event in body.close():
            yield event
        await _drain(chunks)


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    with trio.move_on_after(DRAIN):
        try:
            async for _ in chunks:
                pass
        except HTTPFault:
            return  # the answer is complete; only the connection is lost


class AnswerBody:
    """The bytes of an answer with status 200, which may be a stream, one JSON value, or a page."""

    def __init__(self, *, content_type: str, decoder: ChatDecoder) -> None:
        self.decoder = decoder
        self._sse = SSEDecoder()
        self._is_stream: bool | None = True if "event-stream" in content_type else None
        self._head = b""
        self._whole = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Takes the next bytes; gives the events up to the fault, if they hold one.

        Raises:
            BackendError: as `ChatDecoder.feed`, or the body is nothing that can be read.
        """
        if len(self._head) < 200:
            self._head += chunk[: 200 - len(self._head)]
        if self._is_stream is None:
            self._is_stream = self._looks_like_a_stream()
        if self._is_stream is False:
            self._whole += chunk
            if len(self._whole) > MAX_BODY:
                raise BackendError("protocol", f"an answer of more than {MAX_BODY} bytes came")
            return
        try:
            for event in self._sse.feed(chunk):
                yield from self.decoder.feed(event)
        except RemoteProtocolError as error:
            raise BackendError("protocol", str(error)) from error

    def close(self) -> Iterator[Event]:
        """Takes the end of the bytes.

        Raises:
            BackendError: as `feed`, or the answer had not come to its end.
        """
        if self._is_stream is False:
            yield from self._close_whole()
            return
        for event in self._sse.close():
            yield from self.decoder.feed(event)
        if not self.decoder.started and self._head.strip() and not self._has_fields():
            excerpt = self._head.decode("utf-8", "replace").strip()
            raise BackendError("protocol", f"expected an event stream, got {excerpt}")
        yield from self.decoder.close()

    def _close_whole(self) -> Iterator[Event]:
        try:
            value = json.loads(bytes(self._whole))
        except InvalidJSON:
            error = error_from_response(200, {}, bytes(self._whole[:65536]))
            raise BackendError(
                "protocol", f"expected an answer in JSON, got {error.message}", raw=error.raw
            ) from None
        yield from self.decoder.feed_object(value)
        yield from self.decoder.close()

    def _looks_like_a_stream(self) -> bool | None:
        """None as long as only white space came."""
        begun = self._head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return begun[:1] not in b"{[<" if begun else None

    def _has_fields(self) -> bool:
        begun = self._head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return begun.startswith((b"data", b"event", b"id", b"retry", b":"))
