"""Functions compiled from source, with the loop over a model's fields unrolled.

attrs and cattrs do the same. Filling a frozen class through `__init__` takes twice as long, and so
does a converter that calls a function for each string; either would double the time of a delta.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compile_function(head: str, body: list[str], names: dict[str, Any]) -> Callable[..., Any]:
    """Compile the function `def {head}:` with the lines of `body`, which may use `names`."""
    text = "\n".join([f"def {head}:", *(f"    {line}" for line in body)])
    scope = dict(names)
    exec(text, scope)  # noqa: S102  # the text has only attribute names and quoted keys
    compiled: Callable[..., Any] = scope[head.partition("(")[0]]
    return compiled
