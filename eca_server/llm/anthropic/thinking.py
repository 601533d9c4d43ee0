"""How much a model can be asked to think, and in which words: data.

The rule it keeps: what an endpoint says of a model counts; its name is looked at only where the
endpoint says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from eca_server.llm.backend import Capabilities

__all__ = ["Thinking", "thinking_by_name", "thinking_fields", "thinking_of"]

_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")
"""From the least to the most."""

_BUDGETS: Mapping[str, int] = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 10_000,
    "high": 20_000,
    "xhigh": 32_000,
    "max": 48_000,
}
"""Tokens, for the models that are given a number."""

_LEAST_BUDGET = 1_024
_LEFT_FOR_THE_ANSWER = 4_096


@attrs.frozen(kw_only=True)
class Thinking:
    """What one model takes.

    Attributes:
        types: of `thinking.type`; `enabled` is the one with a budget.
        efforts: of `output_config.effort`; none: the field is not taken.
        betas: what a request has to name in `anthropic-beta`.
    """

    types: frozenset[str] = frozenset()
    efforts: tuple[str, ...] = ()
    betas: tuple[str, ...] = ()


_BUDGET = frozenset({"enabled", "disabled"})
_ADAPTIVE = frozenset({"adaptive", "disabled"})

_IMITATORS = Thinking(types=_BUDGET)

_BY_VERSION: tuple[tuple[str, tuple[int, int], Thinking], ...] = (
    ("", (0, 0), Thinking()),
    ("", (3, 7), Thinking(types=_BUDGET)),
    ("", (4, 0), Thinking(types=_BUDGET, betas=("interleaved-thinking-2025-05-14",))),
    ("", (4, 5), Thinking(types=_BUDGET)),
    ("", (4, 6), Thinking(types=_ADAPTIVE, efforts=("low", "medium", "high", "max"))),
    ("", (4, 7), Thinking(types=_ADAPTIVE, efforts=_EFFORTS[1:])),
    ("opus", (5, 5), Thinking(types=frozenset({"adaptive"}), efforts=_EFFORTS[1:])),
    ("fable", (5, 1), Thinking(types=frozenset({"adaptive"}), efforts=_EFFORTS[1:])),
)
"""By family and version, the last row that fits; a model of no version is taken as the newest."""

_CLAUDE = re.compile(r"claude-(?:([a-z]+)-?)?(?:(\d{1,2})(?:[-.](\d{1,2})(?!\d))?)?(?!\d)")


def thinking_of(model: str, capabilities: Capabilities) -> Thinking:
    """What is known of a model.

    Args:
        model: what the endpoint calls it.
        capabilities: what the endpoint said of it.
    """
    by_name = thinking_by_name(model.lower())
    types, efforts = capabilities.thinking, capabilities.efforts
    return attrs.evolve(
        by_name,
        types=by_name.types if types is None else types,
        efforts=by_name.efforts if efforts is None else efforts,
    )


def thinking_by_name(model: str) -> Thinking:
    """Return what is known of a model by its name alone, in small letters."""
    match = _CLAUDE.search(model)
    if match is None:
        return _IMITATORS
    family, major, minor = match.groups()
    version = (int(major), int(minor or 0)) if major else (99, 0)
    fitting = (known for of, since, known in _BY_VERSION if of in ("", family) and version >= since)
    return list(fitting)[-1]


def thinking_fields(effort: str | None, known: Thinking, *, max_tokens: int) -> dict[str, Any]:
    """The fields of a request that ask for thinking.

    Args:
        effort: what the user wants; None: nothing in particular, `none`: no thinking.
        known: what the model takes.
        max_tokens: of the answer, thinking included.
    """
    if effort == "none" and "disabled" in known.types:
        return {"thinking": {"type": "disabled"}}
    always = bool(known.types) and "disabled" not in known.types
    if effort in (None, "none") and not always:
        return {}
    if "adaptive" in known.types:
        # What such a model says between calls is thinking, and empty unless it is asked for.
        fields: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "summarized"}}
        if (nearest := _nearest(effort, known.efforts)) is not None:
            fields["output_config"] = {"effort": nearest}
        return fields
    budget = min(_BUDGETS.get(effort or "", 0) or _BUDGETS["medium"], _room(max_tokens))
    if "enabled" in known.types and budget >= _LEAST_BUDGET:
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    return {}


def _room(max_tokens: int) -> int:
    return max_tokens - min(_LEFT_FOR_THE_ANSWER, max_tokens // 2)


def _nearest(effort: str | None, known: tuple[str, ...]) -> str | None:
    """The known effort that is nearest to a wanted one."""
    if effort not in _EFFORTS:
        return None
    wanted = _EFFORTS.index(effort)
    places = [_EFFORTS.index(each) for each in known if each in _EFFORTS]
    return _EFFORTS[min(places, key=lambda place: abs(place - wanted))] if places else None
