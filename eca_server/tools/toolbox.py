"""The tools of a turn: what is offered to the model, what is withheld and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from eca_server.content_formatting import PREFIX
from eca_server.llm import backend
from eca_server.tools.approval import NATIVE
from eca_server.tools.tool import Tool

__all__ = ["PREFIX", "ServedTool", "ToolBox"]

_SHOWN = 100  # characters of a name that is none


@attrs.frozen(kw_only=True)
class ServedTool:
    """A tool of an MCP server.

    Attributes:
        server: the name the user gave it.
        name: by which the model calls the tool (ruling W-37).
        tool: itself, under the server's own name for it.
        withheld: why it is not offered, for the model; None: it is.
        is_deferred: it can be called, and the model has to look for it (`mcpToolSearch`).
    """

    server: str
    name: str
    tool: Tool
    withheld: str | None = None
    is_deferred: bool = False


class ToolBox:
    """Tools by the name the model calls them.

    A tool has two names beside that: of its server, and its own in the contents of a call. For a
    native tool these are `eca` and the model's name, for others what their server calls them.

    Args:
        tools: native tools that are offered, in the order the model sees.
        withheld: native tools that exist and are not offered, with the reason the model is told.
        served: the tools of MCP servers; the model sees them behind the native ones.
        described: what the model is told of a native tool in place of the tool's own words.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        withheld: Mapping[str, str] | None = None,
        served: Iterable[ServedTool] = (),
        described: Mapping[str, str] | None = None,
    ) -> None:
        own_words = {PREFIX + name: text for name, text in (described or {}).items()}
        self._withheld = {(NATIVE, PREFIX + name): why for name, why in (withheld or {}).items()}
        self._tools = {(NATIVE, PREFIX + tool.name): tool for tool in tools}
        self._served: dict[str, tuple[str, str]] = {}
        named = {name: tool for (_, name), tool in self._tools.items()}
        for each in served:
            own = self._served[each.name] = each.server, each.tool.name
            if each.withheld is None:
                self._tools[own] = each.tool
                if not each.is_deferred:
                    named[each.name] = each.tool
            else:
                self._withheld[own] = each.withheld
        self.offered = tuple(
            backend.Tool(
                name=name,
                description=own_words.get(name) or tool.description,
                parameters=tool.parameters,
            )
            for name, tool in named.items()
        )

    def named(self, name: str) -> tuple[str, str]:
        """The server of a tool and its name there, however the model spells it.

        A name that nothing is listed under is a native tool's, as it is.
        """
        if name in self._served:
            return self._served[name]
        prefixed = NATIVE, PREFIX + name
        is_listed = prefixed in self._tools or prefixed in self._withheld
        return prefixed if is_listed else (NATIVE, name)

    def find(self, server: str, name: str) -> Tool | None:
        """The offered tool of that server and name."""
        return self._tools.get((server, name))

    def why_withheld(self, server: str, name: str) -> str | None:
        """Why a tool that exists is not offered; None if there is none of that name."""
        return self._withheld.get((server, name))

    def unknown(self, name: str) -> str:
        """What the model is told about a tool that does not exist."""
        known = ", ".join(tool.name for tool in self.offered) or "none"
        return f"There is no tool {name[:_SHOWN]!r}. Tools: {known}."
