"""A request in the format of the Messages API. Pure functions.

The marks for the provider's cache, of which there may be four, are where the next request looks for
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_server.models.anthropic.messages import mark_for_cache
from eca_server.models.anthropic.thinking import ThinkingSupport, thinking_fields
from eca_server.models.backend import Request, Tool
from eca_server.models.encoding import EncodedJSON
from eca_server.models.facts import Capabilities
from eca_server.models.history import Origin, ReasoningPart, ToolCallPart

DROPPABLE = (
    "metadata",
    "output_config",
    "service_tier",
    "temperature",
    "thinking",
    "tool_choice",
    "top_k",
    "top_p",
)
"""Optional fields at the top level of a request."""

_ANSWER = 64_000
_ANSWER_UNKNOWN = 32_000
"""Default limits of an answer, in tokens."""

_SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 10}

_NO_TOOL = Tool(name="none", description="No tools are available.", parameters={})


def output_limit(request: Request, capabilities: Capabilities) -> int:
    """Return the limit of the answer, which this API requires."""
    if request.max_output_tokens is not None:
        return request.max_output_tokens
    return min(capabilities.output or _ANSWER_UNKNOWN, _ANSWER)


def mark_messages(written: list[dict[str, Any]]) -> None:
    """Mark the last two user messages for the cache.

    The earlier of the two was the last in the previous request. So the prefix that this request
    cached is found again, whatever came since.
    """
    for message in [each for each in written if each["role"] == "user"][-2:]:
        mark_for_cache(message["content"])


def write_request(
    request: Request,
    *,
    messages: EncodedJSON,
    origin: Origin,
    wire_model: str,
    support: ThinkingSupport,
    capabilities: Capabilities,
    cached: bool,
) -> dict[str, Any]:
    """Return the JSON object to post; optional fields are at its top level, to be droppable."""
    max_tokens = output_limit(request, capabilities)
    payload: dict[str, Any] = {"model": wire_model, "max_tokens": max_tokens, "stream": True}
    tools, choice = [_tool(tool) for tool in request.tools], request.tool_choice
    if tools and capabilities.web_search:
        tools.append(dict(_SEARCH))
    if not tools and _has_calls(request):  # the API refuses calls without tools
        tools, choice = [_tool(_NO_TOOL)], "none"
    system = [{"type": "text", "text": request.system}] if request.system.strip() else []
    for name, blocks in (("tools", tools), ("system", system)):
        if blocks:
            if cached:
                mark_for_cache(blocks)
            payload[name] = blocks
    thinking = thinking_fields(request.reasoning_effort, support, max_tokens=max_tokens)
    kind = thinking.get("thinking", {}).get("type")
    if kind == "enabled" and not _may_begin_to_think(request, origin):
        thinking, kind = {}, None
    if choice == "none" and tools:
        payload["tool_choice"] = {"type": "none"}
    elif choice == "required" and tools and kind in (None, "disabled"):
        payload["tool_choice"] = {"type": "any"}  # the API refuses it together with thinking
    return {**payload, **thinking, "messages": messages}


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
