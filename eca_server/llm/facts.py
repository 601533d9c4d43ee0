"""What is known of one model: its limits, what it can do, what it costs."""

from __future__ import annotations

from decimal import Decimal
from typing import Self

import attrs
from attrs.converters import optional

from eca_server.llm.backend import Capabilities
from eca_server.llm.events import Usage

__all__ = ["ModelFacts", "Price"]

_MILLION = 1_000_000


def _exact(amount: Decimal | float) -> Decimal:
    """The number as somebody wrote it down, to the digit."""
    return Decimal(str(amount))


@attrs.frozen(kw_only=True)
class Price:
    """US dollars per million tokens.

    Attributes:
        input: of a prompt, where it came from no cache.
        output: of what the model makes, reasoning included.
        cache_read: of what came from the provider's cache; None: as other input.
        cache_write: of what went into it; None: as other input.
        long_from: a request with a longer prompt than so many tokens costs more as a whole.
        long_input: the factor of what such a prompt costs.
        long_output: the factor of what its answer costs.
    """

    input: Decimal = attrs.field(converter=_exact)
    output: Decimal = attrs.field(converter=_exact)
    cache_read: Decimal | None = attrs.field(default=None, converter=optional(_exact))
    cache_write: Decimal | None = attrs.field(default=None, converter=optional(_exact))
    long_from: int | None = None
    long_input: Decimal = attrs.field(default=Decimal(1), converter=_exact)
    long_output: Decimal = attrs.field(default=Decimal(1), converter=_exact)

    def cost(self, usage: Usage) -> Decimal | None:
        """Dollars for one request; None where its tokens are not known."""
        if usage.input is None or usage.output is None:
            return None
        read, written = usage.cache_read or 0, usage.cache_write or 0
        prompt = (
            usage.input * self.input
            + read * (self.input if self.cache_read is None else self.cache_read)
            + written * (self.input if self.cache_write is None else self.cache_write)
        )
        answer = usage.output * self.output
        if self.long_from is not None and usage.input + read + written > self.long_from:
            prompt, answer = prompt * self.long_input, answer * self.long_output
        return (prompt + answer) / _MILLION


@attrs.frozen(kw_only=True)
class ModelFacts:
    """What is known of one model; None is unknown.

    Attributes:
        context: tokens of prompt and answer together.
        output: tokens of the answer at most.
        price: what its provider asks for.
        tools: whether it calls tools.
        images: whether it reads pictures.
        reasoning: whether it thinks before it answers.
    """

    context: int | None = None
    output: int | None = None
    price: Price | None = None
    tools: bool | None = None
    images: bool | None = None
    reasoning: bool | None = None

    @classmethod
    def told_by(cls, told: Capabilities) -> Self:
        """What a provider says of its model; where nothing is said, a default stands there."""
        return cls(
            context=told.context,
            output=told.output,
            tools=None if told.tools else False,
            images=None if told.images else False,
            reasoning=True if told.reasoning else None,
        )

    def over(self, other: ModelFacts) -> ModelFacts:
        """These facts, and those of `other` where these are unknown."""
        known = attrs.asdict(self, recurse=False)
        return attrs.evolve(other, **{name: v for name, v in known.items() if v is not None})

    def capabilities(self, told: Capabilities) -> Capabilities:
        """What a backend is to know: a model that nothing is known of calls tools, reads pictures.

        Args:
            told: what the provider says of it beside.
        """
        return attrs.evolve(
            told,
            tools=self.tools is not False,
            images=self.images is not False,
            reasoning=self.reasoning is True,
            context=self.context,
            output=self.output,
        )

    def priced(self, usage: Usage) -> Usage:
        """The usage with its cost, where the provider did not tell one and it can be worked out."""
        if usage.cost is not None or self.price is None:
            return usage
        cost = self.price.cost(usage)
        return usage if cost is None else attrs.evolve(usage, cost=float(cost))
