"""Models as listed by an endpoint of the Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_server.llm.backend import ModelInfo
from eca_server.llm.facts import ModelFacts

__all__ = ["read_model"]


def read_model(listed: Mapping[str, Any]) -> ModelInfo:
    """Read one model of a listing, which may say little about its capabilities.

    Raises:
        KeyError: the model has no id.
    """
    abilities = _object(listed, "capabilities")
    thinking, effort = (
        _object(abilities, "thinking"),
        _object(abilities, "effort"),
    )
    types = _supported(_object(thinking, "types"))
    efforts = _supported(effort)
    return ModelInfo(
        name=str(listed["id"]),
        facts=ModelFacts(
            images="image_input" in _supported(abilities) if "image_input" in abilities else None,
            reasoning=thinking.get("supported") is True or None,
            context=_number(listed, "max_input_tokens"),
            output=_number(listed, "max_tokens"),
            thinking=frozenset(types) if thinking else None,
            efforts=tuple(efforts) if effort else None,
        ),
    )


def _supported(abilities: Mapping[str, Any]) -> list[str]:
    return [name for name in abilities if _object(abilities, name).get("supported") is True]


def _object(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, Mapping) else {}


def _number(holder: Mapping[str, Any], name: str) -> int | None:
    value = holder.get(name)
    return value if isinstance(value, int) and value > 0 else None
