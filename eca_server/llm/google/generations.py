"""What each generation of Gemini takes: data, found by a model's name.

The rule it keeps: what an endpoint says of a model counts; its name is looked at only where the
endpoint says nothing, and a name without a number is taken as the newest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from eca_server.llm.backend import Capabilities

__all__ = ["Generation", "generation_of", "thinking_config"]

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""From the least to the most."""

_BUDGETS: Mapping[str, int] = {
    "none": 0,
    "minimal": 1_024,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 32_768,
    "max": 32_768,
}
"""Tokens, for the models that are given a number."""


@attrs.frozen(kw_only=True)
class Generation:
    """What one model takes.

    Attributes:
        thinks: it can be asked to show its thoughts.
        levels: how much it thinks, from the least to the most.
        budgets: the fewest and the most tokens it may think, where that is a number.
        signs: a step of its own has to begin with a signed call.
        pictures_in_results: results of tools may hold pictures.
        searches_beside_tools: its own search can be offered together with our tools.
    """

    thinks: bool = True
    levels: tuple[str, ...] = ()
    budgets: tuple[int, int] | None = None
    signs: bool = False
    pictures_in_results: bool = False
    searches_beside_tools: bool = False


_NEWEST = Generation(
    levels=("minimal", "low", "medium", "high"),
    signs=True,
    pictures_in_results=True,
    searches_beside_tools=True,
)

_BY_VERSION: tuple[tuple[str, tuple[int, int], Generation], ...] = (
    ("", (0, 0), Generation(thinks=False)),
    ("", (2, 5), Generation(budgets=(0, 24_576))),
    ("pro", (2, 5), Generation(budgets=(128, 32_768))),
    ("", (3, 0), _NEWEST),
    ("pro", (3, 0), attrs.evolve(_NEWEST, levels=("low", "high"))),
    ("", (3, 1), _NEWEST),
    ("pro", (3, 1), attrs.evolve(_NEWEST, levels=("low", "medium", "high"))),
)
"""By kind and version, the last row that fits."""

_GEMINI = re.compile(r"gemini-(?:(\d{1,2})(?:\.(\d{1,2}))?(?!\d)-?)?([a-z]*)")


def generation_of(model: str, capabilities: Capabilities) -> Generation:
    """What is known of a model.

    Args:
        model: what the endpoint calls it.
        capabilities: what the endpoint said of it.
    """
    match = _GEMINI.search(model.lower())
    if match is None:
        known = Generation(thinks=capabilities.reasoning)
    else:
        major, minor, kind = match.groups()
        version = (int(major), int(minor or 0)) if major else (99, 0)
        fitting = (row for of, since, row in _BY_VERSION if of in ("", kind) and version >= since)
        known = list(fitting)[-1]
    if capabilities.efforts is None:
        return known
    return attrs.evolve(known, levels=tuple(each.lower() for each in capabilities.efforts))


def thinking_config(effort: str | None, known: Generation) -> dict[str, Any]:
    """What asks for thoughts; empty where there are none to ask for.

    Args:
        effort: what the user wants; None: nothing in particular, `none`: as little as can be.
        known: what the model takes.
    """
    if not known.thinks:
        return {}
    config: dict[str, Any] = {"includeThoughts": True}
    if effort in _EFFORTS and (places := [_EFFORTS.index(each) for each in _known(known.levels)]):
        wanted = _EFFORTS.index(effort)
        nearest = _EFFORTS[min(places, key=lambda place: abs(place - wanted))]
        config["thinkingLevel"] = nearest.upper()
    elif effort in _EFFORTS and known.budgets is not None:
        fewest, most = known.budgets
        config["thinkingBudget"] = max(fewest, min(most, _BUDGETS[effort]))
    return config


def _known(levels: tuple[str, ...]) -> list[str]:
    return [each for each in levels if each in _EFFORTS]
