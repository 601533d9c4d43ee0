"""What fills a model's context, by kind: for `/context`, and for clients that draw it.

The kinds are estimated, and together are what the provider counted, where it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from eca_protocol.messages import ContextBreakdown, ContextCategory
from eca_server.llm.backend import Request
from eca_server.llm.estimate import Kind, tokens_by_kind

__all__ = ["Asked", "breakdown"]

_SHOWN: Final[Mapping[Kind, tuple[str, str, str]]] = {
    "instructions": ("Instructions", "#5b8def", "🟦"),
    "tools": ("Tools", "#a77bd8", "🟪"),
    "messages": ("Messages", "#5fae5f", "🟩"),
    "calls": ("Tool calls", "#d8b34a", "🟨"),
    "files": ("Files and pictures", "#d86f5b", "🟥"),
}
"""Name, color and sign of each kind."""

_FREE: Final = ("#8a8a8a", "⬜")


@attrs.frozen(kw_only=True)
class Asked:
    """A request to a model.

    Attributes:
        request: what it was asked.
        context: the tokens of its context, if they are known.
        compact_at: how much of that a request may take, in percent.
    """

    request: Request
    context: int | None
    compact_at: float


def breakdown(request: Request, used: int, limit: int | None) -> ContextBreakdown:
    """What fills the context.

    Args:
        request: what the model would be asked.
        used: its tokens in all.
        limit: tokens of the model's context; None: unknown.
    """
    estimated = tokens_by_kind(request)
    whole = sum(estimated.values()) or 1
    tokens = {kind: count * used // whole for kind, count in estimated.items()}
    largest = max(tokens, key=lambda kind: tokens[kind])
    tokens[largest] += used - sum(tokens.values())
    categories = tuple(
        ContextCategory(name=name, tokens=tokens[kind], color=color, emoji=emoji)
        for kind, (name, color, emoji) in _SHOWN.items()
        if tokens[kind]
    )
    if limit is None:
        return ContextBreakdown(categories=categories, used_tokens=used)
    color, emoji = _FREE
    return ContextBreakdown(
        categories=categories,
        used_tokens=used,
        free_tokens=max(0, limit - used),
        context_limit=limit,
        free_color=color,
        free_emoji=emoji,
    )
