"""The tools of a turn: what is offered to the model, what is withheld and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eca_server.llm import backend
from eca_server.tools.tool import Tool

__all__ = ["PREFIX", "ToolBox"]

PREFIX = "eca_"
"""Before a native tool's name, towards the model and in older editions of the protocol (W-33)."""

_SHOWN = 100  # characters of a name that is none


class ToolBox:
    """Tools by the name the model calls them.

    Args:
        tools: what is offered, in the order the model sees.
        withheld: native tools that exist and are not offered, with the reason the model is told.
    """

    def __init__(self, tools: Iterable[Tool], withheld: Mapping[str, str] | None = None) -> None:
        self._tools = {PREFIX + tool.name: tool for tool in tools}
        self._withheld = {PREFIX + name: why for name, why in (withheld or {}).items()}
        self.offered = tuple(
            backend.Tool(name=name, description=tool.description, parameters=tool.parameters)
            for name, tool in self._tools.items()
        )

    def find(self, name: str) -> Tool | None:
        """The offered tool the model calls by that name."""
        return self._tools.get(name) or self._tools.get(PREFIX + name)

    def listed(self, name: str) -> str:
        """The name a tool is listed under, however the model spells it; else the name as it is."""
        prefixed = PREFIX + name
        return prefixed if prefixed in self._tools or prefixed in self._withheld else name

    def why_withheld(self, name: str) -> str | None:
        """Why a tool that exists is not offered; None if there is none of that name."""
        return self._withheld.get(name) or self._withheld.get(PREFIX + name)

    def unknown(self, name: str) -> str:
        """What the model is told about a tool that does not exist."""
        known = ", ".join(self._tools) or "none"
        return f"There is no tool {name[:_SHOWN]!r}. Tools: {known}."
