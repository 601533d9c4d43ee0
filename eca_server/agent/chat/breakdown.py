"""The use of a model's context by kind, for `/context` and for clients that draw it.

The kinds are estimated; their sum is the provider's count, if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from eca_protocol.messages import ChatUsageContent, ContextBreakdown, ContextCategory
from eca_server.agent.chat.history import History
from eca_server.models.backend import Request
from eca_server.models.estimate import Kind, tokens_by_kind
from eca_server.models.history import Message, effective_history

_SHOWN: Final[Mapping[Kind, tuple[str, str, str]]] = {
    "instructions": ("Instructions", "#5b8def", "🟦"),
    "tools": ("Tools", "#a77bd8", "🟪"),
    "messages": ("Messages", "#5fae5f", "🟩"),
    "calls": ("Tool calls", "#d8b34a", "🟨"),
    "files": ("Files and pictures", "#d86f5b", "🟥"),
}
"""Name, color and emoji of each kind."""

_FREE: Final = ("#8a8a8a", "⬜")


@attrs.frozen(kw_only=True)
class LastRequest:
    """The last request to a model.

    Attributes:
        context: the tokens of the model's context, if known.
        compact_at: the percentage of the context that a request may take.
    """

    request: Request
    context: int | None
    compact_at: float


def with_breakdown(
    usage: ChatUsageContent, last: LastRequest, history: History, running: Sequence[Message]
) -> ChatUsageContent:
    """Return a usage content with the context of the next request.

    `history`: the messages before the turn.
    """
    request, used = next_request(last, history, running)
    return attrs.evolve(
        usage,
        session_tokens=used,
        auto_compact_percentage=last.compact_at,
        context_breakdown=breakdown(request, used, last.context),
    )


def next_request(
    last: LastRequest, history: History, running: Sequence[Message]
) -> tuple[Request, int]:
    """Return the next request so far, and its tokens; for the arguments see `with_breakdown`."""
    messages = effective_history(running, history.model_context)
    request = attrs.evolve(last.request, messages=messages)
    return request, history.tokens(request, len(running))


def breakdown(request: Request, used: int, limit: int | None) -> ContextBreakdown:
    """Return the use of the context by kind."""
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
    unlimited = ContextBreakdown(categories=categories, used_tokens=used)
    if limit is None:
        return unlimited
    free, (color, emoji) = max(0, limit - used), _FREE
    return attrs.evolve(
        unlimited, free_tokens=free, context_limit=limit, free_color=color, free_emoji=emoji
    )
