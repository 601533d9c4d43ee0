"""The backend for Responses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs
from typing_extensions import override

from eca_server.models.backend import BackendError, Request
from eca_server.models.encoding import HistoryEncoder
from eca_server.models.history import ReasoningPart
from eca_server.models.http_backend import AmendedRequest, HTTPBackend
from eca_server.models.openai_responses.decoder import ResponsesDecoder
from eca_server.models.openai_responses.input_items import ResponsesWriter
from eca_server.models.openai_responses.profiles import PROFILES, Profile
from eca_server.models.openai_responses.request import DROPPABLE, write_request
from eca_server.models.reasoning import REASONING_DROPPED

_SUMMARY = "reasoning.summary"

_REASONING_REFUSED = re.compile(r"encrypted.content|\brs_\w+|reasoning'? item", re.IGNORECASE)
"""A refusal of reasoning items that were sent back: from a different account, with a changed key,
without the item that followed, or by an id that is not stored."""

_TYPE_DEMANDED = re.compile(r"cannot determine type of 'item'", re.IGNORECASE)
"""A refusal of earlier answers without a type, by llama.cpp under any provider's name."""


class OpenAIResponses(HTTPBackend):
    """A model behind an endpoint that speaks Responses.

    Args:
        profile: the server's options; None: those of its provider.
        settings: the arguments of `HTTPBackend`.
    """

    path = "/responses"
    droppable = DROPPABLE
    server_wide = frozenset({"prompt_cache_key", "store", "stream_options"})

    def __init__(self, *, profile: Profile | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self._profile = profile or PROFILES.get(self.server, Profile())
        self.headers = {**self.headers, **self._profile.headers}
        self._refused_items: frozenset[str] = frozenset()
        self._encoder = self._empty_histories()

    @override
    def write(self, request: Request) -> dict[str, Any]:
        return write_request(
            request,
            wire_model=self.wire_model,
            profile=self._profile,
            histories=self._encoder,
            capabilities=self.capabilities,
        )

    @override
    def payload(self, request: Request) -> dict[str, Any]:
        """Also leave out a refused summary, a part of the field `reasoning`."""
        payload = super().payload(request)
        reasoning = payload.get("reasoning")
        if _SUMMARY in self._refused and isinstance(reasoning, dict):
            payload["reasoning"] = {k: v for k, v in reasoning.items() if k != "summary"}
        return payload

    @override
    def decoder(self, request: Request) -> ResponsesDecoder:
        return ResponsesDecoder(may_be_empty=request.ends_with_results)

    @override
    def amend(self, request: Request, error: BackendError) -> AmendedRequest | None:
        """Retry with typed messages, or without the refused reasoning items."""
        if not self._profile.typed_messages and _TYPE_DEMANDED.search(error.message):
            self._profile = attrs.evolve(self._profile, typed_messages=True)
            self._encoder = self._empty_histories()
            return AmendedRequest(request=request)
        refused = _REASONING_REFUSED.search(f"{error.message} {error.raw}")
        sent_ids = self._reasoning_ids(request) - self._refused_items
        if error.status not in (400, 404) or not refused or not sent_ids:
            return None
        self._refused_items |= sent_ids
        self._encoder = self._empty_histories()
        return AmendedRequest(request=request, note=REASONING_DROPPED)

    @override
    def refused_field(self, error: BackendError, payload: Mapping[str, Any]) -> str | None:
        """Recognize a refused summary, whose effort may stay."""
        name = super().refused_field(error, payload)
        reasoning = payload["reasoning"] if name == "reasoning" else None
        if isinstance(reasoning, dict) and "summary" in reasoning and "summary" in error.raw:
            return _SUMMARY
        return name

    def _empty_histories(self) -> HistoryEncoder:
        writer = ResponsesWriter(
            self.origin,
            self._profile,
            images=self.capabilities.images,
            refused=self._refused_items,
        )
        return HistoryEncoder(writer)

    def _reasoning_ids(self, request: Request) -> set[str]:
        """Return the ids of this model's own reasoning items in a request."""
        parts = (
            part
            for message in request.messages
            if message.origin == self.origin
            for part in message.parts
        )
        opaque = (part.opaque for part in parts if isinstance(part, ReasoningPart))
        return {str(item.get("id")) for item in opaque if isinstance(item, dict)}
