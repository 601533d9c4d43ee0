"""What endpoints list as their models: what is offered of it, and how it is kept for a restart.

The rule it keeps: a list is an offer, never a limit: what is missing from it may be asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from eca_server.llm.backend import Capabilities, ModelInfo

__all__ = ["MOST_MODELS", "Endpoint", "Listing", "listing_from", "listing_to", "offered"]

MOST_MODELS = 500
"""Of one endpoint, in the order it lists them."""

_NO_CHAT = re.compile(
    r"aqa|audio|babbage|dall|davinci|embed(ding)?s?|guard|imagen?|live|lyria|moderation|nemoguard"
    r"|ocr|orpheus|realtime|rerank(er)?|robotics|safeguard|sora|speech|transcri(be|ption)"
    r"|translat(e|ion)|tts|veo|voice|whisper"
)
"""A word in a model's name that tells that it is not for chats."""
_WORD = re.compile(r"[a-z]+")


@attrs.frozen
class Endpoint:
    """Who is asked for a list: a provider, where it is."""

    provider: str
    url: str


@attrs.frozen(kw_only=True)
class Listing:
    """What an endpoint listed.

    Attributes:
        models: those that are offered.
        at: when, in seconds since the epoch.
    """

    models: tuple[ModelInfo, ...]
    at: float


def offered(listed: Iterable[ModelInfo]) -> tuple[ModelInfo, ...]:
    """What of a list is for chats, each once: no models of embeddings, pictures, sound, ..."""
    chatting = {
        model.name: model
        for model in listed
        if model.name.strip()
        and not any(map(_NO_CHAT.fullmatch, _WORD.findall(model.name.lower())))
    }
    return tuple(chatting.values())[:MOST_MODELS]


def listing_to(listing: Listing) -> dict[str, Any]:
    """A listing as JSON."""
    return {"at": listing.at, "models": [_model_to(model) for model in listing.models]}


def listing_from(value: object) -> Listing | None:
    """The listing in such JSON; None: there is none. What is odd in it is left out."""
    if not isinstance(value, Mapping):
        return None
    at, models = value.get("at"), value.get("models")
    if not isinstance(at, int | float) or not isinstance(models, list):
        return None
    read = (_model_from(model) for model in models if isinstance(model, Mapping))
    return Listing(models=offered(model for model in read if model is not None), at=at)


def _model_to(model: ModelInfo) -> dict[str, Any]:
    told = {
        field.name: value
        for field in attrs.fields(Capabilities)
        if (value := getattr(model.capabilities, field.name)) != field.default
    }
    return {"name": model.name, "api": model.api} | {
        name: list(value) if isinstance(value, frozenset | tuple) else value
        for name, value in told.items()
    }


def _model_from(value: Mapping[str, Any]) -> ModelInfo | None:
    name, api = value.get("name"), value.get("api")
    if not isinstance(name, str):
        return None
    told: dict[str, Any] = {}
    for field in attrs.fields(Capabilities):
        given = value.get(field.name)
        is_flag = isinstance(field.default, bool) and isinstance(given, bool)
        if is_flag or (field.name in ("context", "output") and _is_count(given)):
            told[field.name] = given
        elif field.name in ("thinking", "efforts") and isinstance(given, list):
            words = [word for word in given if isinstance(word, str)]
            told[field.name] = frozenset(words) if field.name == "thinking" else tuple(words)
    return ModelInfo(
        name=name, capabilities=Capabilities(**told), api=api if isinstance(api, str) else None
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
