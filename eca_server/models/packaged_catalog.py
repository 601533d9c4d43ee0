"""The packaged limits, capabilities and prices of models, known without a network.

The table is from public price lists, as of November 2026; prices are those of the model's maker. A
price that changes with the time of day is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path

from eca_server.models.facts import ModelFacts, Price


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
