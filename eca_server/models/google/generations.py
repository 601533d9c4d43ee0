"""The options of each generation of Gemini, by a model's name: data.

The endpoint's listing counts; the model's name decides only where the listing says nothing. A name
without a number is taken as the newest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from eca_server.models.facts import Capabilities
from eca_server.models.reasoning import nearest_effort

_BUDGETS: Mapping[str, int] = {
    "none": 0,
    "minimal": 1_024,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 32_768,
    "max": 32_768,
}
"""Token budgets of models that take a number."""


@attrs.frozen(kw_only=True)
class Generation:
    """The options of one model.

    Attributes:
        thinks: whether it can show its reasoning.
        levels: its thinking levels, from lowest to highest.
        budgets: the smallest and the largest thinking budget in tokens, if it takes a number.
        signs: whether the first call of a step must have a signature.
        images_in_results: whether results of tools may contain images.
        search_with_tools: whether its own search can be offered together with our tools.
    """

    thinks: bool = True
    levels: tuple[str, ...] = ()
    budgets: tuple[int, int] | None = None
    signs: bool = False
    images_in_results: bool = False
    search_with_tools: bool = False


_NEWEST = Generation(
    levels=("minimal", "low", "medium", "high"),
    signs=True,
    images_in_results=True,
    search_with_tools=True,
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
"""By kind and version; the last matching row counts."""

_GEMINI = re.compile(r"gemini-(?:(\d{1,2})(?:\.(\d{1,2}))?(?!\d)-?)?([a-z]*)")


def generation_of(model: str, capabilities: Capabilities) -> Generation:
    """Return the options of a model.

    `capabilities`: the capabilities that the endpoint listed.
    """
    match = _GEMINI.search(model.lower())
    if match is None:
        generation = Generation(thinks=capabilities.reasoning)
    else:
        major, minor, kind = match.groups()
        version = (int(major), int(minor or 0)) if major else (99, 0)
        fitting = (row for of, since, row in _BY_VERSION if of in ("", kind) and version >= since)
        generation = list(fitting)[-1]
    if capabilities.efforts is None:
        return generation
    return attrs.evolve(generation, levels=tuple(each.lower() for each in capabilities.efforts))


def thinking_config(effort: str | None, generation: Generation) -> dict[str, Any]:
    """Return the thinking configuration; empty if the model does not reason.

    Args:
        effort: the user's choice; None: no choice, `none`: as little as possible.
        generation: the model's options.
    """
    if not generation.thinks:
        return {}
    config: dict[str, Any] = {"includeThoughts": True}
    if (nearest := nearest_effort(effort, generation.levels)) is not None:
        config["thinkingLevel"] = nearest.upper()
    elif (budget := _BUDGETS.get(effort or "")) is not None and generation.budgets is not None:
        fewest, most = generation.budgets
        config["thinkingBudget"] = max(fewest, min(most, budget))
    return config
