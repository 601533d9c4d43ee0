"""The backend for the Messages API.

A paused answer is continued here, so that callers see one answer. If the provider refuses the
reasoning of earlier answers, the request is repeated once without it, and the user is notified.

The marks for the provider's cache, of which there may be four, are where the next request looks for
them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

import attrs
from typing_extensions import override

from eca_server.json_members import count_in, object_in
from eca_server.models import listings
from eca_server.models.answer import Answer
from eca_server.models.anthropic.decoder import MessagesDecoder
from eca_server.models.anthropic.messages import MessagesWriter, mark_for_cache
from eca_server.models.anthropic.thinking import thinking_fields, thinking_support
from eca_server.models.backend import BackendError, ModelInfo, Request, Tool
from eca_server.models.encoding import HistoryEncoder
from eca_server.models.events import Event, Finished, Started, Usage
from eca_server.models.facts import ModelFacts
from eca_server.models.history import Origin, ReasoningPart, ToolCallPart
from eca_server.models.http_backend import AmendedRequest, HTTPBackend, refused_parameter
from eca_server.models.reasoning import demands_reasoning, without_reasoning

MAX_PAUSES = 10
"""The most pauses of one answer, while the provider's own tools run."""

_CACHE = "cache_control"
_MARGIN = 256
"""Tokens that the same prompt may count more the next time."""
_LEAST_ANSWER = 1_024

_ANSWER = 64_000
_ANSWER_UNKNOWN = 32_000
"""Default limits of an answer, in tokens."""

_SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 10}

_NO_TOOL = Tool(name="none", description="No tools are available.", parameters={})

_OVER_WINDOW = re.compile(r"exceed context limit: (\d{1,15}) \+ \d+ > (\d{1,15})\b")
_OVER_LIMIT = re.compile(r"max_tokens: \d+ > 0*([1-9]\d{,14})\b")
_THINKING_REFUSED = re.compile(
    r"\A(?=.*thinking)(?=.*(block|signature|expected|modified))", re.IGNORECASE | re.DOTALL
)


class Anthropic(HTTPBackend):
    """A model behind an endpoint that speaks the Messages API.

    Args:
        settings: the arguments of `HTTPBackend`.
    """

    path = "/v1/messages"
    models_path = "/v1/models?limit=1000"
    headers: Mapping[str, str] = {
        "accept": "text/event-stream",
        "anthropic-version": "2023-06-01",
    }
    droppable = (
        "metadata",
        "output_config",
        "service_tier",
        "temperature",
        "thinking",
        "tool_choice",
        "top_k",
        "top_p",
    )

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._thinking_support = thinking_support(self.wire_model, self.capabilities)
        self._write_with(thinking_required=False)

    @override
    def write(self, request: Request) -> dict[str, Any]:
        max_tokens = request.max_output_tokens  # this API requires it
        if max_tokens is None:
            max_tokens = min(self.capabilities.output or _ANSWER_UNKNOWN, _ANSWER)
        payload: dict[str, Any] = {
            "model": self.wire_model,
            "max_tokens": max_tokens,
            "stream": True,
        }
        tools = [_tool(tool) for tool in request.tools]
        if tools and self.capabilities.web_search:
            tools.append(dict(_SEARCH))
        if not tools and _has_calls(request):  # the API refuses calls without tools
            tools = [_tool(_NO_TOOL)]
            payload["tool_choice"] = {"type": "none"}
        system = [{"type": "text", "text": request.system}] if request.system.strip() else []
        for name, blocks in (("tools", tools), ("system", system)):
            if blocks:
                if _CACHE not in self._refused:
                    mark_for_cache(blocks)
                payload[name] = blocks
        support, effort = self._thinking_support, request.reasoning_effort
        thinking = thinking_fields(effort, support, max_tokens=max_tokens)
        is_enabled = thinking.get("thinking", {}).get("type") == "enabled"
        if is_enabled and not _may_begin_to_think(request, self.origin):
            thinking = {}
        trailing = [] if request.paused is None else [self._writer.paused(request.paused)]
        messages = self._encoder.written(request.messages, trailing=trailing)
        return {**payload, **thinking, "messages": messages}

    @override
    def decoder(self, request: Request) -> MessagesDecoder:
        return MessagesDecoder(
            may_be_empty=request.paused is not None or request.ends_with_results,
        )

    @override
    def headers_for(self, request: Request | None) -> Mapping[str, str]:
        if request is None or request.reasoning_effort is None or not self._thinking_support.betas:
            return self.headers
        return {**self.headers, "anthropic-beta": ",".join(self._thinking_support.betas)}

    @override
    def refused_field(self, error: BackendError, payload: Mapping[str, Any]) -> str | None:
        """Also recognize a refusal of cache marks, which are nested in the request."""
        text = f"{error.message} {error.raw}"
        fields = {} if _CACHE in self._refused else {_CACHE: True}
        if refused_parameter(error.status, text, fields, [_CACHE]):
            return _CACHE
        return super().refused_field(error, payload)

    @override
    def amend(self, request: Request, error: BackendError) -> AmendedRequest | None:
        """Retry with a shorter answer, or with reasoning in all answers of the history, or in none.

        Compatible servers demand what Anthropic refuses, reasoning that it has not made.
        """
        if demands_reasoning(error) and not self._writer.thinking_required:
            self._write_with(thinking_required=True)
            return AmendedRequest(request=request)
        if error.status != 400:
            return None
        if (limit := self._allowed_output(error.message)) is not None:
            return AmendedRequest(request=attrs.evolve(request, max_output_tokens=limit))
        if not _THINKING_REFUSED.search(error.message):
            return None
        return self.with_messages(request, [*map(without_reasoning, request.messages)])

    @override
    def next_page(self, listed: Any) -> str | None:
        last = listed.get("last_id") if listed.get("has_more") is True else None
        return f"after_id={quote(last, safe='')}" if isinstance(last, str) else None

    @override
    def read_models(self, listed: Any) -> Sequence[ModelInfo]:
        return [read_model(each) for each in listed["data"] if each.get("lifecycle") != "retired"]

    def _write_with(self, *, thinking_required: bool) -> None:
        self._writer = MessagesWriter(
            images=self.capabilities.images, thinking_required=thinking_required
        )
        self._encoder = HistoryEncoder(self._writer, self.origin, mark=self._mark)

    def _allowed_output(self, refusal: str) -> int | None:
        """Return the output limit that a refusal asks for; None: it names none worth a retry."""
        if match := _OVER_WINDOW.search(refusal):
            remaining = int(match[2]) - int(match[1]) - _MARGIN
            return remaining if remaining >= _LEAST_ANSWER else None
        if match := _OVER_LIMIT.search(refusal):
            limit = int(match[1])
            self.capabilities = attrs.evolve(self.capabilities, output=limit)
            return limit
        return None

    def _mark(self, written: list[dict[str, Any]]) -> None:
        """Mark the last two user messages for the cache.

        The earlier of the two was the last in the previous request. So the prefix that this request
        cached is found again, whatever came since.
        """
        if _CACHE not in self._refused:
            for message in [each for each in written if each["role"] == "user"][-2:]:
                mark_for_cache(message["content"])

    @override
    async def _events(self, request: Request) -> AsyncGenerator[Event, None]:
        answer, earlier = Answer(), Usage()
        for pauses in range(MAX_PAUSES + 1):
            latest, paused = Usage(), False
            async with aclosing(super()._events(request)) as events:
                async for event in events:
                    match event:
                        case Started() if pauses:
                            continue
                        case Usage():
                            latest = event
                            yield _sum(earlier, latest)
                            continue
                        case Finished(reason="pause") if pauses < MAX_PAUSES:
                            paused = True
                            continue
                    answer.feed(event)
                    yield event
            if not paused:
                return
            earlier = _sum(earlier, latest)
            request = attrs.evolve(request, paused=answer.message(self.origin))


