"""Tool arguments that are sent as HTTP headers, too (`x-mcp-header`, MCP 2026-07-28).

A server marks properties of a tool's schema; proxies before it read the headers. Rules: a mark is
valid only if the path to it consists of `properties`; a tool with an invalid mark is left out of
the list, which is otherwise unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from eca_server.agent.mcp.eras import header_value

MARK: Final = "x-mcp-header"

_Path: TypeAlias = tuple[str, ...]

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TYPES: Final = ("string", "integer", "boolean")  # a schema may name something unhashable
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_VALUES: Final = frozenset({"default", "examples", "enum", "const"})


class ParameterHeaders:
    """The marked arguments of one server's tools."""

    def __init__(self) -> None:
        self._by_tool: dict[str, Mapping[_Path, str]] = {}

    def learn(self, message: Mapping[str, Any], warn: Callable[[str], None]) -> Mapping[str, Any]:
        """Store the marks of the tools that a message lists; return it without invalid tools."""
        result = message.get("result")
        if not isinstance(result, dict) or not isinstance(result.get("tools"), list):
            return message
        usable = [tool for tool in result["tools"] if self._take(tool, warn)]
        return {**message, "result": {**result, "tools": usable}}

    def _take(self, tool: Any, warn: Callable[[str], None]) -> bool:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str):
            return True
        self._by_tool.pop(name, None)
        try:
            headers = _headers_in(tool.get("inputSchema"))
        except ValueError as error:
            warn(f"the tool {name!r} was left out: {error}")
            return False
        if headers:
            self._by_tool[name] = headers
        return True

    def of(self, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers of one call."""
        headers = {}
        for path, header in self._by_tool.get(str(params.get("name")), {}).items():
            value = params.get("arguments")
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            if isinstance(value, bool):
                headers[f"Mcp-Param-{header}"] = str(value).lower()
            elif isinstance(value, (str, int)):
                headers[f"Mcp-Param-{header}"] = header_value(str(value))
        return headers


def _headers_in(schema: Any) -> Mapping[_Path, str]:
    """Return the headers of a schema by argument path; raise ValueError with the reason."""
    headers: dict[_Path, str] = {}
    for path, header, kind in _marks(schema, ()):
        if path is None:
            raise ValueError(f"{MARK} is at a place that `properties` alone do not reach")
        if not isinstance(header, str) or not _TOKEN.fullmatch(header):
            raise ValueError(f"{MARK}: expected the name of a header, got {str(header)[:80]!r}")
        if kind not in _TYPES:
            raise ValueError(f"{MARK}: expected a string, an integer or a boolean at {header}")
        if header.lower() in {other.lower() for other in headers.values()}:
            raise ValueError(f"{MARK}: duplicate header {header}")
        headers[path] = header
    return headers


def _marks(schema: Any, path: _Path | None) -> Iterator[tuple[_Path | None, Any, Any]]:
    """Yield each mark: its path (None: invalid), the header, and the type of the argument."""
    if isinstance(schema, list):
        for each in schema:
            yield from _marks(each, None)
        return
    if not isinstance(schema, dict):
        return
    if MARK in schema:
        yield path or None, schema[MARK], schema.get("type")
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, dict):
            for name, inner in value.items():
                is_reached = path is not None and keyword == "properties"
                yield from _marks(inner, (*(path or ()), name) if is_reached else None)
        elif keyword not in _VALUES and keyword != MARK:
            yield from _marks(value, None)
