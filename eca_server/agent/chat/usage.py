"""The usage of a chat: tokens, and costs where they are known (W-27)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from decimal import Decimal

import attrs

from eca_protocol.messages import ChatUsageContent, UsageLimit
from eca_server.agent.chat.store.rows import TurnUsage
from eca_server.models.events import Usage


def tokens_of(usage: Usage) -> int:
    """Return the sum of the known token counts of one request."""
    return sum(
        count or 0 for count in (usage.input, usage.cache_read, usage.cache_write, usage.output)
    )


def taken(usages: Sequence[Usage]) -> tuple[int, Decimal | None]:
    """Return the tokens of a turn's requests, and their cost in US dollars if all are known."""
    costs = [Decimal(repr(usage.cost)) for usage in usages if _is_cost(usage.cost)]
    cost = sum(costs, Decimal()) if usages and len(costs) == len(usages) else None
    return sum(tokens_of(usage) for usage in usages), cost


class SessionUsage:
    """The sum over a chat's turns.

    Args:
        stored: its turns so far.

    Attributes:
        last_cost: US dollars of the last turn; None: unknown.
        cost: US dollars of all turns; None: no turn's cost is known.
        last_content: the last usage content that was written; None: none.
    """

    def __init__(self, stored: Iterable[TurnUsage] = ()) -> None:
        self.tokens = 0
        self.last_tokens = 0
        self.last_cost: Decimal | None = None
        self.cost: Decimal | None = None
        self.last_content: ChatUsageContent | None = None
        for turn in stored:
            self.add_turn(turn.tokens, turn.cost)

    def add(self, usages: Sequence[Usage]) -> None:
        """Count a turn's requests."""
        if usages:
            self.add_turn(*taken(usages))

    def add_turn(self, tokens: int, cost: Decimal | None) -> None:
        """Count a turn by its tokens and its cost."""
        self.tokens += tokens
        self.last_tokens = tokens
        self.last_cost = cost
        if cost is not None:
            self.cost = (self.cost or Decimal()) + cost

    def content(self, limit: UsageLimit | None, running: Sequence[Usage] = ()) -> ChatUsageContent:
        """Return the usage content; `running` are the requests of a running turn."""
        if running:
            with_turn = copy(self)
            with_turn.add(running)
            return with_turn.content(limit)
        last = money(self.last_cost)
        return ChatUsageContent(
            session_tokens=self.tokens,
            tokens_used=self.last_tokens,
            last_message_cost=last,
            message_cost=last,
            session_cost=money(self.cost),
            limit=limit,
        )

    def shown_again(self, context: Mapping[str, int], *, is_gauge: bool) -> ChatUsageContent | None:
        """Return the usage content for a client that shows the chat again; None: it is unknown.

        Args:
            context: the use of the context at the end of the last turn; see `ChatSettings`.
            is_gauge: the client shows that use instead of the sum of the turns (W-27).
        """
        if "used" not in context:
            return None
        last = self.last_content
        if is_gauge and last is not None and last.session_tokens == context["used"]:
            return last  # with its breakdown, which is not stored
        limit = UsageLimit(context=context.get("context"), output=context.get("output"))
        is_limited = limit.context is not None and (is_gauge or limit.output is not None)
        usage = self.content(limit if is_limited else None)
        return attrs.evolve(usage, session_tokens=context["used"]) if is_gauge else usage


def with_use(context: Mapping[str, int], used: int | None) -> Mapping[str, int]:
    """Return the use of the context with a changed number of tokens; see `ChatSettings`."""
    return {} if used is None else {**context, "used": used}


def _is_cost(amount: float | None) -> bool:
    """Return whether a provider's value is a possible cost: not negative, infinite or NaN."""
    return amount is not None and 0 <= amount < math.inf


def money(amount: Decimal | None) -> str | None:
    """Return dollars as text with two to six decimals."""
    if amount is None:
        return None
    text = f"{amount:.6f}".rstrip("0")
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals:0<2}"