def _sum(first: Usage, second: Usage) -> Usage:

    def total(name: str) -> Any:
        counts = [getattr(each, name) for each in (first, second)]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    return Usage(**{field.name: total(field.name) for field in attrs.fields(Usage)})


def read_model(listed: Mapping[str, Any]) -> ModelInfo:
    """Read one model of a listing, which may say little, or in the fields of a different API.

    Raises:
        KeyError: the model has no id.
    """
    abilities = object_in(listed, "capabilities")
    thinking, effort = object_in(abilities, "thinking"), object_in(abilities, "effort")
    types, efforts = _supported(object_in(thinking, "types")), _supported(effort)
    general = listings.read_model(listed)
    return ModelInfo(
        name=str(listed["id"]),
        facts=ModelFacts(
            images="image_input" in _supported(abilities) if "image_input" in abilities else None,
            reasoning=thinking.get("supported") is True or None,
            context=count_in(listed, "max_input_tokens"),
            output=count_in(listed, "max_tokens"),
            thinking=frozenset(types) if thinking else None,
            efforts=tuple(efforts) if effort else None,
        ).with_defaults(general.facts),
    )


def _supported(abilities: Mapping[str, Any]) -> list[str]:
    return [name for name in abilities if object_in(abilities, name).get("supported") is True]


def _has_calls(request: Request) -> bool:
    return any(
        isinstance(part, ToolCallPart) for message in request.messages for part in message.parts
    )


def _may_begin_to_think(request: Request, origin: Origin) -> bool:
    """Return whether to allow thinking: a running loop of calls must have started with it."""
    if not request.messages or request.messages[-1].role != "tool":
        return True
    answers = (message for message in reversed(request.messages) if message.role == "assistant")
    last = next(answers, None)
    if last is None or not last.parts:
        return True
    return last.origin == origin and isinstance(last.parts[0], ReasoningPart)


def _tool(tool: Tool) -> dict[str, Any]:
    """Write a tool; its schema must be that of an object, without alternatives at the top."""
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": {**_without_alternatives(tool.parameters), "type": "object"},
    }


def _without_alternatives(schema: Mapping[str, Any]) -> dict[str, Any]:
    refused = ("oneOf", "anyOf", "allOf")
    return {name: value for name, value in schema.items() if name not in refused}
