"""The backend for Gemini.

If the provider refuses the signatures of earlier answers, the request is repeated once without
them, and the user is notified. Each option that an endpoint or a model may not accept has a name,
by which it can be left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from typing_extensions import override

from eca_server.json_members import count_in
from eca_server.models.backend import BackendError, ModelInfo, Request, Tool
from eca_server.models.corrections import CorrectingBackend
from eca_server.models.encoding import HistoryEncoder
from eca_server.models.facts import Capabilities, ModelFacts
from eca_server.models.google.decoder import MODEL_ERRORS, GeminiDecoder
from eca_server.models.google.generations import Generation, generation_of, thinking_config
from eca_server.models.google.messages import ContentWriter, legal_name
from eca_server.models.google.schema import openapi_schema, takes_nothing
from eca_server.models.http_backend import AmendedRequest
from eca_server.models.reasoning import unsigned

_REFUSALS: Mapping[str, str] = {
    "JSON Schema": r"parameters_?json_?schema",
    "search": r"google_?search|built-?in tool|tool use with function|server_?side_?tool",
    "instructions": r"(system|developer)[_ ]?instruction",
    "amount of thinking": r"thinking[_ ]?(level|budget)|budget -?\d+|thinking mode",
    "thoughts": r"thinking|include_?thoughts",
}
"""Refusals by the name of the refused option; the first match is left out."""

_SIGNATURE = re.compile(r"thought.?signature", re.IGNORECASE)


class Google(CorrectingBackend):
    """A model behind an endpoint that speaks Gemini's own API.

    Args:
        settings: the arguments of `HTTPBackend`.
    """

    path = "/models/{model}:streamGenerateContent?alt=sse"
    models_path = "/models?pageSize=1000"
    model_error_codes = MODEL_ERRORS

    def __init__(self, **settings: Any) -> None:
        model = (settings.pop("wire_model", None) or settings["origin"].model).rpartition("models/")
        super().__init__(**{**settings, "wire_model": model[2]})
        self._generation = generation_of(self.wire_model, self.capabilities)
        images = self.capabilities.images
        self._encoder = HistoryEncoder(ContentWriter(self._generation, images=images), self.origin)

    @override
    def write(self, request: Request) -> dict[str, Any]:
        generation, without = self._generation, self._refused
        payload: dict[str, Any] = {}
        before: list[dict[str, Any]] = []
        if request.system.strip():
            instructions = {"parts": [{"text": request.system}]}
            if "instructions" in without:
                before = [{"role": "user", **instructions}]
            else:
                payload["systemInstruction"] = instructions
        payload |= _tools(request, generation, self.capabilities, without)
        config: dict[str, Any] = {}
        if request.max_output_tokens is not None:
            config["maxOutputTokens"] = request.max_output_tokens
        effort = None if "amount of thinking" in without else request.reasoning_effort
        if "thoughts" not in without and (thinking := thinking_config(effort, generation)):
            config["thinkingConfig"] = thinking
        if config:
            payload["generationConfig"] = config
        return {**payload, "contents": self._encoder.written(request.messages, before=before)}

    @override
    def decoder(self, request: Request) -> GeminiDecoder:
        return GeminiDecoder(
            names={legal_name(tool.name): tool.name for tool in request.tools},
            may_be_empty=request.ends_with_results,
        )

    @override
    def refused_field(self, error: BackendError, payload: Mapping[str, Any]) -> str | None:
        """Recognize a refused option, which is nested in the request."""
        return refused_option(error.message, payload) if error.status == 400 else None

    @override
    def amend(self, request: Request, error: BackendError) -> AmendedRequest | None:
        """Retry without signatures, or with a correction for the model."""
        if error.code == "MISSING_THOUGHT_SIGNATURE" or (
            error.status == 400 and _SIGNATURE.search(error.message)
        ):
            return self.with_messages(request, unsigned(request.messages, self.origin))
        return super().amend(request, error)

    @override
    def next_page(self, listed: Any) -> str | None:
        token = listed.get("nextPageToken")
        return f"pageToken={quote(token, safe='')}" if token and isinstance(token, str) else None

    @override
    def read_models(self, listed: Any) -> Sequence[ModelInfo]:
        """Read the models that generate content."""
        methods = "supportedGenerationMethods"
        return [
            _model(each)
            for each in listed["models" if "models" in listed else "publisherModels"]
            if methods not in each or "generateContent" in each[methods]
        ]


def _model(listed: Mapping[str, Any]) -> ModelInfo:
    """Read one model of a listing.

    Raises:
        KeyError: the model has no name.
    """
    return ModelInfo(
        name=str(listed["name"]).rpartition("models/")[2],
        facts=ModelFacts(
            reasoning=listed.get("thinking") is True or None,
            context=count_in(listed, "inputTokenLimit"),
            output=count_in(listed, "outputTokenLimit"),
        ),
    )


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
