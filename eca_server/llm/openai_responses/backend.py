"""The backend for Responses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from eca_server.llm.backend import BackendError, Request
from eca_server.llm.history import ReasoningPart
from eca_server.llm.http_backend import Amended, HTTPBackend
from eca_server.llm.openai_responses.decoder import ResponsesDecoder
from eca_server.llm.openai_responses.input_items import ResponsesWriter
from eca_server.llm.openai_responses.profiles import PROFILES, Profile
from eca_server.llm.openai_responses.request import DROPPABLE, write_request
from eca_server.llm.written import Histories

__all__ = ["OpenAIResponses"]

_SUMMARY = "reasoning.summary"

_COUNTED = frozenset(
    {"input", "instructions", "model", "reasoning", "tool_choice", "tools", "truncation"}
)
"""Fields of a request that count."""

_REASONING_REFUSED = re.compile(
    r"invalid_encrypted_content|encrypted content|\brs_\w+|reasoning'? item", re.IGNORECASE
)
"""A refusal of reasoning items that were sent back: of another account, with a key that was
changed, without the item that followed, or looked for where nothing is stored."""


class OpenAIResponses(HTTPBackend):
    """A model behind an endpoint that speaks Responses.

    Args:
        profile: what the server takes; None: what is known of it by the provider.
        settings: as for every `HTTPBackend`.
    """

    path = "/responses"
    droppable = DROPPABLE
    of_the_server = frozenset({"prompt_cache_key", "store", "stream_options"})

    def __init__(self, *, profile: Profile | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self._profile = profile or PROFILES.get(self.server, Profile())
        self._refused_items: frozenset[str] = frozenset()
        self._histories = self._empty_histories()

    def write(self, request: Request) -> dict[str, Any]:
        """As `HTTPBackend.write`."""
        return write_request(
            request,
            wire_model=self.wire_model,
            profile=self._profile,
            histories=self._histories,
            capabilities=self.capabilities,
        )

    def payload(self, request: Request) -> dict[str, Any]:
        """As `HTTPBackend.payload`; of what is asked about reasoning a part may be refused."""
        payload = super().payload(request)
        reasoning = payload.get("reasoning")
        if _SUMMARY in self._refused and isinstance(reasoning, dict):
            payload["reasoning"] = {k: v for k, v in reasoning.items() if k != "summary"}
        return payload

    def decoder(self, request: Request, headers: Mapping[str, str]) -> ResponsesDecoder:
        """As `HTTPBackend.decoder`."""
        last = request.messages[-1] if request.messages else None
        return ResponsesDecoder(
            may_be_empty=last is not None and last.role == "tool",
            request_id=headers.get("x-request-id"),
        )

    def headers_for(self, request: Request | None) -> Mapping[str, str]:
        """As `HTTPBackend.headers_for`: the profile adds its own."""
        added = {name.lower(): value for name, value in self._profile.headers.items()}
        return {**self.headers, **added}

    def amended(self, request: Request, error: BackendError) -> Amended | None:
        """As `HTTPBackend.amended`: without the reasoning items that are not taken back."""
        refused = _REASONING_REFUSED.search(f"{error.message} {error.raw}")
        sent = self._reasoning_ids(request) - self._refused_items
        if error.status not in (400, 404) or not refused or not sent:
            return None
        self._refused_items |= sent
        self._histories = self._empty_histories()
        note = "The provider did not take back what the model had thought: it goes on without."
        return Amended(request=request, note=note)

    def refused_field(self, error: BackendError, payload: Mapping[str, Any]) -> str | None:
        """As `HTTPBackend.refused_field`; a summary may be refused without the effort."""
        name = super().refused_field(error, payload)
        asked = payload["reasoning"] if name == "reasoning" else None
        if isinstance(asked, dict) and "summary" in asked and "summary" in error.raw:
            return _SUMMARY
        return name

    async def count_tokens(self, request: Request) -> int | None:
        """As `Backend.count_tokens`; not every server of this API can."""
        payload = self.payload(request)
        path, _, query = self._path.partition("?")
        try:
            counted = await self.post(
                f"{path}/input_tokens?{query}",
                {name: payload[name] for name in payload if name in _COUNTED},
            )
        except BackendError as error:
            if error.status in (404, 405, 501):
                return None
            raise
        count = counted.get("input_tokens") if isinstance(counted, dict) else None
        return count if isinstance(count, int) else None

    def _empty_histories(self) -> Histories:
        writer = ResponsesWriter(
            self.origin,
            self._profile,
            images=self.capabilities.images,
            refused=self._refused_items,
        )
        return Histories(writer)

    def _reasoning_ids(self, request: Request) -> set[str]:
        """Of the reasoning items in a request that are this model's own."""
        parts = (
            part
            for message in request.messages
            if message.origin == self.origin
            for part in message.parts
        )
        opaque = (part.opaque for part in parts if isinstance(part, ReasoningPart))
        return {str(item.get("id")) for item in opaque if isinstance(item, dict)}
