"""A model over HTTP, whichever API it speaks: what all backends do alike.

The rules it keeps: an optional field that a server refuses by name is dropped, remembered, and the
request sent once more, and so is a picture or document that it does not take; silence is bounded by
four timers, the fourth being that of bytes which are no progress; a body is read to its end or its
connection is closed.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing, asynccontextmanager
from typing import Any, ClassVar

import attrs
import trio

from eca_protocol import json
from eca_protocol.errors import HTTPError, InvalidJSON
from eca_protocol.http import Deadlines, HTTPClient, HTTPResponse
from eca_server.llm.access import Access, Target
from eca_server.llm.answer_body import MAX_BODY, AnswerBody, Decoder, Framing
from eca_server.llm.attachments import Attachment, suspects, without
from eca_server.llm.backend import BackendError, Capabilities, ModelInfo, Request
from eca_server.llm.errors import error_from_fault, error_from_page, error_from_response
from eca_server.llm.events import Event, Note, Progress, Started, Usage
from eca_server.llm.exchange_log import Exchange
from eca_server.llm.history import Origin
from eca_server.llm.model_list import read_models
from eca_server.llm.written import encoded
from eca_server.printable import printable_line
from eca_server.secret import Secret, secrets_in

__all__ = ["Amended", "HTTPBackend", "refused_parameter"]

TAIL = 20.0
"""Seconds of silence behind the words and a finish reason that are the end, too.

