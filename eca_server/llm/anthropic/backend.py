"""The backend for the Messages API.

The rules it keeps, beside those of all backends: an answer that pauses goes on by itself, so that
nobody above sees where it did; thinking that is not taken back is left out of one more try, and
the user is told.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar
from urllib.parse import quote

import attrs

from eca_server.llm.answer import Answer
from eca_server.llm.anthropic.decoder import MessagesDecoder
from eca_server.llm.anthropic.messages import MessagesWriter
from eca_server.llm.anthropic.models import read_model
from eca_server.llm.anthropic.request import DROPPABLE, mark_messages, write_request
from eca_server.llm.anthropic.thinking import thinking_of
from eca_server.llm.backend import BackendError, ModelInfo, Request
from eca_server.llm.events import Event, Finished, Started, Usage
from eca_server.llm.history import Message, ReasoningPart
from eca_server.llm.http_backend import Amended, HTTPBackend, refused_parameter
from eca_server.llm.written import Histories

__all__ = ["Anthropic"]

MOST_PAUSES = 10
"""How often one answer may pause, while the provider's own tools run, before it is left at that."""

MOST_PAGES = 20
"""Of a listing of models."""

_CACHE = "cache_control"
_MARGIN = 256
"""Tokens by which the same prompt may count for more the next time."""
_LEAST_ANSWER = 1_024

_OVER_WINDOW = re.compile(r"exceed context limit: (\d+) \+ \d+ > (\d+)")
_OVER_LIMIT = re.compile(r"max_tokens: \d+ > (\d+)")
_THINKING_REFUSED = re.compile(
    r"(?=.*thinking)(?=.*(block|signature|expected|modified))", re.IGNORECASE | re.DOTALL
)
_LEFT_OUT = "The provider did not take back what the model thought before; it goes on without."


class Anthropic(HTTPBackend):
    """A model behind an endpoint that speaks the Messages API.

    Args:
        settings: as for every `HTTPBackend`.
    """

    path = "/v1/messages"
    models_path = "/v1/models?limit=1000"
    headers: ClassVar[Mapping[str, str]] = {
        "accept": "text/event-stream",
        "anthropic-version": "2023-06-01",
    }
    droppable = DROPPABLE

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._known = thinking_of(self.wire_model, self.capabilities)
        self._writer = MessagesWriter(self.origin, images=self.capabilities.images)
        self._histories = Histories(self._writer, mark=self._mark)
        self._told: set[str | None] = set()

    def write(self, request: Request) -> dict[str, Any]:
        """As `HTTPBackend.write`."""
        behind = [] if request.paused is None else [self._writer.paused(request.paused)]
        return write_request(
            request,
            messages=self._histories.written(request.messages, behind=behind),
            origin=self.origin,
            wire_model=self.wire_model,
            known=self._known,
            capabilities=self.capabilities,
            cached=_CACHE not in self._refused,
        )

    def decoder(self, request: Request, headers: Mapping[str, str]) -> MessagesDecoder:
        """As `HTTPBackend.decoder`."""
        last = request.messages[-1] if request.messages else None
        return MessagesDecoder(
            may_be_empty=request.paused is not None or (last is not None and last.role == "tool"),
            request_id=headers.get("request-id"),
        )

    def headers_for(self, request: Request | None) -> Mapping[str, str]:
        """As `HTTPBackend.headers_for`."""
        if request is None or request.reasoning_effort is None or not self._known.betas:
            return self.headers
        return {**self.headers, "anthropic-beta": ",".join(self._known.betas)}

    def refused_field(self, error: BackendError, payload: Mapping[str, Any]) -> str | None:
        """As `HTTPBackend.refused_field`; marks for the cache stand deeper in a request."""
        words = f"{error.message} {error.raw}"
        marked = {} if _CACHE in self._refused else {_CACHE: True}
        if refused_parameter(error.status, words, marked, [_CACHE]):
            return _CACHE
        return super().refused_field(error, payload)

    def amended(self, request: Request, error: BackendError) -> Amended | None:
        """As `HTTPBackend.amended`: a shorter answer, or a history without thinking."""
        if error.status != 400:
            return None
        if match := _OVER_WINDOW.search(error.message):
            left = int(match[2]) - int(match[1]) - _MARGIN
            if left < _LEAST_ANSWER:
                return None
            return Amended(request=attrs.evolve(request, max_output_tokens=left))
        if match := _OVER_LIMIT.search(error.message):
            limit = int(match[1])
            self.capabilities = attrs.evolve(self.capabilities, output=limit)
            return Amended(request=attrs.evolve(request, max_output_tokens=limit))
        without = [_without_thinking(message) for message in request.messages]
        if without == list(request.messages) or not _THINKING_REFUSED.search(error.message):
            return None
        note = None if request.cache_key in self._told else _LEFT_OUT
        self._told.add(request.cache_key)
        return Amended(request=attrs.evolve(request, messages=without), note=note)

    async def models(self) -> Sequence[ModelInfo]:
        """As `Backend.models`; the listing may have several pages."""
        found: list[ModelInfo] = []
        path = self.models_path
        for _ in range(MOST_PAGES):
            listed = await self.get(path)
            found += self.models_of(listed)
            last = listed.get("last_id") if listed.get("has_more") is True else None
            if not isinstance(last, str):
                break
            path = f"{self.models_path}&after_id={quote(last, safe='')}"
        return found

    def read_models(self, listed: Any) -> Sequence[ModelInfo]:
        """As `HTTPBackend.read_models`."""
        return [read_model(each) for each in listed["data"] if each.get("lifecycle") != "retired"]

    async def count_tokens(self, request: Request) -> int | None:
        """As `Backend.count_tokens`; not every server of this API can."""
        unknown = ("max_tokens", "stream")
        payload = {k: v for k, v in self.payload(request).items() if k not in unknown}
        path, _, query = self._path.partition("?")
        try:
            counted = await self.post(f"{path}/count_tokens?{query}", payload)
        except BackendError as error:
            if error.status in (404, 405, 501):
                return None
            raise
        count = counted.get("input_tokens") if isinstance(counted, dict) else None
        return count if isinstance(count, int) else None

    def _mark(self, written: list[dict[str, Any]]) -> None:
        if _CACHE not in self._refused:
            mark_messages(written)

    async def _events(self, request: Request) -> AsyncGenerator[Event, None]:
        answer, used = Answer(), Usage()
        for pauses in range(MOST_PAUSES + 1):
            counted, paused = Usage(), False
            async with aclosing(super()._events(request)) as events:
                async for event in events:
                    match event:
                        case Started() if pauses:
                            continue
                        case Usage():
                            counted = event
                            yield _sum(used, counted)
                            continue
                        case Finished(reason="pause") if pauses < MOST_PAUSES:
                            paused = True
                            continue
                    answer.feed(event)
                    yield event
            if not paused:
                return
            used = _sum(used, counted)
            request = attrs.evolve(request, paused=answer.message(self.origin))


def _without_thinking(message: Message) -> Message:
    parts = tuple(part for part in message.parts if not isinstance(part, ReasoningPart))
    return message if len(parts) == len(message.parts) else attrs.evolve(message, parts=parts)


def _sum(first: Usage, second: Usage) -> Usage:
    """What two requests for one answer used together."""

    def total(name: str) -> Any:
        counts = [getattr(each, name) for each in (first, second)]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    return Usage(**{field.name: total(field.name) for field in attrs.fields(Usage)})
