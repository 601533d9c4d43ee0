"""Functions made from source: a loop over a model's fields, unrolled once for its class.

As attrs and cattrs do it. A frozen class costs twice as much to fill through `__init__`, and a
converter that calls a function for each string as much again; both would double a delta's price.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["compile_function"]


def compile_function(head: str, body: list[str], names: dict[str, Any]) -> Callable[..., Any]:
    """The function `def {head}:` with the lines of `body`, which may use `names`."""
    text = "\n".join([f"def {head}:", *(f"    {line}" for line in body)])
    scope = dict(names)
    exec(text, scope)  # noqa: S102  # made of attribute names and quoted keys only
    made: Callable[..., Any] = scope[head.partition("(")[0]]
    return made
