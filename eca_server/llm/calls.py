"""What every API's decoder needs of a tool call: an id of our own, and its arguments read strictly.

The rules it keeps: arguments that are not exactly an object are never repaired; the model is told
what was wrong with them, so that it can correct itself. What is taken can be told to everybody.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from eca_protocol import json
from eca_protocol.errors import InvalidJSON

__all__ = ["MOST_LEVELS", "is_too_deep", "new_call_key", "read_arguments"]

MOST_LEVELS = 100
"""Of nesting in a call's arguments: they are told to clients, to hooks, to MCP servers and again to
models, always inside of other JSON, and that has but `json.MAX_DEPTH` levels."""


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
    if is_too_deep(arguments):
        return None, f"the arguments: expected at most {MOST_LEVELS} levels of nesting, got more"
    return arguments, None


def is_too_deep(arguments: Mapping[str, Any]) -> bool:
    """Whether a call's arguments have more than `MOST_LEVELS`."""
    level: list[Any] = [arguments]
    for _ in range(MOST_LEVELS):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, Mapping) else each)
            if isinstance(inner, Mapping | list)
        ]
    return bool(level)
