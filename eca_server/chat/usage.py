"""What a chat has taken so far: tokens, and money where the provider says how much (W-27)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

from eca_protocol.messages import ChatUsageContent, UsageLimit
from eca_server.llm.events import Usage

__all__ = ["SessionUsage", "tokens_of"]


def tokens_of(usage: Usage) -> int:
    """All tokens of one request, as far as they are known."""
    return sum(
        count or 0 for count in (usage.input, usage.cache_read, usage.cache_write, usage.output)
    )


class SessionUsage:
    """The sum over a chat's turns.

    Attributes:
        tokens: of all requests.
        last_cost: US dollars of the last turn; None is unknown.
        cost: US dollars of all turns; None as long as no turn's cost was known.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self.last_cost: Decimal | None = None
        self.cost: Decimal | None = None

    def add(self, usages: Sequence[Usage]) -> None:
        """Count a turn's requests."""
        if not usages:
            return
        self.tokens += sum(tokens_of(usage) for usage in usages)
        costs = [Decimal(repr(usage.cost)) for usage in usages if _is_cost(usage.cost)]
        self.last_cost = sum(costs, Decimal()) if len(costs) == len(usages) else None
        if self.last_cost is not None:
            self.cost = (self.cost or Decimal()) + self.last_cost

    def content(self, limit: UsageLimit | None) -> ChatUsageContent:
        """What the client is told before a turn's `finished`."""
        last = money(self.last_cost)
        return ChatUsageContent(
            session_tokens=self.tokens,
            last_message_cost=last,
            message_cost=last,
            session_cost=money(self.cost),
            limit=limit,
        )


def _is_cost(amount: float | None) -> bool:
    """Providers may say anything; a turn must end all the same."""
    return amount is not None and 0 <= amount < math.inf


def money(amount: Decimal | None) -> str | None:
    """Dollars as text: two decimals or, for less than a cent's precision, up to six."""
    if amount is None:
        return None
    text = f"{amount:.6f}".rstrip("0")
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals:0<2}"
