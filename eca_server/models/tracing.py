"""Requests to models as OpenTelemetry spans, by the GenAI conventions.

Content is recorded only if that is enabled. Without a listener an event costs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

from eca_protocol import json
from eca_server.models import history
from eca_server.models.answer import Answer
from eca_server.models.backend import Request
from eca_server.models.events import Event, Started, Usage
from eca_server.system.telemetry import Operation, is_enabled, operation

_PROVIDER_NAMES = {
    "azure": "azure.ai.openai",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""Providers with a different name in the conventions."""


def traced(
    origin: history.Origin,
    request: Request,
    stream: AbstractAsyncContextManager[AsyncIterator[Event]],
) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
    """Return `stream`, the answer to `request`; its events are recorded on a span if enabled."""
    return _recorded(origin, request, stream) if is_enabled() else stream


@asynccontextmanager
async def _recorded(
    origin: history.Origin,
    request: Request,
    stream: AbstractAsyncContextManager[AsyncIterator[Event]],
) -> AsyncIterator[AsyncIterator[Event]]:
    async with operation(
        "chat",
        origin.model,
        gen_ai__provider__name=_PROVIDER_NAMES.get(origin.provider, origin.provider),
        gen_ai__request__model=origin.model,
    ) as span:
        if not span.is_recorded:
            async with stream as events:
                yield events
            return
        span.set(
            gen_ai__conversation__id=request.cache_key,
            gen_ai__request__max_tokens=request.max_output_tokens,
            gen_ai__request__stream=True,
        )
        if span.records_content:
            span.set(
                gen_ai__system_instructions=_json([{"type": "text", "content": request.system}]),
                gen_ai__input__messages=_messages(request.messages),
            )
        answer = Answer()
        try:
            async with stream as events, aclosing(_watched(events, span, answer)) as watched:
                yield watched
        finally:
            _record(span, answer, origin)


async def _watched(
    events: AsyncIterator[Event], span: Operation, answer: Answer
) -> AsyncGenerator[Event, None]:
    """Yield the same events; feed the answer, and record what the first event names."""
    async for event in events:
        answer.feed(event)
        if isinstance(event, Started):
            span.set(gen_ai__response__id=event.response_id, gen_ai__response__model=event.model)
        yield event


def _record(span: Operation, answer: Answer, origin: history.Origin) -> None:
    """Record the attributes that are known at the end, however the answer ends."""
    usage = answer.usage or Usage()
    prompt = [usage.input, usage.cache_read, usage.cache_write]
    tokens = sum(count or 0 for count in prompt) if any(prompt) else None
    span.set(
        gen_ai__response__finish_reasons=answer.finished and [answer.finished.reason],
        gen_ai__usage__input_tokens=tokens,
        gen_ai__usage__cache_read__input_tokens=usage.cache_read,
        gen_ai__usage__cache_creation__input_tokens=usage.cache_write,
        gen_ai__usage__output_tokens=usage.output,
        gen_ai__usage__reasoning__output_tokens=usage.reasoning,
    )
    span.count_tokens("input", tokens)
    span.count_tokens("output", usage.output)
    if span.records_content:
        span.set(gen_ai__output__messages=_messages([answer.message(origin)]))


def _messages(messages: Sequence[history.Message]) -> str:
    return _json(
        [
            {"role": message.role, "parts": [_part(part) for part in message.parts]}
            for message in messages
        ]
    )


def _part(part: history.Part) -> dict[str, Any]:
    match part:
        case history.TextPart(text=text):
            return {"type": "text", "content": text}
        case history.ReasoningPart(text=text):
            return {"type": "reasoning", "content": text}
        case history.ToolCallPart(id=call_id, name=name, arguments=arguments):
            return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
        case history.ToolResultPart(call_id=call_id, parts=parts):
            text = "".join(inner.text for inner in parts if isinstance(inner, history.TextPart))
            return {"type": "tool_call_response", "id": call_id, "response": text}
        case _:
            return {"type": type(part).__name__.removesuffix("Part").lower()}


def _json(value: Any) -> str:
    return json.dumps(value).decode()
