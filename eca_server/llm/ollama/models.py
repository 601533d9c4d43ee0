"""What Ollama says of its models: those that are installed, one of them, those in memory. No I/O.

The rule it keeps: what an older server does not say is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from eca_server.llm.backend import Capabilities, ModelInfo
from eca_server.llm.ollama.request import LEVELS

__all__ = ["Shown", "loaded_context", "read_installed", "read_shown"]

_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE)

_LEVELS: Mapping[str, tuple[str, ...]] = {"gptoss": ("low", "medium", "high")}
"""How much a model can be asked to think where the server does not say, by its architecture;
others can be asked to, or not to."""

_NO_CHAT = ("bert", "nomic-bert")
"""Families of models that only embed, for the servers that do not say what a model can do."""


@attrs.frozen(kw_only=True)
class Shown:
    """What is known of one model; None is unknown.

    Attributes:
        tools: it calls tools.
        images: it reads pictures.
        thinking: it thinks before it answers.
        efforts: how much it can be asked to think; empty: only whether.
        most: tokens of prompt and answer together that it can be loaded with.
        chosen: how many it is always loaded with, by whoever made it.
        hosted: it runs elsewhere, and has all the context that it can have.
    """

    tools: bool | None = None
    images: bool | None = None
    thinking: bool | None = None
    efforts: tuple[str, ...] = ()
    most: int | None = None
    chosen: int | None = None
    hosted: bool = False


def read_installed(listed: Any) -> Iterator[ModelInfo]:
    """The models that can chat.

    How much context one can have is not told here, since it will rarely be given that much.

    Raises:
        TypeError, KeyError: it is no such list.
    """
    for each in listed["models"]:
        told = each.get("capabilities")
        abilities = told if isinstance(told, list) else None
        details = each.get("details")
        family = details.get("family") if isinstance(details, dict) else None
        if family in _NO_CHAT or (abilities is not None and "completion" not in abilities):
            continue
        yield ModelInfo(
            name=str(each.get("model") or each["name"]),
            capabilities=Capabilities(
                tools=abilities is None or "tools" in abilities,
                images=abilities is None or "vision" in abilities,
                reasoning=abilities is not None and "thinking" in abilities,
            ),
        )


def read_shown(shown: Any) -> Shown:
    """One model; whatever is odd in it is unknown."""
    if not isinstance(shown, dict):
        return Shown()
    told, info, thinking = (shown.get(name) for name in ("capabilities", "model_info", "thinking"))
    abilities: dict[str, bool] = {}
    if isinstance(told, list):
        abilities = {name: name in told for name in ("tools", "vision", "thinking")}
    info = info if isinstance(info, dict) else {}
    architecture = str(info.get("general.architecture"))
    values = thinking.get("values") if isinstance(thinking, dict) else None
    efforts = (
        tuple(level for level in LEVELS if level in values)
        if isinstance(values, list)
        else _LEVELS.get(architecture, ())
    )
    chosen = _NUM_CTX.search(str(shown.get("parameters")))
    return Shown(
        tools=abilities.get("tools"),
        images=abilities.get("vision"),
        thinking=abilities.get("thinking"),
        efforts=efforts,
        most=_size(info.get(f"{architecture}.context_length")),
        chosen=int(chosen[1]) if chosen else None,
        hosted=bool(shown.get("remote_host")),
    )


def loaded_context(running: Any, name: str) -> int | None:
    """How many tokens a model in memory was loaded with, 0 if unknown; None: it is not there."""
    models = running.get("models") if isinstance(running, dict) else None
    for each in models if isinstance(models, list) else ():
        if isinstance(each, dict) and _full(name) in (each.get("model"), each.get("name")):
            return _size(each.get("context_length")) or 0
    return None


def _full(name: str) -> str:
    """A model's name with its tag, which may be left out."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _size(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and value > 0 else None
