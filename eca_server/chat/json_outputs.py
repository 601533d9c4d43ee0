"""What a tool of an MCP server has said in JSON, laid out for clients that show it as such."""

from __future__ import annotations

import json as stdlib_json
from collections.abc import Iterable
from typing import Final

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.messages import JsonOutputsDetails

__all__ = ["json_outputs"]

MOST_LONGER: Final = 4
"""How many times as long a text may get, about; one that nests deeply stays as it is."""


def json_outputs(texts: Iterable[str]) -> JsonOutputsDetails | None:
    """The texts laid out; None unless each of them is an object or a list in JSON."""
    shown = []
    for text in texts:
        if not text.lstrip().startswith(("{", "[")):
            return None
        try:
            value = json.loads(text)
        except InvalidJSON:
            return None
        pretty = stdlib_json.dumps(value, indent=2, ensure_ascii=False)
        shown.append(pretty if len(pretty) <= MOST_LONGER * len(text) + 100 else text)
    return JsonOutputsDetails(jsons=tuple(shown)) if shown else None
