"""What is known of models beforehand: their limits and what they cost.

The rules it keeps: a name counts as a known model's only if no more than a date or a word like
`latest` stands behind it, for the next number is another model at another price; prices are those
of the provider that makes the model, whoever resells it may ask for more.

The table is from public price lists, as of November 2026. A price that changes with the time of
day is none here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache

import attrs
from attrs.converters import optional

from eca_server.llm.events import Usage

__all__ = ["Catalog", "ModelFacts", "Price"]

_MILLION = 1_000_000


def _exact(amount: Decimal | float) -> Decimal:
    """The number as somebody wrote it down, to the digit."""
    return Decimal(str(amount))


@attrs.frozen(kw_only=True)
class Price:
    """US dollars per million tokens.

    Attributes:
        input: of a prompt, where it came from no cache.
        output: of what the model makes, reasoning included.
        cache_read: of what came from the provider's cache; None: as other input.
        cache_write: of what went into it; None: as other input.
        long_from: a request with a longer prompt than so many tokens costs more as a whole.
        long_input: the factor of what such a prompt costs.
        long_output: the factor of what its answer costs.
    """

    input: Decimal = attrs.field(converter=_exact)
    output: Decimal = attrs.field(converter=_exact)
    cache_read: Decimal | None = attrs.field(default=None, converter=optional(_exact))
    cache_write: Decimal | None = attrs.field(default=None, converter=optional(_exact))
    long_from: int | None = None
    long_input: Decimal = attrs.field(default=Decimal(1), converter=_exact)
    long_output: Decimal = attrs.field(default=Decimal(1), converter=_exact)

    def cost(self, usage: Usage) -> Decimal | None:
        """Dollars for one request; None where its tokens are not known."""
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
class ModelFacts:
    """What is known of one model; None is unknown.

    Attributes:
        context: tokens of prompt and answer together.
        output: tokens of the answer at most.
        price: what its provider asks for.
    """

    context: int | None = None
    output: int | None = None
    price: Price | None = None

    def priced(self, usage: Usage) -> Usage:
        """The usage with its cost, where the provider did not tell one and it can be worked out."""
        if usage.cost is not None or self.price is None:
            return usage
        cost = self.price.cost(usage)
        return usage if cost is None else attrs.evolve(usage, cost=float(cost))


class Catalog:
    """Facts of models by provider and name."""

    def facts(self, provider: str, model: str) -> ModelFacts:
        """What is known of a provider's model, by the longest name that fits it."""
        if provider in _LOCAL:
            return ModelFacts(price=Price(input=0, output=0))
        name, table = model.lower(), _table()
        own = _longest(name, table.get(provider, {}))
        if own is not None:
            return own
        everything = {known: facts for rows in table.values() for known, facts in rows.items()}
        other = _longest(name.rpartition("/")[2], everything)
        return ModelFacts() if other is None else attrs.evolve(other, price=None)


_LOCAL = ("llama-cpp", "lmstudio", "ollama")
"""They cost nothing, and how much they take is said when they are started."""

_EDITION = re.compile(r"([-@](\d{4}-\d\d-\d\d|\d\d-\d\d|\d{4,8}|latest|preview|exp))*(:\w+)?")


def _longest(name: str, known: Mapping[str, ModelFacts]) -> ModelFacts | None:
    fitting: Iterable[str] = (
        each for each in known if name.startswith(each) and _EDITION.fullmatch(name[len(each) :])
    )
    longest = max(fitting, key=len, default=None)
    return None if longest is None else known[longest]


@cache
def _table() -> Mapping[str, Mapping[str, ModelFacts]]:
    table: dict[str, dict[str, ModelFacts]] = {}
    provider = ""
    for line in _ROWS.splitlines():
        columns = line.split()
        if len(columns) == 1:
            provider = columns[0]
        elif columns:
            table.setdefault(provider, {})[columns[0]] = _facts(columns[1:])
    return table


def _facts(columns: list[str]) -> ModelFacts:
    context, output, asked, answered, read, written, *long = (
        None if column == "-" else Decimal(column) for column in columns
    )
    price = None
    if asked is not None and answered is not None:
        start, long_input, long_output = long or (None, None, None)
        price = Price(
            input=asked,
            output=answered,
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
    )


