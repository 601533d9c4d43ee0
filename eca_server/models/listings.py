"""Lists of models from endpoints: the models to offer, and the lists in the cache.

A list is an offer, not a limit: a model that it lacks may still be requested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from eca_server.json_members import count_in
from eca_server.models.backend import ModelInfo
from eca_server.models.facts import ModelFacts

MAX_MODELS = 500
"""The most models of one endpoint, in its own order."""

_NO_CHAT = re.compile(
    r"aqa|audio|babbage|dall|davinci|embed(ding)?s?|guard|imagen?|live|lyria|moderation|nemoguard"
    r"|ocr|orpheus|realtime|rerank(er)?|robotics|safeguard|sora|speech|transcri(be|ption)"
    r"|translat(e|ion)|tts|veo|voice|whisper"
)
"""Words in the name of a model that is not for chats."""
_WORD = re.compile(r"[a-z]+")


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
    """Return a model's name without the directories of a file, as which llama.cpp names it."""
    return re.split(r"[/\\]", name)[-1] if name.endswith(".gguf") else name


def listing_to_json(listing: Listing) -> dict[str, Any]:
    """Return a listing as JSON."""
    return {"at": listing.at, "models": [_model_to(model) for model in listing.models]}


def listing_from_json(value: object) -> Listing | None:
    """Read a listing from JSON; None: it is none. Invalid details are left out."""
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
