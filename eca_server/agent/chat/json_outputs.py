"""JSON results of MCP tools, indented for clients that show them as JSON."""

from __future__ import annotations

import json as stdlib_json
from collections.abc import Iterable
from typing import Final

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.messages import JsonOutputsDetails

MOST_LONGER: Final = 4
"""The largest growth factor of a text; a deeply nested one stays as it is."""


def json_outputs(texts: Iterable[str]) -> JsonOutputsDetails | None:
    """Return the texts indented; None unless each of them is a JSON object or array."""
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
