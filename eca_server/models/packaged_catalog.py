"""The packaged limits, capabilities and prices of models, known without a network.

The table is from public price lists, as of November 2026; prices are those of the model's maker. A
price that changes with the time of day is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache

from eca_server.models.facts import ModelFacts, Price


@cache
def packaged_catalog() -> Mapping[str, Mapping[str, ModelFacts]]:
    """Return the packaged facts, by provider, then by model."""
    table: dict[str, dict[str, ModelFacts]] = {}
    provider = ""
    for line in _ROWS.splitlines():
        columns = line.split()
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


_ROWS = """
openai
gpt-4.1                    i 1047576   32768      2     8    0.5      -
gpt-4.1-mini               i 1047576   32768    0.4   1.6    0.1      -
gpt-4.1-nano               i 1047576   32768    0.1   0.4  0.025      -
gpt-4o                     i  128000   16384    2.5    10   1.25      -
gpt-4o-mini                i  128000   16384   0.15   0.6  0.075      -
gpt-5                     ri  400000  128000   1.25    10  0.125      -
gpt-5-codex               ri  400000  128000   1.25    10  0.125      -
gpt-5-mini                ri  400000  128000   0.25     2  0.025      -
gpt-5-nano                ri  400000  128000   0.05   0.4  0.005      -
gpt-5-pro                 ri  400000  272000     15   120      -      -
gpt-5.1                   ri  400000  128000   1.25    10  0.125      -
gpt-5.1-codex             ri  400000  128000   1.25    10  0.125      -
gpt-5.2                   ri  400000  128000   1.75    14  0.175      -
gpt-5.2-codex             ri  400000  128000   1.75    14  0.175      -
gpt-5.2-pro               ri  400000  128000     21   168      -      -
gpt-5.3-codex             ri  400000  128000   1.75    14  0.175      -
gpt-5.4                   ri 1050000  128000    2.5    15   0.25      -  272000 2 1.5
gpt-5.4-mini              ri  400000  128000   0.75   4.5  0.075      -
gpt-5.4-nano              ri  400000  128000    0.2  1.25   0.02      -
gpt-5.5                   ri 1050000  128000      5    30    0.5      -  272000 2 1.5
gpt-5.6-luna              ri 1050000  128000    0.2   1.2   0.02   0.25  272000 2 1.5
gpt-5.6-sol               ri 1050000  128000      4    20    0.4      5  272000 2 1.5
gpt-5.6-terra             ri 1050000  128000      2    12    0.2    2.5  272000 2 1.5
gpt-6-astra               ri 1050000  128000     10    50      1   12.5  272000 2 1.5
gpt-6-luna                ri 1050000  128000    0.1   0.5   0.01  0.125  272000 2 1.5
gpt-6-sol                 ri 1050000  128000      2    10    0.2    2.5  272000 2 1.5
gpt-6.1-sol               ri 1050000  128000      2    10    0.1    2.5  272000 2 1.5
gpt-6.1-terra             ri 1050000  128000      1     5   0.05   1.25  272000 2 1.5
o1                        ri  200000  100000     15    60    7.5      -
o3                        ri  200000  100000      2     8    0.5      -
o3-mini                    r  200000  100000    1.1   4.4   0.55      -
o4-mini                   ri  200000  100000    1.1   4.4  0.275      -

anthropic
claude-fable-5            ri 1000000  128000     10    50      1   12.5
claude-fable-5-1          ri 1000000  128000     10    50   0.25   12.5
claude-fable-5-2          ri 1000000  128000      8    40    0.2     10
claude-haiku-4-5          ri  200000   64000      1     5    0.1   1.25
claude-haiku-5-5          ri 1000000  128000    0.1   0.5   0.01  0.125  100000 5 5
claude-opus-4-1           ri  200000   32000     15    75    1.5  18.75
claude-opus-4-5           ri  200000   64000      5    25    0.5   6.25
claude-opus-4-6           ri 1000000  128000      5    25    0.5   6.25
claude-opus-4-7           ri 1000000  128000      5    25    0.5   6.25
claude-opus-4-8           ri 1000000  128000      5    25    0.5   6.25
claude-opus-5             ri 1000000  128000      5    25    0.5   6.25
claude-opus-5-5           ri 1000000  128000      4    20    0.2      5
claude-sonnet-4           ri  200000   64000      3    15    0.3   3.75
claude-sonnet-4-5         ri  200000   64000      3    15    0.3   3.75  200000 2 1.5
claude-sonnet-4-6         ri 1000000  128000      3    15    0.3   3.75
claude-sonnet-5           ri 1000000  128000      2    10    0.2    2.5
claude-sonnet-5-5         ri 1000000  128000      2    10    0.1    2.5

