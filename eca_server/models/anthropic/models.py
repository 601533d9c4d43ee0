"""Models as listed by an endpoint of the Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_server.json_members import count_in, object_in
from eca_server.models import model_list
from eca_server.models.backend import ModelInfo
from eca_server.models.facts import ModelFacts


def read_model(listed: Mapping[str, Any]) -> ModelInfo:
    """Read one model of a listing, which may say little, or in the fields of a different API.

    Raises:
        KeyError: the model has no id.
    """
    abilities = object_in(listed, "capabilities")
    thinking, effort = (
        object_in(abilities, "thinking"),
        object_in(abilities, "effort"),
    )
    types = _supported(object_in(thinking, "types"))
    efforts = _supported(effort)
    general = model_list.read_model(listed)
    return ModelInfo(
        name=str(listed["id"]),
        facts=ModelFacts(
            images="image_input" in _supported(abilities) if "image_input" in abilities else None,
            reasoning=thinking.get("supported") is True or None,
            context=count_in(listed, "max_input_tokens"),
            output=count_in(listed, "max_tokens"),
            thinking=frozenset(types) if thinking else None,
            efforts=tuple(efforts) if effort else None,
        ).with_defaults(general.facts),
    )


def _supported(abilities: Mapping[str, Any]) -> list[str]:
    return [name for name in abilities if object_in(abilities, name).get("supported") is True]
