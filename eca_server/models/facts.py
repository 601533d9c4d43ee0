"""The known facts of a model: its limits, capabilities and price."""

from __future__ import annotations

from decimal import Decimal
from typing import Self

import attrs
from attrs.converters import optional

from eca_server.config import settings as configuration
from eca_server.models.events import Usage

_MILLION = 1_000_000


def _exact(amount: Decimal | float) -> Decimal:
    """Return the number as it was written, to the digit."""
    return Decimal(str(amount))


@attrs.frozen(kw_only=True)
class Price:
    """US dollars per million tokens.

    Attributes:
        input: prompt tokens that use no cache.
        output: generated tokens, reasoning included.
        cache_read: tokens read from the provider's cache; None: as other input.
        cache_write: tokens written to it; None: as other input.
        long_from: a request with a longer prompt, in tokens, has a higher price as a whole.
        long_input: the factor for the prompt of such a request.
        long_output: the factor for its answer.
    """

    input: Decimal = attrs.field(converter=_exact)
    output: Decimal = attrs.field(converter=_exact)
    cache_read: Decimal | None = attrs.field(default=None, converter=optional(_exact))
    cache_write: Decimal | None = attrs.field(default=None, converter=optional(_exact))
    long_from: int | None = None
    long_input: Decimal = attrs.field(default=Decimal(1), converter=_exact)
    long_output: Decimal = attrs.field(default=Decimal(1), converter=_exact)

    def cost(self, usage: Usage) -> Decimal | None:
        """Return the dollars for one request; None if its tokens are unknown."""
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
class Capabilities:
    """The capabilities of a model for its backend: what is unknown has the usual value.

    Attributes:
        context: the limit of prompt and answer together, in tokens.
        output: the limit of the answer, in tokens.
        thinking: the API's types of thinking; None: the model's name decides.
        efforts: the API's reasoning efforts; None: the model's name decides.
        web_search: the provider's own search is offered to it.
    """

    tools: bool = True
    images: bool = True
    reasoning: bool = False
    context: int | None = None
    output: int | None = None
    thinking: frozenset[str] | None = None
    efforts: tuple[str, ...] | None = None
    web_search: bool = False


@attrs.frozen(kw_only=True)
class ModelFacts:
    """The known facts of a model; None is unknown.

    Attributes:
        context: the limit of prompt and answer together, in tokens.
        output: the limit of the answer, in tokens.
        thinking: the API's types of thinking.
        efforts: the API's reasoning efforts.
        web_search: whether the provider's own search is offered to it.
    """

    context: int | None = None
    output: int | None = None
    price: Price | None = None
    tools: bool | None = None
    images: bool | None = None
    reasoning: bool | None = None
    thinking: frozenset[str] | None = None
    efforts: tuple[str, ...] | None = None
    web_search: bool | None = None

    @classmethod
    def from_settings(cls, model: configuration.Model) -> Self:
        """Return the facts of a model that the user has configured."""
        cost, price = model.cost, None
        if cost.input is not None and cost.output is not None:
            price = Price(**attrs.asdict(cost))
        return cls(
            context=model.limit.context,
            output=model.limit.output,
            price=price,
            images=model.image_input,
        )

    def with_defaults(self, other: ModelFacts) -> ModelFacts:
        """Return these facts, with those of `other` where these are unknown."""
        values = attrs.asdict(self, recurse=False)
        return attrs.evolve(other, **{name: v for name, v in values.items() if v is not None})

    def capabilities(self) -> Capabilities:
        """Return the capabilities: by default a model calls tools and accepts images."""
        values = attrs.asdict(self, recurse=False)
        del values["price"]
        return Capabilities(**{name: v for name, v in values.items() if v is not None})

    def with_cost(self, usage: Usage) -> Usage:
        """Return the usage with its cost, if the provider gave none and the price is known."""
        if usage.cost is not None or self.price is None:
            return usage
        cost = self.price.cost(usage)
        return usage if cost is None else attrs.evolve(usage, cost=float(cost))
