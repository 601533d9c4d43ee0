"""The public catalogue: reading it, whatever it contains, and fetching it once."""

from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply
from eca_server.models.events import Usage
from eca_server.models.facts import ModelFacts, Price
from eca_server.models.models_dev import FetchError, extract, fetch, read_catalog
from tests.eca_server.models.reading import odd_values

PRICE = {"input": 0.6, "output": 2.2, "cache_read": 0.11}
MODEL = {
    "id": "glm-9",
    "name": "GLM 9",
    "attachment": False,
    "reasoning": True,
    "tool_call": True,
    "modalities": {"input": ["text", "image"], "output": ["text"]},
    "limit": {"context": 200_000, "output": "1000"},
    "cost": PRICE,
}
ABILITIES = {"tools": True, "images": True, "reasoning": True}
FACTS = ModelFacts(context=200_000, output=1000, price=Price(**PRICE), **ABILITIES)


def read(document: Any) -> dict[str, dict[str, ModelFacts]]:
    return read_catalog(extract(document))


def one(**changed: Any) -> ModelFacts:
    return read({"openai": {"models": {"m": {**MODEL, **changed}}}})["openai"]["m"]


def test_a_models_facts_are_read_under_our_name_of_its_provider_and_stored_small():
    document = {"zai": {"id": "zai", "models": {"GLM-9": MODEL}}, "stranger": {"models": {}}}
    assert read(document) == {"z-ai": {"glm-9": FACTS}}
    assert "name" not in str(extract(document))


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"limit": {"context": "many"}}, {"context": None, "output": None}),
        ({"limit": {"context": -1, "output": 10**400}}, {"context": None, "output": None}),
        ({"limit": None}, {"context": None, "output": None}),
        ({"limit": {"context": 0, "output": True}}, {"context": None, "output": None}),
        ({"cost": {"input": 1}}, {"price": None}),
        ({"cost": {"input": "nan", "output": 1}}, {"price": None}),
        ({"cost": {"input": "1.5", "output": 0}}, {"price": Price(input=1.5, output=0)}),
        ({"modalities": {"input": ["text"]}}, {"images": False}),
        ({"modalities": {"input": "image"}, "attachment": True}, {"images": True}),
        ({"modalities": 3, "attachment": "yes"}, {"images": None}),
        ({"tool_call": 1, "reasoning": "no"}, {"tools": None, "reasoning": None}),
    ],
)
def test_what_is_odd_costs_its_own_fact_only(changed, facts):
    assert one(**changed) == attrs.evolve(FACTS, **facts)


TIER = {"input": 5, "output": 22.5, "cache_read": 0.5}
NEXT = {**TIER, "tier": {"type": "context", "size": 272_000}}
LAST = {"input": 9, "output": 9, "tier": {"type": "context", "size": 500_000}}
AT_NIGHT = {"input": 0, "output": 0, "tier": {"type": "hour", "size": 1}}
OVER = {"input": 7, "output": 7}


@pytest.mark.parametrize(
    ("cost", "start"),
    [
        ({"context_over_200k": TIER}, 200_000),
        ({"tiers": [NEXT]}, 272_000),
        ({"tiers": [LAST, NEXT, AT_NIGHT, "odd"], "context_over_200k": OVER}, 272_000),
    ],
)
def test_long_prompts_cost_what_their_tier_says(cost, start):
    price = one(cost={"input": 2.5, "output": 15, **cost}).price
    assert (price.long_from, price.long_input, price.long_output) == (start, 2, Decimal("1.5"))
    assert price.cost(Usage(input=start, output=0)) == Decimal("2.5") * start / 10**6
    assert price.cost(Usage(input=start + 1, output=0)) == 5 * Decimal(start + 1) / 10**6


def test_a_tier_over_a_price_of_nothing_is_no_factor():
    price = one(cost={"input": 0, "output": 0, "context_over_200k": TIER}).price
    assert price.cost(Usage(input=10**6, output=1)) == 0


KEYS = (
    *("openai", "models", "m", "limit", "cost", "tiers", "tier", "input", "output"),
    *("context", "context_over_200k", "modalities", "type", "size"),
)
WORDS = st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)


@given(odd_values(KEYS, WORDS))
def test_any_json_can_be_read(document):
    for entry in (document, {"openai": document}, {"openai": {"models": {"m": document}}}):
        for models in read(entry).values():
            assert all(isinstance(facts, ModelFacts) for facts in models.values())


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, b'{"openai":{"models":{"m":{"limit":', "expected JSON"),
        (200, b"<html>", "expected JSON"),
        (200, b"[]", "a known provider"),
        (200, b'{"stranger":{"models":{"m":{}}}}', "a known provider"),
        (404, b"{}", "404"),
        (304, b"", "304"),
    ],
)
async def test_what_is_no_catalogue_is_not_taken(status, body, words):
    others = {"/api.json": Reply(status=status, body=body)}
    async with Provider(others=others) as server, HTTPClient() as http:
        with pytest.raises(FetchError, match=words):
            await fetch(http, f"{server.url}/api.json", None)


async def test_a_missing_network_is_reported():
    async with HTTPClient() as http:
        with pytest.raises(FetchError, match="cannot connect"):
            await fetch(http, "http://127.0.0.1:9/api.json", None)
