"""Tools and their calls, for all APIs: ids of our own, and strict reading of arguments.

Arguments that are not exactly an object are never repaired: the model receives the error and can
correct itself. Accepted arguments can be nested into any message.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_server.models.backend import Tool
from eca_server.models.events import Event, ToolCallArguments, ToolCallFinished, ToolCallStarted

MAX_NESTING = 100
"""The nesting limit of a call's arguments: messages to clients, hooks, MCP servers and models nest
them in other JSON, which has only `json.MAX_DEPTH` levels."""

LEGAL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The ids of calls that every API accepts."""

_CUT_OFF = "cut off by the output limit. Split the work into smaller calls."


def new_call_key() -> str:
    """Return an id for a tool call that is unique in all chats."""
    return f"call_{secrets.token_hex(12)}"


class CallIds:
    """The ids of the calls of a history as they are written, each unique.

    Attributes:
        written: the written ids by our ids.
    """

    def __init__(self) -> None:
        self.written: ChainMap[str, str] = ChainMap()
        self._used: ChainMap[str, None] = ChainMap()

    def __deepcopy__(self, _memo: object) -> CallIds:
        """Return ids that continue these, however many; these must not grow in the meantime."""
        copied = CallIds()
        copied.written, copied._used = self.written.new_child(), self._used.new_child()
        return copied

    def add(self, call_id: str, *preferred: str) -> str:
        """Return the first preferred id that is unused and not empty, else a hash of our id."""
        unused = (each for each in preferred if each and each not in self._used)
        written = next(unused, "")
        if not written:
            digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()
            written = f"call_{digest[:24]}"
        self.written[call_id] = written
        self._used[written] = None
        return written


def function_tool(tool: Tool) -> dict[str, Any]:
    """Return a tool as a request of Chat Completions or Ollama offers it."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def read_arguments(raw: str, *, truncated: bool) -> tuple[Mapping[str, Any] | None, str | None]:
    """Return the arguments, or an error for the model; an empty text means no arguments.

    Args:
        raw: the text that the model wrote.
        truncated: the answer ended at its limit, so unparsable arguments are incomplete.
    """
    if not raw.strip():
        return (None, f"the call was {_CUT_OFF}") if truncated else ({}, None)
    try:
        arguments = json.loads(raw)
    except InvalidJSON as error:
        if truncated:
            return None, f"the arguments were {_CUT_OFF}"
        return None, f"the arguments are not valid JSON: {error}. Write one JSON object."
    if not isinstance(arguments, dict):
        return None, f"the arguments: expected a JSON object, got {raw[:60]}"
    if is_too_deep(arguments):
        return None, f"the arguments: expected at most {MAX_NESTING} levels of nesting, got more"
    return arguments, None


def complete_call(
    key: str, name: str, raw: str, *, provider_id: str | None = None, opaque: Any = None
) -> list[Event]:
    """Return the events of a call that came in one piece."""
    arguments, error = read_arguments(raw, truncated=False)
    return [
        ToolCallStarted(key=key, name=name, provider_id=provider_id),
        *([ToolCallArguments(key, raw)] if raw else []),
        ToolCallFinished(key=key, raw=raw, arguments=arguments, error=error, opaque=opaque),
    ]


def is_too_deep(arguments: Mapping[str, Any]) -> bool:
    """Return whether a call's arguments are nested deeper than `MAX_NESTING`."""
    level: list[Any] = [arguments]
    for _ in range(MAX_NESTING):
        if not level:
            return False
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, Mapping) else each)
            if isinstance(inner, Mapping | list)
        ]
    return bool(level)
