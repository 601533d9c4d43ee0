"""What is known of models that neither the user nor the provider told about.

The rule it keeps: a name counts as a known model's only if no more than a date or a word like
`latest` stands behind it, for the next number is another model at another price; whoever resells
a model may ask for more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property

import attrs

from eca_server.llm.facts import ModelFacts, Price
from eca_server.llm.packaged_catalog import packaged_catalog

__all__ = ["Catalog"]


class Catalog:
    """Facts of models by provider and name.

    Args:
        fetched: by provider, then by model, newer than what is packaged and so before it.
    """

    def __init__(self, fetched: Mapping[str, Mapping[str, ModelFacts]] | None = None) -> None:
        self._sources = (fetched or {}, packaged_catalog())

    def facts(self, provider: str, model: str) -> ModelFacts:
        """What is known of a provider's model, by the longest name that fits it."""
        if provider in _LOCAL:
            return ModelFacts(price=Price(input=0, output=0))
        name = model.lower()
        own = [_longest(name, source.get(provider, {})) for source in self._sources]
        known = [facts for facts in own if facts is not None]
        if not known:
            other = _longest(name.rpartition("/")[2], self._of_anybody)
            return ModelFacts() if other is None else attrs.evolve(other, price=None)
        return known[0].over(known[-1])

    @cached_property
    def _of_anybody(self) -> Mapping[str, ModelFacts]:
        """By the model's name alone; those who make a model stand before those who sell it."""
        found: dict[str, ModelFacts] = {}
        for provider in dict.fromkeys((*packaged_catalog(), *self._sources[0])):
            for source in self._sources:
                for name, facts in source.get(provider, {}).items():
                    found.setdefault(name.rpartition("/")[2], facts)
        return found


_LOCAL = ("llama-cpp", "lmstudio", "ollama", "vllm")
"""They cost nothing, and how much they take is said when they are started."""

_EDITION = re.compile(r"([-@](\d{4}-\d\d-\d\d|\d\d-\d\d|\d{4,8}|latest|preview|exp))*(:\w+)?")


def _longest(name: str, known: Mapping[str, ModelFacts]) -> ModelFacts | None:
    if name in known:
        return known[name]
    fitting: Iterable[str] = (
        each for each in known if name.startswith(each) and _EDITION.fullmatch(name[len(each) :])
    )
    longest = max(fitting, key=len, default=None)
    return None if longest is None else known[longest]
