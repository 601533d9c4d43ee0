"""Known facts of models, where neither the user nor the provider states them.

A name matches a known model only if at most a date or a word like `latest` follows: the next number
is a different model at a different price. The price of a model's maker does not apply to resellers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache, cached_property
from pathlib import Path

import attrs

from eca_server.models.facts import ModelFacts, Price


class Catalog:
    """Facts of models by provider and name.

    Args:
        fetched: newer facts by provider, then by model; they precede the packaged ones.
    """

    def __init__(self, fetched: Mapping[str, Mapping[str, ModelFacts]] | None = None) -> None:
        self._sources = (fetched or {}, packaged_catalog())

    def facts(self, provider: str, model: str) -> ModelFacts:
        """Return the known facts of a provider's model, by the longest matching name."""
        if provider in _LOCAL:
            return ModelFacts(price=Price(input=0, output=0))
        name = model.lower()
        own = [_longest(name, source.get(provider, {})) for source in self._sources]
        known = [facts for facts in own if facts is not None]
        if not known:
            other = _longest(name.rpartition("/")[2], self._by_model_name)
            return ModelFacts() if other is None else attrs.evolve(other, price=None)
        return known[0].with_defaults(known[-1])

    @cached_property
    def _by_model_name(self) -> Mapping[str, ModelFacts]:
        """Facts by the model's name alone; makers of models take precedence over resellers."""
        facts_by_name: dict[str, ModelFacts] = {}
        for provider in dict.fromkeys((*packaged_catalog(), *self._sources[0])):
            for source in self._sources:
                for name, facts in source.get(provider, {}).items():
                    facts_by_name.setdefault(name.rpartition("/")[2], facts)
        return facts_by_name


_LOCAL = ("llama-cpp", "lmstudio", "ollama", "vllm")
"""Local servers: their models cost nothing, and the context is set when they start."""

_SUFFIX = re.compile(r"([-@](\d{4}-\d\d-\d\d|\d\d-\d\d|\d{4,8}|latest|preview|exp))*(:\w+)?")


def _longest(name: str, known: Mapping[str, ModelFacts]) -> ModelFacts | None:
    if name in known:
        return known[name]
    fitting: Iterable[str] = (
        each for each in known if name.startswith(each) and _SUFFIX.fullmatch(name[len(each) :])
    )
    longest = max(fitting, key=len, default=None)
    return None if longest is None else known[longest]


@cache
def packaged_catalog() -> Mapping[str, Mapping[str, ModelFacts]]:
    """Return the packaged facts, by provider, then by model."""
    table: dict[str, dict[str, ModelFacts]] = {}
    provider = ""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        columns = [] if line.startswith("#") else line.split()
        if len(columns) == 1:
            provider = columns[0]
        elif columns:
            table.setdefault(provider, {})[columns[0]] = _facts(*columns[1:])
    return table


def _facts(abilities: str, *columns: str) -> ModelFacts:
    context, output, input_price, output_price, read, written, *long = (
        None if column == "-" else Decimal(column) for column in columns
    )
    price = None
    if input_price is not None and output_price is not None:
        start, long_input, long_output = long or (None, None, None)
        price = Price(
            input=input_price,
            output=output_price,
            cache_read=read,
            cache_write=written,
            long_from=None if start is None else int(start),
            long_input=long_input or 1,
            long_output=long_output or 1,
        )
    return ModelFacts(
        context=None if context is None else int(context),
        output=None if output is None else int(output),
        price=price,
        images=None if abilities == "?" else "i" in abilities,
        reasoning=None if abilities == "?" else "r" in abilities,
    )
