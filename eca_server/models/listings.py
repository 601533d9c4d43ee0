"""Lists of models from endpoints: their reading, the models to offer, and the lists in the cache.

A list is an offer, not a limit: a model that it lacks may still be requested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from eca_server.json_members import count_in, object_in
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

MAX_MODELS = 500
"""The most models of one endpoint, in its own order."""

_NO_CHAT = re.compile(
    r"aqa|audio|babbage|dall|davinci|embed(ding)?s?|guard|imagen?|live|lyria|moderation|nemoguard"
    r"|ocr|orpheus|realtime|rerank(er)?|robotics|safeguard|sora|speech|transcri(be|ption)"
    r"|translat(e|ion)|tts|veo|voice|whisper"
)
"""Words in the name of a model that is not for chats."""
_WORD = re.compile(r"[a-z]+")


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


@attrs.frozen
class Endpoint:
    """A provider at its address, which can be asked for a list of models."""

    provider: str
    url: str


@attrs.frozen(kw_only=True)
class Listing:
    """A list of models from an endpoint.

    Attributes:
        at: the time, in seconds since the epoch.
    """

    models: tuple[ModelInfo, ...]
    at: float


def chat_models(listed: Iterable[ModelInfo]) -> tuple[ModelInfo, ...]:
    """Return the chat models of a list, each once: none for embeddings, images or sound."""
    chatting = {
        model.name: model
        for model in listed
        if model.name.strip()
        and not any(map(_NO_CHAT.fullmatch, _WORD.findall(_own_name(model.name).lower())))
    }
    return tuple(chatting.values())[:MAX_MODELS]


def _own_name(name: str) -> str:
    """Return a model's name; llama.cpp names a model by its file: without its directories."""
    return re.split(r"[/\\]", name)[-1] if name.endswith(".gguf") else name


def listing_to_json(listing: Listing) -> dict[str, Any]:
    """Return a listing as JSON."""
    return {"at": listing.at, "models": [_model_to(model) for model in listing.models]}


def listing_from_json(value: object) -> Listing | None:
    """Read a listing from JSON; None: the JSON is not a listing. Invalid details are left out."""
    if not isinstance(value, Mapping):
        return None
    at, models = value.get("at"), value.get("models")
    if not isinstance(at, int | float) or not isinstance(models, list):
        return None
    read = (_model_from(model) for model in models if isinstance(model, Mapping))
    return Listing(models=chat_models(model for model in read if model is not None), at=at)


_COUNTS: Final = ("context", "output")
_FLAGS: Final = ("tools", "images", "reasoning", "web_search")
_WORD_LISTS: Final = {"thinking": frozenset, "efforts": tuple}
"""The facts in a stored listing."""


def _model_to(model: ModelInfo) -> dict[str, Any]:
    fields = {
        name: value
        for name in (*_COUNTS, *_FLAGS, *_WORD_LISTS)
        if (value := getattr(model.facts, name)) is not None
    }
    return {"name": model.name, "api": model.api} | {
        name: list(value) if isinstance(value, frozenset | tuple) else value
        for name, value in fields.items()
    }


def _model_from(value: Mapping[str, Any]) -> ModelInfo | None:
    name, api = value.get("name"), value.get("api")
    if not isinstance(name, str):
        return None
    fields: dict[str, Any] = {}
    for field in _COUNTS:
        if (count := count_in(value, field)) is not None:
            fields[field] = count
    for field in _FLAGS:
        if isinstance(stored := value.get(field), bool):
            fields[field] = stored
    for field, collect in _WORD_LISTS.items():
        if isinstance(stored := value.get(field), list):
            fields[field] = collect(word for word in stored if isinstance(word, str))
    return ModelInfo(
        name=name, facts=ModelFacts(**fields), api=api if isinstance(api, str) else None
    )
