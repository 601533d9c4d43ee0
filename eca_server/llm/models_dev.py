"""The public catalogue at models.dev: what is read of it, and fetching it when it has changed.

The rule it keeps: it is somebody else's file and may look otherwise tomorrow: what is odd in it
costs that one fact, never the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import trio

from eca_protocol import json
from eca_protocol.errors import HTTPError, InvalidJSON
from eca_protocol.http import Deadlines, HTTPClient
from eca_server.llm.facts import ModelFacts, Price
from eca_server.llm.known_providers import KNOWN_PROVIDERS

__all__ = ["Fetched", "NotFetched", "distilled", "fetch", "read_catalog"]

MOST = 32 * 2**20
"""Bytes of the catalogue; it has a few millions."""
SECONDS = 60.0

_THEIR_NAMES = {
    "fireworks": "fireworks-ai",
    "moonshot": "moonshotai",
    "together": "togetherai",
    "z-ai": "zai",
}
_FIELDS = ("tool_call", "reasoning", "attachment", "modalities", "limit", "cost")


class NotFetched(Exception):
    """There is nothing new to be had, and why."""


@attrs.frozen(kw_only=True)
class Fetched:
    """A new catalogue.

    Attributes:
        providers: what we read of it, in its own form.
        etag: by which the server knows this edition.
    """

    providers: Mapping[str, Any]
    etag: str | None


async def fetch(http: HTTPClient, url: str, etag: str | None) -> Fetched | None:
    """The catalogue; None: it is still the edition of that `etag`.

    Raises:
        NotFetched: it could not be had, or is none.
    """
    headers = {"accept": "application/json"} | ({"if-none-match": etag} if etag else {})
    deadlines = Deadlines(connect=10, first_byte=20, idle=20)
    try:
        with trio.fail_after(SECONDS):
            async with http.stream("GET", url, headers=headers, deadlines=deadlines) as response:
                if response.status == 304 and etag:
                    return None
                if response.status != 200:
                    raise NotFetched(f"expected status 200, got {response.status}")
                body = await response.read(limit=MOST)
    except HTTPError as fault:
        raise NotFetched(str(fault)) from fault
    except trio.TooSlowError:
        raise NotFetched(f"it was not there after {SECONDS:g} s") from None
    providers = await trio.to_thread.run_sync(_parsed, body, abandon_on_cancel=True)
    return Fetched(providers=providers, etag=response.headers.get("etag"))


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except InvalidJSON as fault:
        raise NotFetched(f"expected JSON: {fault}") from None
    providers = distilled(document)
    if not providers:
        raise NotFetched("expected the models of some provider we know, got none")
    return providers


def distilled(document: object) -> dict[str, Any]:
    """What we read of a catalogue, in its own form but under our names; nothing of another one."""
    found: dict[str, Any] = {}
    for ours in KNOWN_PROVIDERS:
        models = _object(_object(_object(document).get(_THEIR_NAMES.get(ours, ours))).get("models"))
        picked = {
            name: {field: model[field] for field in _FIELDS if field in model}
            for name, model in models.items()
            if isinstance(model, Mapping)
        }
        if picked:
            found[ours] = {"models": picked}
    return found


def read_catalog(providers: object) -> dict[str, dict[str, ModelFacts]]:
    """The facts in a distilled catalogue, by provider and model; the names are in lower case."""
    return {
        provider: {
            name.lower(): _facts(_object(model))
            for name, model in _object(_object(entry).get("models")).items()
        }
        for provider, entry in _object(providers).items()
    }


def _facts(model: Mapping[str, Any]) -> ModelFacts:
    limit, cost = _object(model.get("limit")), _object(model.get("cost"))
    inputs = _object(model.get("modalities")).get("input")
    return ModelFacts(
        context=_count(limit.get("context")),
        output=_count(limit.get("output")),
        price=_price(cost),
        tools=_flag(model.get("tool_call")),
        images="image" in inputs if isinstance(inputs, list) else _flag(model.get("attachment")),
        reasoning=_flag(model.get("reasoning")),
    )


def _price(cost: Mapping[str, Any]) -> Price | None:
    asked, answered = _number(cost.get("input")), _number(cost.get("output"))
    if asked is None or answered is None:
        return None
    start, long = _tier(cost)
    return Price(
        input=asked,
        output=answered,
        cache_read=_number(cost.get("cache_read")),
        cache_write=_number(cost.get("cache_write")),
        long_from=start,
        long_input=_factor(_number(long.get("input")), asked),
        long_output=_factor(_number(long.get("output")), answered),
    )


def _tier(cost: Mapping[str, Any]) -> tuple[int | None, Mapping[str, Any]]:
    """From how many tokens on the price is another one, and which; the first such."""
    tiers = cost.get("tiers")
    found = [
        (start, tier)
        for tier in (map(_object, tiers) if isinstance(tiers, list) else ())
        if _object(tier.get("tier")).get("type") == "context"
        and (start := _count(_object(tier.get("tier")).get("size"))) is not None
    ]
    if found:
        return min(found, key=lambda each: each[0])
    above = _object(cost.get("context_over_200k"))
    return (200_000, above) if above else (None, {})


def _factor(long: float | None, usual: float) -> float:
    return round(long / usual, 6) if long is not None and usual else 1


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: object) -> float | None:
    """A number from 0 on, also one that is written as a text."""
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
