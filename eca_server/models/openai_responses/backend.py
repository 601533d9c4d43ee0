"""The backend for Responses.

The server stores nothing, so each request is complete. A field that a server may not accept is at
the top level, under the name by which the server refuses it.
"""

from __future__ import annotations

import hashlib
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
        settings: the arguments of `HTTPBackend`.
    """

    path = "/responses"
    droppable = (
        "include",
        "max_output_tokens",
        "parallel_tool_calls",
        "prompt_cache_key",
        "reasoning",
        "store",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "top_p",
        "truncation",
    )
    server_wide = frozenset({"prompt_cache_key", "store", "stream_options"})

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._profile = PROFILES.get(self.server, Profile())
        self.headers = {**self.headers, **self._profile.headers}
        self._refused_items: frozenset[str] = frozenset()
        self._encoder = self._empty_histories()

    @override
    def write(self, request: Request) -> dict[str, Any]:
        profile, thinks = self._profile, self.capabilities.reasoning
        payload: dict[str, Any] = {
            "model": self.wire_model,
            "input": self._encoder.written(request.messages),
            "stream": True,
            "store": False,
        }
        if request.system.strip():
            payload["instructions"] = request.system
        if tools := _tools(request, web_search=self.capabilities.web_search):
            payload["tools"] = tools
        if request.max_output_tokens is not None:
            payload["max_output_tokens"] = request.max_output_tokens
        payload |= _reasoning_fields(request.reasoning_effort, profile, thinks=thinks)
        if request.cache_key is not None and profile.cache_key:
            digest = hashlib.sha256(request.cache_key.encode()).hexdigest()
            payload["prompt_cache_key"] = digest[:32]
        return {**payload, **profile.extra}

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
            self._profile,
            images=self.capabilities.images,
            refused=self._refused_items,
        )
        return HistoryEncoder(writer, self.origin)

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


def _tools(request: Request, *, web_search: bool) -> list[dict[str, Any]]:
    tools = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": False,
        }
        for tool in request.tools
    ]
    return [*tools, {"type": "web_search"}] if web_search else tools


def _reasoning_fields(effort: str | None, profile: Profile, *, thinks: bool) -> dict[str, Any]:
    """Return the reasoning options; none for a model without reasoning, which refuses them."""
    reasoning: dict[str, Any] = {"effort": effort} if effort else {}
    reasons = effort != "none" and (thinks or effort is not None)
    if reasons and profile.summary is not None:
        reasoning["summary"] = profile.summary
    fields: dict[str, Any] = {"reasoning": reasoning} if reasoning else {}
    if reasons and profile.encrypted_reasoning:
        fields["include"] = ["reasoning.encrypted_content"]
    return fields
