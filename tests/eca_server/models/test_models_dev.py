"""The public catalogue: reading it, whatever it contains, and fetching it once."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.http import HTTPClient
from eca_protocol.http_server import HTTPRequest, Responder, serve
from eca_server.models.events import Usage
from eca_server.models.facts import ModelFacts, Price
from eca_server.models.models_dev import FetchError, extract, fetch, read_catalog

MODEL = {
    "id": "glm-9",
    "name": "GLM 9",
    "attachment": False,
    "reasoning": True,
    "tool_call": True,
    "modalities": {"input": ["text", "image"], "output": ["text"]},
    "limit": {"context": 200_000, "output": "1000"},
    "cost": {"input": 0.6, "output": 2.2, "cache_read": 0.11},
    "release_date": "2026-01-01",
}
FACTS = ModelFacts(
    context=200_000,
    output=1000,
    price=Price(input=0.6, output=2.2, cache_read=0.11),
    tools=True,
    images=True,
    reasoning=True,
)


def read(document: Any) -> dict[str, dict[str, ModelFacts]]:
    return read_catalog(extract(document))


def one(**changed: Any) -> ModelFacts:
    document = {"openai": {"models": {"m": {**MODEL, **changed}}}}
    return read(document)["openai"]["m"]


def test_a_models_facts_are_read_under_our_name_of_its_provider():
    document = {"zai": {"id": "zai", "models": {"GLM-9": MODEL}}, "stranger": {"models": {}}}
    assert read(document) == {"z-ai": {"glm-9": FACTS}}


def test_what_is_stored_is_small_and_reads_the_same():
    extracted = extract({"openai": {"models": {"m": MODEL}, "env": ["A"]}})
    assert "name" not in extracted["openai"]["models"]["m"]
    assert read_catalog(extracted)["openai"]["m"] == FACTS


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
    result = one(**changed)
    assert {name: getattr(result, name) for name in facts} == facts
    untouched = {"context", "output", "price", "tools", "images", "reasoning"} - set(facts)
    assert all(getattr(result, name) == getattr(FACTS, name) for name in untouched)


TIER = {"input": 5, "output": 22.5, "cache_read": 0.5}


@pytest.mark.parametrize(
    ("cost", "start"),
    [
        ({"context_over_200k": TIER}, 200_000),
        ({"tiers": [{**TIER, "tier": {"type": "context", "size": 272_000}}]}, 272_000),
        (
            {
                "tiers": [
                    {"input": 9, "output": 9, "tier": {"type": "context", "size": 500_000}},
                    {**TIER, "tier": {"type": "context", "size": 272_000}},
                    {"input": 0, "output": 0, "tier": {"type": "hour", "size": 1}},
                    "odd",
                ],
                "context_over_200k": {"input": 7, "output": 7},
            },
            272_000,
        ),
    ],
)
def test_long_prompts_cost_what_their_tier_says(cost, start):
    price = one(cost={"input": 2.5, "output": 15, **cost}).price
    assert price is not None
    assert (price.long_from, price.long_input, price.long_output) == (start, 2, Decimal("1.5"))
    assert price.cost(Usage(input=start, output=0)) == Decimal("2.5") * start / 10**6
    assert price.cost(Usage(input=start + 1, output=0)) == 5 * Decimal(start + 1) / 10**6


def test_a_tier_over_a_price_of_nothing_is_no_factor():
    price = one(cost={"input": 0, "output": 0, "context_over_200k": TIER}).price
    assert price is not None
    assert price.cost(Usage(input=10**6, output=1)) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["openai", "models", "m", "limit", "cost", "tiers", "tier", "input", "output",
                 "context", "context_over_200k", "modalities", "type", "size"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_any_json_can_be_read(document):
    for entry in (document, {"openai": document}, {"openai": {"models": {"m": document}}}):
        for models in read(entry).values():
            assert all(isinstance(facts, ModelFacts) for facts in models.values())


GOOD = b'{"openai":{"models":{"m":{"limit":{"context":7}}}}}'


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
    async def answer(_: HTTPRequest, responder: Responder) -> None:
        await responder.respond(status, body)

    async with serve(answer) as server, HTTPClient() as http:
        with pytest.raises(FetchError, match=words):
            await fetch(http, f"{server.url}/api.json", None)


async def test_an_edition_that_we_have_is_not_sent_again():
    received = []

    async def answer(request: HTTPRequest, responder: Responder) -> None:
        received.append(request.headers.get("if-none-match"))
        if received[-1] == '"1"':
            await responder.respond(304, b"")
        else:
            await responder.respond(200, GOOD, {"etag": '"1"'})

    async with serve(answer) as server, HTTPClient() as http:
        fetched = await fetch(http, server.url, None)
        assert fetched is not None
        assert fetched.etag == '"1"'
        assert read_catalog(fetched.providers)["openai"]["m"].context == 7
        assert await fetch(http, server.url, fetched.etag) is None
    assert received == [None, '"1"']


async def test_a_missing_network_is_reported():
    async with HTTPClient() as http:
        with pytest.raises(FetchError, match="cannot connect"):
            await fetch(http, "http://127.0.0.1:9/api.json", None)
