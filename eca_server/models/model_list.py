"""Models as listed by endpoints: always a name, sometimes limits and capabilities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eca_server.json_members import object_in
from eca_server.models.backend import ModelInfo
from eca_server.models.facts import ModelFacts

_CONTEXT = (
    *("context_length", "context_window", "max_model_len", "max_context_length"),
    "max_input_tokens",
)
"""OpenRouter and Together, Groq, vLLM, Mistral and LM Studio, LiteLLM."""
_CONTEXT_IN_USE = ("n_ctx",)
_CONTEXT_OF_TRAINING = ("n_ctx_train",)
"""llama.cpp and llama-swap, in `meta`; the one in use may be less than `context_length`."""
_EFFORT_LISTS = ("supported_reasoning_efforts", "reasoning_efforts", "supported_efforts", "efforts")
_EFFORT = re.compile(r"[a-z][a-z0-9_-]{0,19}")
_MOST_EFFORTS = 10
_OUTPUT = ("max_completion_tokens", "max_output_tokens")
_NO_CHAT_TYPES = (
    *("audio", "embedding", "embeddings", "image", "moderation", "rerank", "transcribe"),
    *("audio_speech", "audio_transcription", "completion", "image_edit", "image_generation"),
    *("ocr", "realtime", "search", "video_generation"),
)
"""As `type`, or as LiteLLM's `mode`."""


def read_models(listed: Any) -> Sequence[ModelInfo]:
    """Read the chat models of a listing, in an object or a bare array.

    Raises:
        KeyError: a model has no name.
        TypeError: the value is no listing.
    """
    models = listed if isinstance(listed, list) else listed["data"]
    return [read_model(model) for model in models if _chats(model)]


def _chats(model: Mapping[str, Any]) -> bool:
    listed = object_in(model, "capabilities")
    return (
        model.get("type") not in _NO_CHAT_TYPES
        and model.get("mode") not in _NO_CHAT_TYPES
        and model.get("active") is not False
        and listed.get("completion_chat") is not False
        and "text"
        in _names(object_in(model, "architecture"), "output_modalities", otherwise="text")
    )


def read_model(model: Mapping[str, Any]) -> ModelInfo:
    """Read one model of a listing.

    Raises:
        KeyError: the model has no id.
    """
    listed = object_in(model, "capabilities")
    inputs = _names(object_in(model, "architecture"), "input_modalities", otherwise="image")
    meta = object_in(model, "meta")
    contexts = (_first_count(model, _CONTEXT), _first_count(meta, _CONTEXT_IN_USE))
    parameters = model.get("supported_parameters")
    takes = parameters if isinstance(parameters, list) else None
    efforts = tuple(_efforts(model))
    calls_tools = listed.get("function_calling") is not False and "tools" in (takes or ["tools"])
    reasons = listed.get("reasoning") is True or "reasoning" in (takes or ()) or bool(efforts)
    return ModelInfo(
        name=str(model["id"]).removeprefix("models/"),  # Google's, by their full names
        facts=ModelFacts(
            tools=None if calls_tools else False,
            images=None if listed.get("vision") is not False and "image" in inputs else False,
            reasoning=reasons or None,
            context=min(filter(None, contexts), default=None)
            or _first_count(meta, _CONTEXT_OF_TRAINING),
            output=_first_count(object_in(model, "top_provider"), _OUTPUT)
            or _first_count(model, _OUTPUT),
            efforts=efforts or None,
        ),
    )


def _efforts(model: Mapping[str, Any]) -> Iterator[str]:
    for holder in (model, object_in(model, "reasoning"), object_in(model, "capabilities")):
        for name in _EFFORT_LISTS:
            listed = holder.get(name)
            values = listed if isinstance(listed, list) else ()
            efforts = [each for each in values if isinstance(each, str) and _EFFORT.fullmatch(each)]
            if efforts:
                yield from dict.fromkeys(efforts[:_MOST_EFFORTS])
                return


def _first_count(holder: Mapping[str, Any], names: Sequence[str]) -> int | None:
    counts = (holder.get(name) for name in names)
    return next((n for n in counts if isinstance(n, int) and n > 0), None)


def _names(holder: Mapping[str, Any], name: str, *, otherwise: str) -> Sequence[Any]:
    value = holder.get(name)
    return value if isinstance(value, list) else (otherwise,)
