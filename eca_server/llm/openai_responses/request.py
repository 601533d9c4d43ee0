"""A request in the words of Responses. Pure functions.

The rule it keeps: nothing is stored on the server, so all that it has to know is in every request;
what a server may not know stands at the top level, under the name by which it refuses it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from eca_server.llm.backend import Capabilities, Request
from eca_server.llm.openai_responses.profiles import Profile
from eca_server.llm.written import Histories

__all__ = ["DROPPABLE", "write_request"]

DROPPABLE = (
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
"""Optional fields, at the top level of a request."""


def write_request(
    request: Request,
    *,
    wire_model: str,
    profile: Profile,
    histories: Histories,
    capabilities: Capabilities,
) -> dict[str, Any]:
    """The object to post; optional fields stand at its top level, so they can be dropped."""
    payload: dict[str, Any] = {
        "model": wire_model,
        "input": histories.written(request.messages),
        "stream": True,
        "store": False,
    }
    if request.system.strip():
        payload["instructions"] = request.system
    if tools := _tools(request, web_search=capabilities.web_search):
        payload["tools"] = tools
        if request.tool_choice != "auto":
            payload["tool_choice"] = request.tool_choice
    if request.max_output_tokens is not None:
        payload["max_output_tokens"] = request.max_output_tokens
    payload |= _about_reasoning(request.reasoning_effort, profile, thinks=capabilities.reasoning)
    if request.cache_key is not None and profile.cache_key:
        payload["prompt_cache_key"] = hashlib.sha256(request.cache_key.encode()).hexdigest()[:32]
    return {**payload, **profile.extra}


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
    searches = web_search and request.tool_choice == "auto"
    return [*tools, {"type": "web_search"}] if searches else tools


def _about_reasoning(effort: str | None, profile: Profile, *, thinks: bool) -> dict[str, Any]:
    """How to reason, and what of it to give; asked of models that do, for others refuse it."""
    asked: dict[str, Any] = {"effort": effort} if effort else {}
    reasons = effort != "none" and (thinks or effort is not None)
    if reasons and profile.summary is not None:
        asked["summary"] = profile.summary
    fields: dict[str, Any] = {"reasoning": asked} if asked else {}
    if reasons and profile.encrypted_reasoning:
        fields["include"] = ["reasoning.encrypted_content"]
    return fields
