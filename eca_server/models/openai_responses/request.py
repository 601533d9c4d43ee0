"""A request in the format of Responses. Pure functions.

The server stores nothing, so each request is complete. A field that a server may not accept is at
the top level, under the name by which the server refuses it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from eca_server.models.backend import Request
from eca_server.models.encoding import HistoryEncoder
from eca_server.models.facts import Capabilities
from eca_server.models.openai_responses.profiles import Profile

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
"""Optional fields at the top level of a request."""


def write_request(
    request: Request,
    *,
    wire_model: str,
    profile: Profile,
    histories: HistoryEncoder,
    capabilities: Capabilities,
) -> dict[str, Any]:
    """Return the JSON object to post; optional fields are at its top level, to be droppable."""
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
    payload |= _reasoning_fields(request.reasoning_effort, profile, thinks=capabilities.reasoning)
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
