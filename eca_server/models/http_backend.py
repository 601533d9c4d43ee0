"""A model over HTTP: the common part of all APIs.

- An optional field that a server refuses by name is left out of all further requests, and the
  request is repeated once; the same holds for an image or document that it does not accept.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing, asynccontextmanager
from typing import Any, ClassVar

import attrs

from eca_protocol import json
from eca_server.models.answer_body import AnswerBody, Framing
from eca_server.models.answer_reader import read_answer
from eca_server.models.attachments import Attachment, suspected_attachments, without_attachments
from eca_server.models.backend import BackendError, ModelInfo, Request
from eca_server.models.encoding import encoded
from eca_server.models.events import Event, Note
from eca_server.models.facts import Capabilities
from eca_server.models.history import Message, Origin
from eca_server.models.listings import read_models
from eca_server.models.provider_client import ProviderClient
from eca_server.models.reasoning import REASONING_DROPPED
from eca_server.models.stream_decoder import StreamDecoder
from eca_server.printable import printable_line

MAX_PAGES = 20
"""The most pages that are read of a listing of models."""
MAX_LISTED = 5_000
"""The most models that are read of a page; a million would keep all chats waiting for minutes."""

_ATTACHMENT_REJECTED = (
    "The provider refused an image or document; the chat continues without it. Its message: {}"
)

_REFUSAL = re.compile(
    r"unsupported|unknown|unrecognized|unexpected|extra|invalid parameter|deprecated"
    r"|not permitted|not supported|not allowed|(does not|doesn't) support",
    re.IGNORECASE,
)


@attrs.frozen(kw_only=True)
class AmendedRequest:
    """The replacement of a refused request.

    Attributes:
        request: the request without the cause of the refusal.
    """

    request: Request
    note: str | None = None


class HTTPBackend(ABC):
    """A `Backend` for one model behind one base URL; an API overrides what differs.

    Args:
        server: the known provider whose options apply, or the provider's own name; None: that.
        path: replaces the API's own path.
        extra_payload: merged into each request; a null removes the key, a list is added to ours,
            an object is merged into ours.
        no_progress: the longest time without an event, in seconds, whatever bytes come.
        refused: the fields that the server has refused; shared by all of its models.
        think_tags: the tags around reasoning in the text of an answer; None: the usual ones.
    """

    path: ClassVar[str]
    """The API's own path; `{model}` stands for the model."""
    framing: ClassVar[Framing] = "sse"
    headers: Mapping[str, str] = {"accept": "text/event-stream"}
    """The headers of each request, besides its content type."""
    droppable: ClassVar[Sequence[str]] = ()
    """Optional fields at the top level of a request."""
    server_wide: ClassVar[AbstractSet[str]] = frozenset()
    """The optional fields that a server accepts for all of its models or for none."""
    models_path: ClassVar[str] = "/models"

    def __init__(
        self,
        *,
        client: ProviderClient,
        origin: Origin,
        server: str | None = None,
        wire_model: str | None = None,
        path: str | None = None,
        extra_payload: Mapping[str, Any] | None = None,
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
        self.client = client
        self._path = (path or self.path).replace("{model}", self.wire_model)
        self._extra_payload = dict(extra_payload or {})
        self._no_progress = no_progress
        self._refused_by_server = refused if refused is not None else set()
        self._refused: set[str] = set()  # by this model
        self._notified: set[str | None] = set()  # the chats with a note on dropped reasoning
        self._rejected: AbstractSet[Attachment] = frozenset()

    @abstractmethod
    def write(self, request: Request) -> dict[str, Any]:
        """Write `request` in the API's format: an object whose values may be `EncodedJSON`."""

    @abstractmethod
    def decoder(self, request: Request) -> StreamDecoder:
        """Return the decoder of the answer to `request`."""

    def headers_for(self, request: Request | None) -> Mapping[str, str]:
        """Return the headers of a request, besides its content type and its key."""
        return self.headers

    def leave_out(self, request: Request, error: BackendError, payload: Mapping[str, Any]) -> bool:
        """Leave the cause of a refusal out of further requests; return False if there is none."""
        name = self.refused_field(error, payload)
        if name is None:
            return False
        (self._refused_by_server if name in self.server_wide else self._refused).add(name)
        return True

    def refused_field(self, error: BackendError, payload: Mapping[str, Any]) -> str | None:
        """Return the optional field of `payload` that a refusal names; None: it names none."""
        text = f"{error.message} {error.raw}"
        return refused_parameter(error.status, text, payload, self.droppable)

    def amend(self, request: Request, error: BackendError) -> AmendedRequest | None:
        """Return a replacement for a refused request, to be sent once; None: there is none."""
        return None

    def with_messages(self, request: Request, messages: list[Message]) -> AmendedRequest | None:
        """Return a request with less reasoning, with a note once in a chat; None: no less."""
        if messages == list(request.messages):
            return None
        note = None if request.cache_key in self._notified else REASONING_DROPPED
        self._notified.add(request.cache_key)
        return AmendedRequest(request=attrs.evolve(request, messages=messages), note=note)

    def read_models(self, listed: Any) -> Sequence[ModelInfo]:
        """Read the endpoint's list of models; raise TypeError or KeyError if it is malformed."""
        return read_models(listed)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Event]]:
        """Stream the answer; secrets in errors are masked."""
        async with aclosing(self._events(request)) as events:
            try:
                yield events
            except BackendError as error:
                self.client.masked(error)
                raise

    async def models(self) -> Sequence[ModelInfo]:
        """Return the models that the endpoint lists, on all pages.

        Raises:
            BackendError: the listing failed.
        """
        models: list[ModelInfo] = []
        path = self.models_path
        for _ in range(MAX_PAGES):
            listed = await self.get(path)
            models += self.parse_models(listed)
            following = self.next_page(listed)
            if following is None:
                break
            path = f"{self.models_path}&{following}"
        return models

    def next_page(self, listed: Any) -> str | None:
        """Return the query of the page after this one, or None."""
        return None

    def parse_models(self, listed: Any) -> Sequence[ModelInfo]:
        """Read the endpoint's list of models; raise BackendError if it is malformed."""
        try:
            return self.read_models(_shortened(listed))
        except (AttributeError, TypeError, KeyError):
            excerpt = printable_line(json.dumps(listed).decode(), longest=200)
            raise BackendError("protocol", f"expected a list of models, got {excerpt}") from None

    def payload(self, request: Request) -> dict[str, Any]:
        """Return the JSON object for `request`; its values may be `EncodedJSON`."""
        payload = self.write(request)
        for name, value in self._extra_payload.items():
            current = payload.get(name)
            if isinstance(current, list) and isinstance(value, list):
                payload[name] = [*current, *value]
            elif isinstance(current, dict) and isinstance(value, Mapping):
                both = {**current, **value}
                payload[name] = {key: each for key, each in both.items() if each is not None}
            else:
                payload[name] = value
        if payload.get("stream") is False:  # servers refuse the options without a stream
            payload.pop("stream_options", None)
        refused = self._refused | self._refused_by_server
        return {
            name: value
            for name, value in payload.items()
            if name not in refused and (value is not None or name not in self._extra_payload)
        }

    async def get(self, path: str) -> Any:
        """Get the JSON at `path`."""
        return await self.client.json("GET", path, b"", self.headers_for(None))

    async def post(self, path: str, payload: Mapping[str, Any]) -> Any:
        """Post `payload` and return the JSON answer, for requests other than to the model."""
        return await self.client.json("POST", path, encoded(payload), self.headers_for(None))

    async def _events(self, request: Request) -> AsyncGenerator[Event, None]:
        renewed = amended = False
        suspected: AbstractSet[Attachment] = frozenset()
        refusal_message = ""
        if self._rejected:
            messages = without_attachments(request.messages, self._rejected)
            request = attrs.evolve(request, messages=messages)
        while True:
            target = await self.client.access.target(self._path, request)
            payload = self.payload(request)
            async with self.client.open(
                "POST",
                target,
                headers=self.headers_for(request),
                content=encoded(payload),
                request=request,
            ) as (response, log):
                if response.status == 200:
                    if suspected:
                        self._rejected |= suspected
                        yield Note(_ATTACHMENT_REJECTED.format(refusal_message))
                    body = AnswerBody(
                        content_type=response.headers.get("content-type", ""),
                        decoder=self.decoder(request),
                        framing=self.framing,
                    )
                    answer = read_answer(response, body, no_progress=self._no_progress)
                    async with aclosing(log.watch(answer)) as events:
                        async for event in events:
                            yield event
                    return
                refusal = await response.read_excerpt()
            error = self.client.refusal(response, refusal)
            if (
                error.status in (401, 403)
                and not renewed
                and await self.client.access.renew(target)
            ):
                renewed = True
                continue
            if not amended and (replacement := self.amend(request, error)) is not None:
                amended, request = True, replacement.request
                if replacement.note is not None:
                    yield Note(replacement.note)
            elif self.leave_out(request, error, payload):
                pass
            elif more := suspected_attachments(request.messages, error, self.origin):
                suspected |= more
                request = attrs.evolve(
                    request, messages=without_attachments(request.messages, suspected)
                )
                refusal_message = self.client.masked(error).message
            else:
                raise error


def _shortened(listed: Any) -> Any:
    """Return a listing whose list, in an object or bare, has at most `MAX_LISTED` models."""
    if isinstance(listed, dict):
        return {name: _shortened(each) for name, each in listed.items()}
    return listed[:MAX_LISTED] if isinstance(listed, list) else listed


def refused_parameter(
    status: int | None, text: str, payload: Mapping[str, Any], droppable: Sequence[str]
) -> str | None:
    """Return the optional field of `payload` that a refusal names; None: it names none."""
    if status not in (400, 422) or not _REFUSAL.search(text):
        return None
    present = (name for name in droppable if name in payload)
    return next((name for name in present if re.search(_spellings(name), text)), None)


def _spellings(name: str) -> str:
    """Return the pattern of a parameter's name; xAI writes it in camel case."""
    first, *rest = name.split("_")
    return rf"\b({name}|{first}{''.join(map(str.capitalize, rest))})\b"
