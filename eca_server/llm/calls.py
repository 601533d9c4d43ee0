"""What every API's decoder needs of a tool call: an id of our own, and its arguments read strictly.

The rule it keeps: arguments that are not exactly an object are never repaired; the model is told
what was wrong with them, so that it can correct itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from eca_protocol import json
from eca_protocol.errors import InvalidJSON

__all__ = ["new_call_key", "read_arguments"]


def new_call_key() -> str:
    """An id for a tool call, unique among all chats."""
    return f"call_{secrets.token_hex(12)}"


def read_arguments(raw: str, *, truncated: bool) -> tuple[Mapping[str, Any] | None, str | None]:
    """The arguments, or what to tell the model; nothing at all means no arguments.

    Args:
        raw: what the model wrote.
        truncated: the answer was cut by its limit, so what does not parse was not finished.
    """
    if not raw.strip():
        return (None, "the call was cut off by the output limit") if truncated else ({}, None)
    try:
        arguments = json.loads(raw)
    except InvalidJSON as error:
        if truncated:
            return None, "the arguments were cut off by the output limit"
        return None, f"the arguments are not valid JSON: {error}"
    if not isinstance(arguments, dict):
        return None, f"the arguments: expected a JSON object, got {raw[:60]}"
    return arguments, None
