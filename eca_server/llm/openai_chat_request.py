"""A request in the words of Chat Completions. Pure functions.

The rule it keeps: what a server may not know stands at the top level, under the name by which it
refuses it, so that it can be dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from eca_protocol import json
from eca_server.llm.backend import Request
from eca_server.llm.openai_chat_history import Histories
from eca_server.llm.openai_chat_profiles import Profile

__all__ = ["Written", "encoded", "refused_parameter", "write_request"]

_DROPPABLE = (
    "stream_options",
    "max_completion_tokens",
    "max_tokens",
    "parallel_tool_calls",
    "reasoning_effort",
    "reasoning",
    "temperature",
    "tool_choice",
    "tool_stream",
    "top_p",
)
_REFUSAL = re.compile(
    r"unsupported|unknown|unrecognized|unexpected|extra|not permitted|not supported|not allowed",
    re.IGNORECASE,
)


@attrs.frozen
class Written:
    """A value that is JSON already, in pieces."""

    pieces: Sequence[bytes | bytearray] = attrs.field(repr=False)


def encoded(payload: Mapping[str, Any]) -> bytes:
    """An object as JSON; values at its top level may be `Written`."""
    pieces: list[bytes | bytearray] = []
    for name, value in payload.items():
        pieces += b"," if pieces else b"{", json.dumps(name), b":"
        pieces += value.pieces if isinstance(value, Written) else [json.dumps(value)]
    return b"".join([*pieces, b"}"])


def write_request(
    request: Request, *, wire_model: str, profile: Profile, histories: Histories
) -> dict[str, Any]:
    """The JSON object to post; optional fields stand at its top level, so they can be dropped."""
    payload: dict[str, Any] = {
        "model": wire_model,
        "messages": Written(histories.written(request.system, request.messages)),
        "stream": True,
    }
    if profile.stream_options is not None:
        payload["stream_options"] = dict(profile.stream_options)
    if request.tools:
        payload["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
        required = request.tool_choice == "required"
        if request.tool_choice != "auto" and (profile.tool_choice_required or not required):
            payload["tool_choice"] = request.tool_choice
    if request.max_output_tokens is not None:
        payload[profile.max_tokens_field] = request.max_output_tokens
    if request.reasoning_effort and profile.effort == "reasoning":
        payload["reasoning"] = {"effort": request.reasoning_effort}
    elif request.reasoning_effort and profile.effort == "reasoning_effort":
        payload["reasoning_effort"] = request.reasoning_effort
    return {**payload, **profile.extra}


def refused_parameter(status: int | None, words: str, payload: Mapping[str, Any]) -> str | None:
    """The optional field of `payload` that a refusal names; None if it is about something else."""
    if status not in (400, 422) or not _REFUSAL.search(words):
        return None
    named = (name for name in _DROPPABLE if name in payload)
    return next((name for name in named if re.search(rf"\b{name}\b", words)), None)
