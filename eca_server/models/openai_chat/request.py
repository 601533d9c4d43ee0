"""A request in the format of Chat Completions. Pure functions.

A field that a server may not accept is at the top level, under the name by which the server refuses
it, so that it can be dropped.
"""

from __future__ import annotations

from typing import Any

from eca_server.models.backend import Request
from eca_server.models.calls import function_tool
from eca_server.models.efforts import DEEPSEEK_V4
from eca_server.models.encoding import HistoryEncoder
from eca_server.models.openai_chat.profiles import Profile

DROPPABLE = (
    "stream_options",
    "max_completion_tokens",
    "max_tokens",
    "parallel_tool_calls",
    "reasoning_effort",
    "reasoning",
    "temperature",
    "thinking",
    "tool_choice",
    "tool_stream",
    "top_p",
    "verbosity",
)
"""Optional fields at the top level of a request."""


def write_request(
    request: Request, *, wire_model: str, profile: Profile, histories: HistoryEncoder
) -> dict[str, Any]:
    """Return the JSON object to post; optional fields are at its top level, to be droppable."""
    instructions = [{"role": profile.system_role, "content": request.system}]
    payload: dict[str, Any] = {
        "model": wire_model,
        "messages": histories.written(
            request.messages, before=instructions if request.system.strip() else ()
        ),
        "stream": True,
    }
    if profile.stream_options is not None:
        payload["stream_options"] = dict(profile.stream_options)
    if request.tools:
        payload["tools"] = [function_tool(tool) for tool in request.tools]
        required = request.tool_choice == "required"
        if request.tool_choice != "auto" and (profile.tool_choice_required or not required):
            payload["tool_choice"] = request.tool_choice
    if request.max_output_tokens is not None:
        payload[profile.max_tokens_field] = request.max_output_tokens
    if request.reasoning_effort:
        payload |= _reasoning_fields(request.reasoning_effort, wire_model.lower(), profile)
    return {**payload, **profile.extra}


def _reasoning_fields(effort: str, wire_model: str, profile: Profile) -> dict[str, Any]:
    if profile.effort == "reasoning":
        if "claude-" in wire_model and effort != "none":  # OpenRouter passes it on to Claude
            return {"reasoning": {"enabled": True}, "verbosity": effort}
        return {"reasoning": {"effort": effort}}
    if effort == "none" and DEEPSEEK_V4.search(wire_model):
        return {"thinking": {"type": "disabled"}}
    return {"reasoning_effort": effort} if profile.effort == "reasoning_effort" else {}
