"""Limits and prices of models: whose they are, and what a request costs by them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.http import HTTPClient
from eca_server.config import Config, Cost, Limit, Model, Provider
from eca_server.llm.catalog import Catalog, ModelFacts, Price
from eca_server.llm.events import Usage
from eca_server.llm.models import Models

CATALOG = Catalog()


@pytest.mark.parametrize(
    ("model", "same_as"),
    [
        ("gpt-5-2025-08-07", "gpt-5"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("gemini-2.5-pro-preview-06-05", "gemini-2.5-pro"),
        ("codestral-latest", "codestral"),
        ("GLM-4.6", "glm-4.6"),
    ],
)
def test_a_date_behind_a_name_is_the_same_model(model: str, same_as: str) -> None:
    provider = next(
        each
        for each in ("openai", "anthropic", "google", "mistral", "z-ai")
        if CATALOG.facts(each, same_as).price
    )
    assert CATALOG.facts(provider, model) == CATALOG.facts(provider, same_as)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-5.7"),
        ("openai", "gpt-5-ultra"),
        ("openai", "gpt"),
        ("openai", ""),
        ("anthropic", "claude-opus-4-99"),
        ("nobody", "nothing"),
    ],
)
def test_a_model_of_another_name_is_unknown(provider: str, model: str) -> None:
    assert CATALOG.facts(provider, model) == ModelFacts()


def test_the_longest_name_counts() -> None:
    assert CATALOG.facts("openai", "gpt-5-mini") != CATALOG.facts("openai", "gpt-5")
    assert CATALOG.facts("anthropic", "claude-opus-5-5") != CATALOG.facts(
        "anthropic", "claude-opus-5"
    )


def test_a_model_sold_by_another_has_its_limits_but_no_price() -> None:
    own = CATALOG.facts("anthropic", "claude-sonnet-4-5")
    resold = CATALOG.facts("openrouter", "anthropic/claude-sonnet-4-5")
    assert (resold.context, resold.output) == (own.context, own.output) == (200_000, 64_000)
    assert own.price is not None
    assert resold.price is None


def test_a_model_on_this_machine_costs_nothing_and_its_limits_are_its_owners() -> None:
    facts = CATALOG.facts("lmstudio", "gpt-5")
    assert (facts.context, facts.output) == (None, None)
    assert facts.priced(Usage(input=10**6, output=10**6)).cost == 0


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_name_may_be_asked_for(provider: str, model: str) -> None:
    assert isinstance(CATALOG.facts(provider, model), ModelFacts)


PRICE = Price(input=2, output=10, cache_read=0.2, cache_write=2.5)
LONG = Price(input=2, output=10, cache_read=0.2, long_from=1000, long_input=2, long_output=1.5)


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    [
        (PRICE, Usage(input=1_000_000, output=0), "2"),
        (PRICE, Usage(input=1000, output=100, cache_read=500, cache_write=40), "0.0032"),
        (PRICE, Usage(input=0, output=0), "0"),
        (PRICE, Usage(output=5), None),
        (PRICE, Usage(input=5), None),
        (Price(input=2, output=1), Usage(input=1, output=0, cache_read=1, cache_write=1), "6e-6"),
        (LONG, Usage(input=500, output=100, cache_read=500), "0.0021"),
        (LONG, Usage(input=501, output=100, cache_read=500), "0.003704"),
    ],
)
def test_a_request_costs_what_its_tokens_cost(price: Price, usage: Usage, cost: str | None) -> None:
    assert price.cost(usage) == (None if cost is None else Decimal(cost))


def test_what_the_provider_tells_counts_more_than_the_table() -> None:
    told = Usage(input=1_000_000, output=0, cost=0.5)
    assert ModelFacts(price=PRICE).priced(told) is told
    assert ModelFacts(price=PRICE).priced(Usage(input=1_000_000, output=0)).cost == 2
    assert ModelFacts().priced(Usage(input=1, output=1)).cost is None


@pytest.mark.parametrize(
    ("model", "facts"),
    [
        (Model(), ModelFacts(context=400_000, output=128_000)),
        (Model(limit=Limit(context=7)), ModelFacts(context=7, output=128_000)),
        (Model(limit=Limit(output=9)), ModelFacts(context=400_000, output=9)),
        (Model(model_name="nothing known"), ModelFacts()),
        (
            Model(cost=Cost(input=1, output=2, cache_read=0.5)),
            ModelFacts(
                context=400_000, output=128_000, price=Price(input=1, output=2, cache_read=0.5)
            ),
        ),
        (Model(cost=Cost(input=1)), ModelFacts(context=400_000, output=128_000)),
    ],
)
def test_what_is_configured_counts_more_than_the_table(model: Model, facts: ModelFacts) -> None:
    provider = Provider(url="http://localhost:1/v1", models={"gpt-5": model})
    models = Models(Config(providers={"p": provider}), environ={}, http=HTTPClient())
    found = models.find("p/gpt-5")
    assert found.facts == facts
    assert (found.capabilities.context, found.capabilities.output) == (facts.context, facts.output)


def test_a_model_nobody_configured_is_known_all_the_same() -> None:
    models = Models(Config(), environ={"OPENAI_API_KEY": "sk-x"}, http=HTTPClient())
    assert models.find("openai/gpt-5").facts == CATALOG.facts("openai", "gpt-5")
