"""The public catalogue at models.dev: fetching it when it has changed, and reading it.

Its format is not under our control: an invalid detail costs one fact, never the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from eca_protocol import json
from eca_protocol.errors import HTTPError, InvalidJSON
from eca_protocol.http import Deadlines, HTTPClient
from eca_server.json_members import flag_in, list_in, object_in
from eca_server.models.facts import ModelFacts, Price
from eca_server.models.known_providers import KNOWN_PROVIDERS

MOST = 32 * 2**20
"""The largest catalogue, in bytes; it has a few million."""
SECONDS = 60.0

_THEIR_NAMES = {
    "fireworks": "fireworks-ai",
    "moonshot": "moonshotai",
    "together": "togetherai",
    "z-ai": "zai",
}
_FIELDS = ("tool_call", "reasoning", "attachment", "modalities", "limit", "cost")


class FetchError(Exception):
    """There is no new catalogue; the message says why."""


async def fetch(http: HTTPClient, url: str, etag: str | None) -> dict[str, Any] | None:
    """Fetch the catalogue as it is cached; return None if it still has that `etag`.

    Raises:
        FetchError: it could not be fetched or read.
    """
    headers = {"accept": "application/json"} | ({"if-none-match": etag} if etag else {})
    deadlines = Deadlines(connect=10, first_byte=20, idle=20)
    try:
        with trio.fail_after(SECONDS):
            async with http.stream("GET", url, headers=headers, deadlines=deadlines) as response:
                if response.status == 304 and etag:
                    return None
                if response.status != 200:
                    raise FetchError(f"expected status 200, got {response.status}")
                body = await response.read(limit=MOST)
    except HTTPError as fault:
        raise FetchError(str(fault)) from fault
    except trio.TooSlowError:
        raise FetchError(f"no answer within {SECONDS:g} s") from None
    providers = await trio.to_thread.run_sync(_parsed, body, abandon_on_cancel=True)
    return {"url": url, "etag": response.headers.get("etag"), "providers": providers}


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except InvalidJSON as fault:
        raise FetchError(f"expected JSON: {fault}") from None
    providers = extract(document)
    if not providers:
        raise FetchError("expected the models of a known provider, got none")
    return providers


def extract(document: object) -> dict[str, Any]:
    """Return the used part of a catalogue, in its own form but with our names of providers."""
    extracted: dict[str, Any] = {}
    for ours in KNOWN_PROVIDERS:
        models = object_in(object_in(document, _THEIR_NAMES.get(ours, ours)), "models")
        picked = {
            name: {field: model[field] for field in _FIELDS if field in model}
            for name, model in models.items()
            if isinstance(model, Mapping)
        }
        if picked:
            extracted[ours] = {"models": picked}
    return extracted


def read_catalog(providers: object) -> dict[str, dict[str, ModelFacts]]:
    """Read the facts of an extracted catalogue, by provider and model; names in lower case."""
    return {
        provider: {
            name.lower(): _facts(model if isinstance(model, Mapping) else {})
            for name, model in object_in(entry, "models").items()
        }
        for provider, entry in (providers if isinstance(providers, Mapping) else {}).items()
    }


def _facts(model: Mapping[str, Any]) -> ModelFacts:
    limit, cost = object_in(model, "limit"), object_in(model, "cost")
    inputs = object_in(model, "modalities").get("input")
    return ModelFacts(
        context=_count(limit.get("context")),
        output=_count(limit.get("output")),
        price=_price(cost),
        tools=flag_in(model, "tool_call"),
        images="image" in inputs if isinstance(inputs, list) else flag_in(model, "attachment"),
        reasoning=flag_in(model, "reasoning"),
    )


def _price(cost: Mapping[str, Any]) -> Price | None:
    input_price, output_price = _number(cost.get("input")), _number(cost.get("output"))
    if input_price is None or output_price is None:
        return None
    start, long = _tier(cost)
    return Price(
        input=input_price,
        output=output_price,
        cache_read=_number(cost.get("cache_read")),
        cache_write=_number(cost.get("cache_write")),
        long_from=start,
        long_input=_factor(_number(long.get("input")), input_price),
        long_output=_factor(_number(long.get("output")), output_price),
    )


def _tier(cost: Mapping[str, Any]) -> tuple[int | None, Mapping[str, Any]]:
    """Return the prompt length from which a higher price applies, and that price."""
    contexts = [
        (start, tier)
        for tier in list_in(cost, "tiers")
        if object_in(tier, "tier").get("type") == "context"
        and (start := _count(object_in(tier, "tier").get("size"))) is not None
    ]
    if contexts:
        return min(contexts, key=lambda each: each[0])
    above = object_in(cost, "context_over_200k")
    return (200_000, above) if above else (None, {})


def _factor(long: float | None, usual: float) -> float:
    return round(long / usual, 6) if long is not None and usual else 1


def _number(value: object) -> float | None:
    """Return a number from 0 on, also if it is written as a text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if fits else None  # type: ignore[arg-type]  # `fits` says it is a number


def _count(value: object) -> int | None:
    number = _number(value)
    return int(number) if number else None
