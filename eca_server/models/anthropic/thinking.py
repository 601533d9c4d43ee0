"""The options of models for thinking, and the request fields that select one: data.

The endpoint's listing counts; the model's name decides only where the listing says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from eca_server.models.facts import Capabilities
from eca_server.models.reasoning import EFFORTS, nearest_effort

_BUDGETS: Mapping[str, int] = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 10_000,
    "high": 20_000,
    "xhigh": 32_000,
    "max": 48_000,
}
"""Token budgets of models that take a number."""

_LEAST_BUDGET = 1_024
_LEFT_FOR_THE_ANSWER = 4_096


@attrs.frozen(kw_only=True)
class ThinkingSupport:
    """A model's options for thinking.

    Attributes:
        types: values of `thinking.type`; `enabled` is the one with a budget.
        efforts: values of `output_config.effort`; empty: the field is not accepted.
        betas: values of the header `anthropic-beta`.
    """

    types: frozenset[str] = frozenset()
    efforts: tuple[str, ...] = ()
    betas: tuple[str, ...] = ()


_BUDGET = frozenset({"enabled", "disabled"})
_ADAPTIVE = frozenset({"adaptive", "disabled"})

_IMITATORS = ThinkingSupport(types=_BUDGET)

_BY_VERSION: tuple[tuple[str, tuple[int, int], ThinkingSupport], ...] = (
    ("", (0, 0), ThinkingSupport()),
    ("", (3, 7), ThinkingSupport(types=_BUDGET)),
    ("", (4, 0), ThinkingSupport(types=_BUDGET, betas=("interleaved-thinking-2025-05-14",))),
    ("", (4, 5), ThinkingSupport(types=_BUDGET)),
    ("", (4, 6), ThinkingSupport(types=_ADAPTIVE, efforts=("low", "medium", "high", "max"))),
    ("", (4, 7), ThinkingSupport(types=_ADAPTIVE, efforts=EFFORTS[1:])),
    ("opus", (5, 5), ThinkingSupport(types=frozenset({"adaptive"}), efforts=EFFORTS[1:])),
    ("fable", (5, 1), ThinkingSupport(types=frozenset({"adaptive"}), efforts=EFFORTS[1:])),
)
"""By family and version; the last matching row counts, a name without version is the newest."""

_CLAUDE = re.compile(r"claude-(?:([a-z]+)-?)?(?:(\d{1,2})(?:[-.](\d{1,2})(?!\d))?)?(?!\d)")


def thinking_support(model: str, capabilities: Capabilities) -> ThinkingSupport:
    """Return the options of a model.

    `capabilities`: the capabilities that the endpoint listed.
    """
    by_name = thinking_by_name(model.lower())
    types, efforts = capabilities.thinking, capabilities.efforts
    return attrs.evolve(
        by_name,
        types=by_name.types if types is None else types,
        efforts=by_name.efforts if efforts is None else efforts,
    )


def thinking_by_name(model: str) -> ThinkingSupport:
    """Return the options by a model's name alone, in lower case."""
    match = _CLAUDE.search(model)
    if match is None:
        return _IMITATORS
    family, major, minor = match.groups()
    version = (int(major), int(minor or 0)) if major else (99, 0)
    fitting = (
        support for of, since, support in _BY_VERSION if of in ("", family) and version >= since
    )
    return list(fitting)[-1]


def thinking_fields(
    effort: str | None, support: ThinkingSupport, *, max_tokens: int
) -> dict[str, Any]:
    """Return the fields of a request that ask for thinking.

    Args:
        effort: the user's choice; None: no choice, `none`: no thinking.
        support: the model's options.
        max_tokens: the limit of the answer, thinking included.
    """
    if effort == "none" and "disabled" in support.types:
        return {"thinking": {"type": "disabled"}}
    always = bool(support.types) and "disabled" not in support.types
    if effort in (None, "none") and not always:
        return {}
    if "adaptive" in support.types:
        # Between calls such a model writes thinking blocks, which are empty without `display`.
        fields: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "summarized"}}
        requested = None if effort == "none" else effort
        if (nearest := nearest_effort(requested, support.efforts)) is not None:
            fields["output_config"] = {"effort": nearest}
        return fields
    budget = min(_BUDGETS.get(effort or "", 0) or _BUDGETS["medium"], _largest_budget(max_tokens))
    if "enabled" in support.types and budget >= _LEAST_BUDGET:
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    return {}


def _largest_budget(max_tokens: int) -> int:
    return max_tokens - min(_LEFT_FOR_THE_ANSWER, max_tokens // 2)