Only a server that sends no mark of the end and holds the line is waited for that long; pings are
silence. One with several choices, or that gives a reason with each piece, may fall silent where
calls are to come.
"""
DRAIN = 0.5
"""Seconds the end of the body may take after that mark; it saves the connection."""

_NOT_SAID = (Started, Progress, Usage)
"""Events that are no part of what the model says."""

_NOT_TAKEN = "The provider did not take a picture or document; it goes on without. What it said: {}"

_REFUSAL = re.compile(
    r"unsupported|unknown|unrecognized|unexpected|extra|not permitted|not supported|not allowed",
    re.IGNORECASE,
)


@attrs.frozen(kw_only=True)
class Amended:
    """What is sent in place of a request that was refused.

    Attributes:
        request: without what was wrong.
        note: what the user is told of it.
    """

    request: Request
    note: str | None = None


class HTTPBackend(ABC):
    """A `Backend` for one model behind one base URL; an API overrides what differs.

    Args:
        http: the client, shared by all backends.
        origin: whose messages it makes.
        server: the known provider whose ways it has, or the provider's own name; None: that.
        access: the way to the provider.
        wire_model: what the endpoint calls the model.
        path: in place of the API's own.
        extra_payload: merged into each request; a null removes the key, a list is added to ours,
            an object is merged into ours.
        extra_headers: replace ours in any case.
        deadlines: of each request.
        no_progress: seconds that may pass without an event, whatever bytes come.
        capabilities: what the model can do.
        refused: names of fields that the server has refused; shared by all of its models.
        think_tags: what begins and ends a thought in the text of an answer; None: as is usual.
    """

    path: ClassVar[str]
    """The API's own path; `{model}` in it is the model."""
    framing: ClassVar[Framing] = "sse"
    headers: ClassVar[Mapping[str, str]] = {"accept": "text/event-stream"}
    """What each request has beside its content type."""
    droppable: ClassVar[Sequence[str]] = ()
    """Optional fields of a request, at its top level."""
    of_the_server: ClassVar[AbstractSet[str]] = frozenset()
    """Those of them that it takes for all of its models or for none."""
    models_path: ClassVar[str] = "/models"

    def __init__(
        self,
        *,
        http: HTTPClient,
        origin: Origin,
        access: Access,
        server: str | None = None,
        wire_model: str | None = None,
        path: str | None = None,
        extra_payload: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
        deadlines: Deadlines | None = None,
        no_progress: float = 600,
        capabilities: Capabilities | None = None,
        refused: MutableSet[str] | None = None,
        think_tags: tuple[str, str] | None = None,
    ) -> None:
        self.origin = origin
        self.server = server or origin.provider
        self.capabilities = capabilities or Capabilities()
        self.wire_model = wire_model or origin.model
        self.think_tags = think_tags
        self._http = http
        self._access = access
        self._path = (path or self.path).replace("{model}", self.wire_model)
        self._extra_payload = dict(extra_payload or {})
        self._extra_headers = {name.lower(): text for name, text in (extra_headers or {}).items()}
        self._deadlines = deadlines or Deadlines()
        self._no_progress = no_progress
        self._refused_by_server = refused if refused is not None else set()
        self._refused: set[str] = set()  # for this model
        self._not_taken: AbstractSet[Attachment] = frozenset()

    @abstractmethod
    def write(self, request: Request) -> dict[str, Any]:
        """What `request` is in this API's words: an object whose values may be `Written`."""

    @abstractmethod
    def decoder(self, request: Request, headers: Mapping[str, str]) -> Decoder:
        """What reads the answer to `request`; `headers` are the answer's."""

    def headers_for(self, request: Request | None) -> Mapping[str, str]:
        """What a request has beside its content type and its key."""
        return self.headers

    def leave_out(self, request: Request, error: BackendError, payload: Mapping[str, Any]) -> bool:
        """Leaves out of all further requests what a refusal is about; False: nothing to be left."""
        name = self.refused_field(error, payload)
        if name is None:
            return False
        (self._refused_by_server if name in self.of_the_server else self._refused).add(name)
        return True

    def refused_field(self, error: BackendError, payload: Mapping[str, Any]) -> str | None:
        """The optional field of `payload` that a refusal is about; None: about something else."""
        words = f"{error.message} {error.raw}"
        return refused_parameter(error.status, words, payload, self.droppable)

    def amended(self, request: Request, error: BackendError) -> Amended | None:
        """What to send once in place of a refused request; None: nothing else would do."""
        return None

    def read_models(self, listed: Any) -> Sequence[ModelInfo]:
        """The models in what the endpoint lists; raises TypeError or KeyError for another shape."""
        return read_models(listed)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Event]]:
        """As `Backend.stream`."""
        async with aclosing(self._events(request)) as events:
            try:
                yield events
            except BackendError as error:
                error.without(*self._secrets())
                raise

    async def models(self) -> Sequence[ModelInfo]:
        """As `Backend.models`."""
        return self.models_of(await self.get(self.models_path))

    def models_of(self, listed: Any) -> Sequence[ModelInfo]:
        """As `read_models`; another shape is a `BackendError`."""
        try:
            return self.read_models(listed)
        except (AttributeError, TypeError, KeyError):
            excerpt = printable_line(json.dumps(listed).decode(), longest=200)
            raise BackendError("protocol", f"expected a list of models, got {excerpt}") from None

    async def count_tokens(self, request: Request) -> int | None:
        """As `Backend.count_tokens`: unknown to most APIs."""
        return None

    def payload(self, request: Request) -> dict[str, Any]:
        """What `request` is sent as; its values may be `Written`."""
        payload = self.write(request)
        for name, value in self._extra_payload.items():
            ours = payload.get(name)
            if isinstance(ours, list) and isinstance(value, list):
                payload[name] = [*ours, *value]
            elif isinstance(ours, dict) and isinstance(value, Mapping):
                both = {**ours, **value}
                payload[name] = {key: each for key, each in both.items() if each is not None}
            else:
                payload[name] = value
        refused = self._refused | self._refused_by_server
        return {
            name: value
            for name, value in payload.items()
            if name not in refused and (value is not None or name not in self._extra_payload)
        }

    async def get(self, path: str) -> Any:
        """The JSON that the provider has under `path`."""
        return await self._exchange("GET", path, b"")

    async def post(self, path: str, payload: Mapping[str, Any]) -> Any:
        """The JSON that the provider answers to `payload`; for what is no answer of the model."""
        return await self._exchange("POST", path, encoded(payload))

    async def _exchange(self, method: str, path: str, content: bytes) -> Any:
        try:
            target = await self._access.target(path)
            try:
                return await self._json_from(method, target, content)
            except BackendError as error:
                if error.status not in (401, 403) or not await self._access.renew(target):
                    raise
            return await self._json_from(method, await self._access.target(path), content)
        except BackendError as error:
            error.without(*self._secrets())
            raise

    async def _json_from(self, method: str, target: Target, content: bytes) -> Any:
        with self._exchange_log(method, target, content) as log:
            try:
                async with self._http.stream(
                    method,
                    target.url,
                    headers=self._headers(target, None) | {"accept": "application/json"},
                    content=content,
                    deadlines=self._deadlines,
                    shows_certificate=True,
                ) as response:
                    log.answered(response.status)
                    body = await response.read(limit=MAX_BODY)
            except HTTPError as fault:
                raise error_from_fault(fault) from fault
        if response.status != 200:
            raise self._refusal(response, body)
        try:
            return json.loads(body)
        except InvalidJSON:
            content_type = response.headers.get("content-type", "")
            raise error_from_page(content_type, body[:65_536]) from None

    def _refusal(self, response: HTTPResponse, body: bytes) -> BackendError:
        error = error_from_response(response.status, response.headers, body)
        self._access.judge(error)
        return error

    def _secrets(self) -> tuple[Secret, ...]:
        """What a provider may quote and nobody is to read."""
        return (*self._access.secrets, *secrets_in(self._extra_headers))

    def _headers(self, target: Target, request: Request | None) -> dict[str, str]:
        ours = {"content-type": "application/json", **self.headers_for(request)}
        return ours | target.headers | self._extra_headers

    async def _events(self, request: Request) -> AsyncGenerator[Event, None]:
        renewed = amended = False
        blamed: AbstractSet[Attachment] = frozenset()
        words = ""
        if self._not_taken:
            kept = without(request.messages, self._not_taken)
            request = attrs.evolve(request, messages=kept)
        while True:
            target = await self._access.target(self._path, request)
            payload = self.payload(request)
            content = encoded(payload)
            with self._exchange_log("POST", target, content, request) as log:
                try:
                    async with self._http.stream(
                        "POST",
                        target.url,
                        headers=self._headers(target, request),
                        content=content,
                        deadlines=self._deadlines,
                        shows_certificate=True,
                    ) as response:
                        log.answered(response.status)
                        if response.status == 200:
                            if blamed:
                                self._not_taken |= blamed
                                yield Note(_NOT_TAKEN.format(words))
                            body = AnswerBody(
                                content_type=response.headers.get("content-type", ""),
                                decoder=self.decoder(request, response.headers),
                                framing=self.framing,
                            )
                            async with aclosing(log.watched(self._read(response, body))) as events:
                                async for event in events:
                                    yield event
                            return
                        refusal = await response.read()
                except HTTPError as fault:
                    raise error_from_fault(fault) from fault
            error = self._refusal(response, refusal)
            if error.status in (401, 403) and not renewed and await self._access.renew(target):
                renewed = True
                continue
            if not amended and (instead := self.amended(request, error)) is not None:
                amended, request = True, instead.request
                if instead.note is not None:
                    yield Note(instead.note)
            elif self.leave_out(request, error, payload):
                pass
            elif not blamed and (blamed := suspects(request.messages, error, self.origin)):
                request = attrs.evolve(request, messages=without(request.messages, blamed))
                words = error.without(*self._secrets()).message
            else:
                raise error

    def _exchange_log(
        self, method: str, target: Target, content: bytes, request: Request | None = None
    ) -> Exchange:
        model = f"{self.origin.provider}/{self.origin.model}"
        return Exchange(method, target.url, model=model, size=len(content), request=request)

    async def _read(self, response: HTTPResponse, body: AnswerBody) -> AsyncGenerator[Event, None]:
        progress_at = trio.current_time()
        idle, has_begun = response.idle, False
        chunks = response.chunks()
        try:
            async for chunk in chunks:
                had_finished = body.decoder.finish_seen
                progressed = goes_on = False
                for event in body.feed(chunk):
                    progressed = progressed or not isinstance(event, Progress)
                    goes_on = goes_on or not isinstance(event, _NOT_SAID)
                    yield event
                if body.decoder.done:
                    break
                has_begun = has_begun or goes_on
                is_over = body.decoder.finish_seen and has_begun
                is_ping = not progressed and chunk.lstrip().startswith(b":")
                if is_over and not is_ping:
                    response.idle = idle if had_finished and goes_on else min(idle, TAIL)
                if progressed or (is_over and not had_finished):
                    progress_at = trio.current_time()
                silence = trio.current_time() - progress_at
                if is_over and silence >= response.idle:
                    break
                if not is_over and silence > self._no_progress:
                    words = f"the answer made no progress for {self._no_progress:g} s"
                    raise BackendError("timeout", words, retryable=True)
                if is_ping:
                    yield Progress("ping")
        except HTTPError as fault:
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
        except HTTPError:
            return  # the answer is complete; only the connection is lost


def refused_parameter(
    status: int | None, words: str, payload: Mapping[str, Any], droppable: Sequence[str]
) -> str | None:
    """The optional field of `payload` that a refusal names; None if it is about something else."""
    if status not in (400, 422) or not _REFUSAL.search(words):
        return None
    named = (name for name in droppable if name in payload)
    return next((name for name in named if re.search(rf"\b{name}\b", words)), None)