google
gemini-2.5-flash          ri 1048576   65536    0.3   2.5   0.03      -
gemini-2.5-flash-lite     ri 1048576   65536    0.1   0.4   0.01      -
gemini-2.5-pro            ri 1048576   65536   1.25    10  0.125      -  200000 2 1.5
gemini-3-flash            ri 1048576   65536    0.5     3   0.05      -
gemini-3.1-flash-lite     ri 1048576   65536   0.25   1.5  0.025      -
gemini-3.1-pro            ri 1048576   65536      2    12    0.2      -  200000 2 1.5
gemini-3.5-flash          ri 1048576   65536    1.5     9   0.15      -
gemini-3.5-flash-lite     ri 1048576   65536    0.3   2.5   0.03      -
gemini-3.6-flash          ri 1048576   65536    1.5   7.5   0.15      -
gemini-3.7-flash          ri 1048576   65536    1.5   7.5   0.15      -
gemini-3.8-flash          ri 1048576   65536      -     -      -      -
gemini-4-argon            ri 1048576       -      4    20    0.2      -

deepseek
deepseek-flash             r 1000000  393216      -     -      -      -
deepseek-v4-flash          r 1000000  393216      -     -      -      -
deepseek-v4-pro            r 1000000  393216      -     -      -      -

groq
llama-3.3-70b-versatile    -  131072   32768   0.59  0.79      -      -
openai/gpt-oss-20b         r  131072   65536  0.075   0.3 0.0375      -
openai/gpt-oss-120b        r  131072   65536   0.15   0.6  0.075      -
qwen/qwen3-32b             r  131072       -   0.29  0.59      -      -

mistral
codestral                  -  256000       -    0.3   0.9      -      -
devstral                   ?  262144       -    0.4     2   0.04      -
ministral-8b-2512          ?  262144       -   0.15  0.15  0.015      -
ministral-14b-2512         ?  262144       -    0.2   0.2   0.02      -
mistral-large-4            ? 1048576       -    0.7   2.1   0.07      -
mistral-large-2512         i  262144       -    0.5   1.5   0.05      -
mistral-medium-3-5         ?  262144       -    1.5   7.5   0.15      -
mistral-small-2603         ?  262144       -   0.15   0.6  0.015      -

moonshot
kimi-k2.6                  ?  262144       -   0.95     4   0.16      -
kimi-k2.7-code             ?  262144       -   0.95     4   0.19      -
kimi-k2.7-code-highspeed   ?  262144       -    1.9     8   0.38      -
kimi-k3                    ? 1048576       -      3    15    0.3      3
kimi-k3.1-pro              ? 1048576       -      2    10    0.2      2
kimi-k3.1-pro-highspeed    ? 1048576       -      4    20    0.4      4

xai
grok-4                    ri  256000       -      3    15   0.75      -
grok-4.3                  ri 1000000       -   1.25   2.5    0.2      -  199999 2 2
grok-4.5                  ri  500000       -      2     6    0.3      -  199999 2 2
grok-4.6                  ri  500000       -      2     6    0.5      -  199999 2 2
grok-4.7                  ri  500000       -      2     6    0.5      -  199999 2 2
grok-4.20                 ri 1000000       -   1.25   2.5    0.2      -  199999 2 2
grok-code-fast-1           r  256000       -      -     -      -      -

z-ai
glm-4.5                    r  131072   98304    0.6   2.2   0.11      -
glm-4.5-air                r  131072   98304    0.2   1.1   0.03      -
glm-4.6                    r  200000  128000    0.6   2.2   0.11      -
glm-4.7                    r  200000  128000    0.6   2.2   0.11      -
glm-5                      r  200000  128000      1   3.2    0.2      -
glm-5.1                    r  200000  128000    1.4   4.4   0.26      -
glm-5.2                    ? 1000000  128000    1.4   4.4   0.26      -
glm-5.3                    ? 1000000  128000    1.4   4.4   0.26      -
glm-5.3-flash              ? 1000000       -   0.15   0.5   0.03      -

cerebras
gpt-oss-120b               r  131072       -   0.35  0.75      -      -
"""
"""A provider, then its models. Columns: capabilities (r: reasoning, i: images, -: neither,
?: unknown), context, output; dollars per million tokens of input, output, cache read, cache write;
for higher prices of long prompts: the length in tokens, and the factors of input and output."""