_ROWS = """
openai
gpt-4.1                  1047576   32768      2     8    0.5      -
gpt-4.1-mini             1047576   32768    0.4   1.6    0.1      -
gpt-4.1-nano             1047576   32768    0.1   0.4  0.025      -
gpt-4o                    128000   16384    2.5    10   1.25      -
gpt-4o-mini               128000   16384   0.15   0.6  0.075      -
gpt-5                     400000  128000   1.25    10  0.125      -
gpt-5-codex               400000  128000   1.25    10  0.125      -
gpt-5-mini                400000  128000   0.25     2  0.025      -
gpt-5-nano                400000  128000   0.05   0.4  0.005      -
gpt-5.1                   400000  128000   1.25    10  0.125      -
gpt-5.1-codex             400000  128000   1.25    10  0.125      -
gpt-5.2                   400000  128000   1.75    14  0.175      -
gpt-5.2-codex             400000  128000   1.75    14  0.175      -
gpt-5.3-codex             400000  128000   1.75    14  0.175      -
gpt-5.4                  1050000  128000    2.5    15   0.25      -  272000 2 1.5
gpt-5.4-mini              400000  128000   0.75   4.5  0.075      -
gpt-5.4-nano              400000  128000    0.2  1.25   0.02      -
gpt-5.5                  1050000  128000      5    30    0.5      -  272000 2 1.5
gpt-5.6-luna             1050000  128000    0.2   1.2   0.02   0.25  272000 2 1.5
gpt-5.6-terra            1050000  128000      2    12    0.2    2.5  272000 2 1.5
gpt-5.6-sol              1050000  128000      4    20    0.4      5  272000 2 1.5
gpt-6-luna               1050000  128000    0.1   0.5   0.01  0.125  272000 2 1.5
gpt-6-sol                1050000  128000      2    10    0.2    2.5  272000 2 1.5
gpt-6-astra              1050000  128000     10    50      1   12.5  272000 2 1.5
gpt-6.1-sol              1050000  128000      2    10    0.1    2.5  272000 2 1.5
gpt-6.1-terra            1050000  128000      1     5   0.05   1.25  272000 2 1.5
o3                        200000  100000      2     8    0.5      -
o4-mini                   200000  100000    1.1   4.4  0.275      -

anthropic
claude-haiku-4-5          200000   64000      1     5    0.1   1.25
claude-haiku-5-5         1000000  128000    0.1   0.5   0.01  0.125  100000 5 5
claude-opus-4-1           200000   32000     15    75    1.5  18.75
claude-opus-4-5           200000   64000      5    25    0.5   6.25
claude-opus-4-6          1000000  128000      5    25    0.5   6.25
claude-opus-4-7          1000000  128000      5    25    0.5   6.25
claude-opus-4-8          1000000  128000      5    25    0.5   6.25
claude-opus-5            1000000  128000      5    25    0.5   6.25
claude-opus-5-5          1000000  128000      4    20    0.2      5
claude-sonnet-4           200000   64000      3    15    0.3   3.75
claude-sonnet-4-5         200000   64000      3    15    0.3   3.75  200000 2 1.5
claude-sonnet-4-6        1000000  128000      3    15    0.3   3.75
claude-sonnet-5          1000000  128000      2    10    0.2    2.5
claude-sonnet-5-5        1000000  128000      2    10    0.1    2.5
claude-fable-5           1000000  128000     10    50      1   12.5
claude-fable-5-1         1000000  128000     10    50   0.25   12.5

google
gemini-2.5-pro           1048576   65536   1.25    10  0.125      -  200000 2 1.5
gemini-2.5-flash         1048576   65536    0.3   2.5   0.03      -
gemini-2.5-flash-lite    1048576   65536    0.1   0.4   0.01      -
gemini-3.1-pro           1048576   65536      2    12    0.2      -  200000 2 1.5
gemini-3.5-flash         1048576   65536    1.5     9   0.15      -
gemini-3.8-flash         1048576   65536      -     -      -      -

deepseek
deepseek-flash           1000000  393216      -     -      -      -
deepseek-v4-flash        1000000  393216      -     -      -      -
deepseek-v4-pro          1000000  393216      -     -      -      -

groq
llama-3.3-70b-versatile   131072   32768   0.59  0.79      -      -
openai/gpt-oss-120b       131072   65536   0.15   0.6  0.075      -
openai/gpt-oss-20b        131072   65536  0.075   0.3 0.0375      -

mistral
codestral                 256000       -    0.3   0.9      -      -
devstral                  262144       -    0.4     2   0.04      -
mistral-large-2512        262144       -    0.5   1.5   0.05      -
mistral-medium-3-5        262144       -    1.5   7.5   0.15      -
mistral-small-2603        262144       -   0.15   0.6  0.015      -

moonshot
kimi-k2.6                 262144       -   0.95     4   0.16      -
kimi-k2.7-code            262144       -   0.95     4   0.19      -
kimi-k3                  1048576       -      3    15    0.3      3
kimi-k3.1-pro            1048576       -      2    10    0.2      2

xai
grok-4                    256000       -      3    15   0.75      -
grok-4.3                 1000000       -   1.25   2.5    0.2      -  199999 2 2
grok-4.5                  500000       -      2     6    0.3      -  199999 2 2
grok-4.6                  500000       -      2     6    0.5      -  199999 2 2
grok-4.7                  500000       -      2     6    0.5      -  199999 2 2
grok-code-fast-1          256000       -      -     -      -      -

z-ai
glm-4.6                   200000  128000    0.6   2.2   0.11      -
glm-4.7                   200000  128000    0.6   2.2   0.11      -
glm-5                     200000  128000      1   3.2    0.2      -
glm-5.1                   200000  128000    1.4   4.4   0.26      -
glm-5.2                  1000000  128000    1.4   4.4   0.26      -
glm-5.3                  1000000  128000    1.4   4.4   0.26      -
"""
"""Provider, then its models: context, output; dollars per million tokens of input, output, cache
read, cache write; where longer prompts cost more: from how many tokens, and both factors."""
