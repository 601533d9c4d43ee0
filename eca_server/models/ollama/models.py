"""Ollama's data on its models: the installed ones, one of them, the loaded ones. No I/O.

A field that an older server lacks is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from eca_server.json_members import count_in, list_in, object_in
from eca_server.models.backend import ModelInfo
from eca_server.models.facts import ModelFacts
from eca_server.models.reasoning import EFFORTS

_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE)

_LEVELS: Mapping[str, tuple[str, ...]] = {"gptoss": ("low", "medium", "high")}
"""Efforts by a model's architecture, for servers that do not list them; other models can only
switch reasoning on and off."""

_NO_CHAT = ("bert", "nomic-bert")
"""Families of embedding models, for servers that list no capabilities."""


@attrs.frozen(kw_only=True)
class ModelDetails:
    """The known details of one model; None is unknown.

    Attributes:
        thinking: it reasons before it answers.
        efforts: its reasoning efforts; empty: reasoning is on or off.
        most: the largest context, in tokens.
        chosen: the fixed context of its Modelfile.
        hosted: it runs elsewhere, with its full context.
    """

    tools: bool | None = None
    images: bool | None = None
    thinking: bool | None = None
    efforts: tuple[str, ...] = ()
    most: int | None = None
    chosen: int | None = None
    hosted: bool = False


def read_installed(listed: Any) -> Iterator[ModelInfo]:
    """Yield the chat models.

    Their context is left out, since models are rarely loaded with the largest one.

    Raises:
        TypeError, KeyError: the value is no such list.
    """
    for each in listed["models"]:
        names = each.get("capabilities")
        abilities = names if isinstance(names, list) else None
        if object_in(each, "details").get("family") in _NO_CHAT or (
            abilities is not None and "completion" not in abilities
        ):
            continue
        yield ModelInfo(
            name=str(each.get("model") or each["name"]),
            facts=ModelFacts(
                tools=None if abilities is None else "tools" in abilities,
                images=None if abilities is None else "vision" in abilities,
                reasoning="thinking" in (abilities or ()) or None,
            ),
        )


def read_details(shown: Any) -> ModelDetails:
    """Read the details of one model; invalid values are unknown."""
    if not isinstance(shown, dict):
        return ModelDetails()
    listed, info = shown.get("capabilities"), object_in(shown, "model_info")
    abilities: dict[str, bool] = {}
    if isinstance(listed, list):
        abilities = {name: name in listed for name in ("tools", "vision", "thinking")}
    architecture = str(info.get("general.architecture"))
    values = object_in(shown, "thinking").get("values")
    efforts = (
        tuple(level for level in EFFORTS if level in values)
        if isinstance(values, list)
        else _LEVELS.get(architecture, ())
    )
    chosen = _NUM_CTX.search(str(shown.get("parameters")))
    return ModelDetails(
        tools=abilities.get("tools"),
        images=abilities.get("vision"),
        thinking=abilities.get("thinking"),
        efforts=efforts,
        most=count_in(info, f"{architecture}.context_length"),
        chosen=int(chosen[1]) if chosen else None,
        hosted=bool(shown.get("remote_host")),
    )


def loaded_context(running: Any, name: str) -> int | None:
    """Return the context size of a loaded model, 0 if unknown; None: it is not loaded."""
    for each in list_in(running, "models"):
        if isinstance(each, dict) and _full(name) in (each.get("model"), each.get("name")):
            return count_in(each, "context_length") or 0
    return None


def _full(name: str) -> str:
    """Return a model's name with its tag, which may be omitted."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"
