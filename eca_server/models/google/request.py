"""A request in the format of Gemini. Pure functions.

Each option that an endpoint or a model may not accept has a name, by which it can be left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from eca_server.models.backend import Request, Tool
from eca_server.models.encoding import HistoryEncoder
from eca_server.models.facts import Capabilities
from eca_server.models.google.generations import Generation, thinking_config
from eca_server.models.google.messages import legal_name
from eca_server.models.google.schema import openapi_schema, takes_nothing

_MODES = {"none": "NONE", "required": "ANY"}

_REFUSALS: Mapping[str, str] = {
    "JSON Schema": r"parameters_?json_?schema",
    "search": r"google_?search|built-?in tool|tool use with function|server_?side_?tool",
    "instructions": r"(system|developer)[_ ]?instruction",
    "amount of thinking": r"thinking[_ ]?(level|budget)|budget -?\d+|thinking mode",
    "thoughts": r"thinking|include_?thoughts",
}
"""Refusals by the name of the refused option; the first match is left out."""


def write_request(
    request: Request,
    *,
    generation: Generation,
    capabilities: Capabilities,
    histories: HistoryEncoder,
    without: Collection[str] = (),
) -> dict[str, Any]:
    """Return the JSON object to post.

    Args:
        request: the request.
        generation: the model's options.
        capabilities: its other capabilities.
        histories: the encoder of its history.
        without: the options to leave out, as named by `refused_option`.
    """
    payload: dict[str, Any] = {}
    before: list[dict[str, Any]] = []
    if request.system.strip():
        instructions = {"parts": [{"text": request.system}]}
        if "instructions" in without:
            before = [{"role": "user", **instructions}]
        else:
            payload["systemInstruction"] = instructions
    payload |= _tools(request, generation, capabilities, without)
    config: dict[str, Any] = {}
    if request.max_output_tokens is not None:
        config["maxOutputTokens"] = request.max_output_tokens
    effort = None if "amount of thinking" in without else request.reasoning_effort
    if "thoughts" not in without and (thinking := thinking_config(effort, generation)):
        config["thinkingConfig"] = thinking
    if config:
        payload["generationConfig"] = config
    return {**payload, "contents": histories.written(request.messages, before=before)}


def refused_option(words: str, payload: Mapping[str, Any]) -> str | None:
    """Return the option of `payload` that a refusal is about; None: it is about something else."""
    there = _optional(payload)
    return next(
        (
            name
            for name, pattern in _REFUSALS.items()
            if name in there and re.search(pattern, words, re.IGNORECASE)
        ),
        None,
    )


def _optional(payload: Mapping[str, Any]) -> set[str]:
    tools = payload.get("tools", [])
    thinking = payload.get("generationConfig", {}).get("thinkingConfig", {})
    declared = [each for tool in tools for each in tool.get("functionDeclarations", ())]
    return {
        name
        for name, is_there in {
            "JSON Schema": any("parametersJsonSchema" in each for each in declared),
            "search": any("googleSearch" in tool for tool in tools),
            "instructions": "systemInstruction" in payload,
            "amount of thinking": thinking.keys() & {"thinkingLevel", "thinkingBudget"},
            "thoughts": thinking,
        }.items()
        if is_there
    }


def _tools(
    request: Request, generation: Generation, capabilities: Capabilities, without: Collection[str]
) -> dict[str, Any]:
    tools: list[dict[str, Any]] = []
    config: dict[str, Any] = {}
    if request.tools:
        declared = [_declared(tool, "JSON Schema" in without) for tool in request.tools]
        tools.append({"functionDeclarations": declared})
        if request.tool_choice in _MODES:
            config["functionCallingConfig"] = {"mode": _MODES[request.tool_choice]}
    may_search = generation.search_with_tools or not request.tools
    if capabilities.web_search and may_search and "search" not in without:
        tools.append({"googleSearch": {}})
        if request.tools:
            config["includeServerSideToolInvocations"] = True
    fields: dict[str, Any] = {"tools": tools} if tools else {}
    return fields | ({"toolConfig": config} if config else {})


def _declared(tool: Tool, in_openapi: bool) -> dict[str, Any]:
    declared: dict[str, Any] = {
        "name": legal_name(tool.name),
        "description": tool.description or tool.name,
    }
    if takes_nothing(tool.parameters):
        return declared
    if in_openapi:
        return declared | {"parameters": openapi_schema(tool.parameters)}
    return declared | {"parametersJsonSchema": tool.parameters}
