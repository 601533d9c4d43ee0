"""Limits and prices of models: their sources, and the cost of a request."""

from __future__ import annotations

from decimal import Decimal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.http import HTTPClient
from eca_server.config.settings import Config, Cost, Limit, Model, Provider
from eca_server.models.backend import ModelInfo
from eca_server.models.catalog import Catalog
from eca_server.models.events import Usage
from eca_server.models.facts import Capabilities, ModelFacts, Price
from eca_server.models.listings import Endpoint, Listing
from eca_server.models.models import Models
from eca_server.secret import Secret

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
    assert facts.with_cost(Usage(input=10**6, output=10**6)).cost == 0


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


def test_what_the_provider_lists_counts_more_than_the_table() -> None:
    usage = Usage(input=1_000_000, output=0, cost=0.5)
    assert ModelFacts(price=PRICE).with_cost(usage) is usage
    assert ModelFacts(price=PRICE).with_cost(Usage(input=1_000_000, output=0)).cost == 2
    assert ModelFacts().with_cost(Usage(input=1, output=1)).cost is None


GPT_5 = ModelFacts(context=400_000, output=128_000, images=True, reasoning=True)


@pytest.mark.parametrize(
    ("model", "facts"),
    [
        (Model(), GPT_5),
        (Model(limit=Limit(context=7)), attrs.evolve(GPT_5, context=7)),
        (Model(limit=Limit(output=9)), attrs.evolve(GPT_5, output=9)),
        (Model(image_input=False), attrs.evolve(GPT_5, images=False)),
        (Model(model_name="nothing known"), ModelFacts()),
        (
            Model(cost=Cost(input=1, output=2, cache_read=0.5)),
            attrs.evolve(GPT_5, price=Price(input=1, output=2, cache_read=0.5)),
        ),
        (Model(cost=Cost(input=1)), GPT_5),
    ],
)
def test_what_is_configured_counts_more_than_the_table(model: Model, facts: ModelFacts) -> None:
    provider = Provider(url="http://localhost:1/v1", models={"gpt-5": model})
    models = Models(Config(providers={"p": provider}), environ={}, http=HTTPClient())
    found_model = models.find("p/gpt-5")
    assert found_model.facts == facts
    assert (found_model.capabilities.context, found_model.capabilities.output) == (
        facts.context,
        facts.output,
    )
    assert found_model.capabilities.images == (facts.images is not False)
    assert found_model.capabilities.reasoning == (facts.reasoning is True)


URL = "http://localhost:1/v1"


def listed(**models: ModelFacts) -> dict[Endpoint, Listing]:
    infos = tuple(ModelInfo(name=name, facts=result) for name, result in models.items())
    return {Endpoint("p", URL): Listing(models=infos, at=0)}


def test_the_user_counts_more_than_the_provider_and_it_more_than_the_catalogue() -> None:
    facts = ModelFacts(tools=False, images=False, context=3, thinking=frozenset({"adaptive"}))
    configured = Model(model_name="o3", limit=Limit(context=2), image_input=True)
    models = Models(
        Config(providers={"p": Provider(url=URL, models={"mine": configured})}),
        environ={},
        http=HTTPClient(),
        listing=listed(o3=facts, new=facts).get,
    )
    mine = models.find("p/mine").capabilities
    assert (mine.context, mine.images, mine.tools, mine.output) == (2, True, False, 100_000)
    assert mine.thinking == facts.thinking
    assert models.find("p/new").capabilities == facts.capabilities()
    theirs = models.find("p/o3").capabilities
    assert (theirs.context, theirs.images, theirs.reasoning) == (3, False, True)


def test_a_model_that_nothing_is_known_of_uses_tools_and_reads_pictures() -> None:
    models = Models(Config(providers={"p": Provider(url=URL)}), environ={}, http=HTTPClient())
    assert models.find("p/novel").capabilities == Capabilities()


def test_a_provider_of_another_name_has_the_prices_of_the_one_at_its_base() -> None:
    work = Provider(url="https://api.openai.com/v1", key=Secret("k"))
    models = Models(Config(providers={"work": work}), environ={}, http=HTTPClient())
    assert models.find("work/gpt-5").facts == CATALOG.facts("openai", "gpt-5")


def test_a_model_that_is_not_configured_is_known_all_the_same() -> None:
    models = Models(Config(), environ={"OPENAI_API_KEY": "sk-x"}, http=HTTPClient())
    assert models.find("openai/gpt-5").facts == CATALOG.facts("openai", "gpt-5")


def test_what_was_fetched_is_newer_and_what_it_leaves_open_is_as_packaged() -> None:
    price = Price(input=1, output=1)
    fetched = {"openai": {"gpt-5": ModelFacts(context=5, price=price), "gpt-9": ModelFacts()}}
    catalog = Catalog(fetched)
    assert catalog.facts("openai", "gpt-5") == attrs.evolve(GPT_5, context=5, price=price)
    assert catalog.facts("openai", "gpt-5-2030-01-01").context == 5
    assert catalog.facts("openai", "gpt-9") == ModelFacts()
    assert catalog.facts("reseller", "openai/gpt-5").context == 5
    assert catalog.facts("anthropic", "claude-opus-5") == CATALOG.facts(
        "anthropic", "claude-opus-5"
    )


def test_a_fetched_reseller_does_not_hide_what_the_maker_says() -> None:
    resold = {"together": {"openai/gpt-5": ModelFacts(context=1)}}
    assert Catalog(resold).facts("nobody", "gpt-5").context == 400_000
    assert Catalog(resold).facts("together", "openai/gpt-5").context == 1
