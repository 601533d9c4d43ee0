"""Limits and prices of models: their sources, and the cost of a request."""

from decimal import Decimal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.config.settings import Cost, Limit, Model, Provider
from eca_server.models.backend import ModelInfo
from eca_server.models.catalog import Catalog
from eca_server.models.events import Usage
from eca_server.models.facts import Capabilities, ModelFacts, Price
from eca_server.secret import Secret
from tests.eca_server.models.reading import models_of

CATALOG = Catalog()


@pytest.mark.parametrize(
    ("provider", "model", "same_as"),
    [
        ("openai", "gpt-5-2025-08-07", "gpt-5"),
        ("openai", "gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("anthropic", "claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("anthropic", "claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("google", "gemini-2.5-pro-preview-06-05", "gemini-2.5-pro"),
        ("mistral", "codestral-latest", "codestral"),
        ("z-ai", "GLM-4.6", "glm-4.6"),
    ],
)
def test_a_date_behind_a_name_is_the_same_model(provider: str, model: str, same_as: str) -> None:
    facts = CATALOG.facts(provider, model)
    assert facts == CATALOG.facts(provider, same_as) != ModelFacts()


@pytest.mark.parametrize(
    ("provider", "models"),
    [("openai", "gpt-5.7 gpt-5-ultra gpt "), ("anthropic", "claude-opus-4-99"), ("nobody", "no")],
)
def test_a_model_of_another_name_is_unknown(provider: str, models: str) -> None:
    for model in models.split(" "):
        assert CATALOG.facts(provider, model) == ModelFacts()


def test_the_longest_name_counts() -> None:
    for provider, name, longer in (
        ("openai", "gpt-5", "gpt-5-mini"),
        ("anthropic", "claude-opus-5", "claude-opus-5-5"),
    ):
        assert CATALOG.facts(provider, name) != CATALOG.facts(provider, longer)


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


URL = "http://localhost:1/v1"
CACHED = {"input": 1, "output": 2, "cache_read": 0.5}
GPT_5 = ModelFacts(context=400_000, output=128_000, images=True, reasoning=True)


@pytest.mark.parametrize(
    ("model", "facts"),
    [
        (Model(), GPT_5),
        (Model(limit=Limit(context=7)), attrs.evolve(GPT_5, context=7)),
        (Model(limit=Limit(output=9)), attrs.evolve(GPT_5, output=9)),
        (Model(image_input=False), attrs.evolve(GPT_5, images=False)),
        (Model(model_name="nothing known"), ModelFacts()),
        (Model(cost=Cost(**CACHED)), attrs.evolve(GPT_5, price=Price(**CACHED))),
        (Model(cost=Cost(input=1)), GPT_5),
    ],
)
def test_what_is_configured_counts_more_than_the_table(model: Model, facts: ModelFacts) -> None:
    chosen = models_of({"p": Provider(url=URL, models={"gpt-5": model})}).find("p/gpt-5")
    can = chosen.capabilities
    assert chosen.facts == facts
    assert (can.context, can.output) == (facts.context, facts.output)
    assert can.images == (facts.images is not False)
    assert can.reasoning == (facts.reasoning is True)


def test_the_user_counts_more_than_the_provider_and_it_more_than_the_catalogue() -> None:
    facts = ModelFacts(tools=False, images=False, context=3, thinking=frozenset({"adaptive"}))
    configured = Model(model_name="o3", limit=Limit(context=2), image_input=True)
    listed = [ModelInfo(name=name, facts=facts) for name in ("o3", "new")]
    settings = Provider(url=URL, models={"mine": configured})
    models = models_of({"p": settings}, listed={"p": listed})
    mine = models.find("p/mine").capabilities
    assert (mine.context, mine.images, mine.tools, mine.output) == (2, True, False, 100_000)
    assert mine.thinking == facts.thinking
    assert models.find("p/new").capabilities == facts.capabilities()
    theirs = models.find("p/o3").capabilities
    assert (theirs.context, theirs.images, theirs.reasoning) == (3, False, True)


def test_a_model_is_known_by_its_provider_or_its_base_and_else_can_all() -> None:
    work = Provider(url="https://api.openai.com/v1", key=Secret("k"))
    models = models_of({"p": Provider(url=URL), "work": work}, environ={"OPENAI_API_KEY": "sk-x"})
    assert models.find("p/novel").capabilities == Capabilities()
    known = CATALOG.facts("openai", "gpt-5")
    assert models.find("work/gpt-5").facts == models.find("openai/gpt-5").facts == known


def test_what_was_fetched_is_newer_and_what_it_leaves_open_is_as_packaged() -> None:
    price = Price(input=1, output=1)
    fetched = {"openai": {"gpt-5": ModelFacts(context=5, price=price), "gpt-9": ModelFacts()}}
    catalog = Catalog(fetched)
    assert catalog.facts("openai", "gpt-5") == attrs.evolve(GPT_5, context=5, price=price)
    assert catalog.facts("openai", "gpt-5-2030-01-01").context == 5
    assert catalog.facts("openai", "gpt-9") == ModelFacts()
    assert catalog.facts("reseller", "openai/gpt-5").context == 5
    opus = ("anthropic", "claude-opus-5")
    assert catalog.facts(*opus) == CATALOG.facts(*opus)


def test_a_fetched_reseller_does_not_hide_what_the_maker_says() -> None:
    resold = {"together": {"openai/gpt-5": ModelFacts(context=1)}}
    assert Catalog(resold).facts("nobody", "gpt-5").context == 400_000
    assert Catalog(resold).facts("together", "openai/gpt-5").context == 1
