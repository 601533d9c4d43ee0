"""A request in the words of the Messages API. Pure functions.

The rule it keeps: marks for the provider's cache, of which there may be four, stand where the next
request will look for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_server.llm.anthropic.messages import mark_for_cache
from eca_server.llm.anthropic.thinking import Thinking, thinking_fields
from eca_server.llm.backend import Capabilities, Request, Tool
from eca_server.llm.history import Origin, ReasoningPart, ToolCallPart
from eca_server.llm.written import Written

__all__ = ["DROPPABLE", "mark_messages", "most_tokens", "write_request"]

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
"""Optional fields, at the top level of a request."""

_ANSWER = 64_000
_ANSWER_UNKNOWN = 32_000
"""The most tokens that an answer is given, if nobody says otherwise."""

_SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 10}

_NO_TOOL = Tool(name="none", description="There are no tools now.", parameters={})


def most_tokens(request: Request, capabilities: Capabilities) -> int:
    """The limit of the answer, which this API wants to be told."""
    if request.max_output_tokens is not None:
        return request.max_output_tokens
    return min(capabilities.output or _ANSWER_UNKNOWN, _ANSWER)


def mark_messages(written: list[dict[str, Any]]) -> None:
    """Marks the last two messages of the user for the cache.

    The earlier of the two was the last in the request before, so what that one wrote into the
    cache is found however much came since.
    """
    for message in [each for each in written if each["role"] == "user"][-2:]:
        mark_for_cache(message["content"])


def write_request(
    request: Request,
    *,
    messages: Written,
    origin: Origin,
    wire_model: str,
    known: Thinking,
    capabilities: Capabilities,
    cached: bool,
) -> dict[str, Any]:
    """The object to post; optional fields stand at its top level, so they can be dropped.

    Args:
        request: what is asked.
        messages: its history, written.
        origin: who is asked.
        wire_model: what the endpoint calls the model.
        known: how it can be asked to think.
        capabilities: what else it can do.
        cached: whether tools and instructions are marked for the cache.
    """
    max_tokens = most_tokens(request, capabilities)
    payload: dict[str, Any] = {"model": wire_model, "max_tokens": max_tokens, "stream": True}
    tools, choice = [_tool(tool) for tool in request.tools], request.tool_choice
    if tools and capabilities.web_search:
        tools.append(dict(_SEARCH))
    if not tools and _has_calls(request):  # which is refused unless there are tools
        tools, choice = [_tool(_NO_TOOL)], "none"
    system = [{"type": "text", "text": request.system}] if request.system.strip() else []
    for name, blocks in (("tools", tools), ("system", system)):
        if blocks:
            if cached:
                mark_for_cache(blocks)
            payload[name] = blocks
    thinking = thinking_fields(request.reasoning_effort, known, max_tokens=max_tokens)
    kind = thinking.get("thinking", {}).get("type")
    if kind == "enabled" and not _may_begin_to_think(request, origin):
        thinking, kind = {}, None
    if choice == "none" and tools:
        payload["tool_choice"] = {"type": "none"}
    elif choice == "required" and tools and kind in (None, "disabled"):
        payload["tool_choice"] = {"type": "any"}  # it is refused beside thinking
    return {**payload, **thinking, "messages": messages}


def _has_calls(request: Request) -> bool:
    return any(
        isinstance(part, ToolCallPart) for message in request.messages for part in message.parts
    )


def _may_begin_to_think(request: Request, origin: Origin) -> bool:
    """Whether a budget can be given: a loop of calls under way has to have begun with thinking."""
    if not request.messages or request.messages[-1].role != "tool":
        return True
    answers = (message for message in reversed(request.messages) if message.role == "assistant")
    last = next(answers, None)
    if last is None or not last.parts:
        return True
    return last.origin == origin and isinstance(last.parts[0], ReasoningPart)


def _tool(tool: Tool) -> dict[str, Any]:
    """A tool; its schema has to be that of an object, without alternatives at the top."""
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": {**_without_alternatives(tool.parameters), "type": "object"},
    }


def _without_alternatives(schema: Mapping[str, Any]) -> dict[str, Any]:
    refused = ("oneOf", "anyOf", "allOf")
    return {name: value for name, value in schema.items() if name not in refused}
