"""The tools of a turn: the offered ones, and the withheld ones with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from eca_server.agent.tools.tool import Tool
from eca_server.client.content_formatting import NATIVE, PREFIX
from eca_server.models import backend

_SHOWN = 100  # characters of an unknown name


@attrs.frozen(kw_only=True)
class ServedTool:
    """A tool of an MCP server.

    Attributes:
        name: the model's name of the tool (ruling W-37).
        tool: the tool, with the server's own name.
        withheld: the reason why it is not offered, for the model; None: it is offered.
        is_deferred: whether the model has to search for it (`mcpToolSearch`).
    """

    server: str
    name: str
    tool: Tool
    withheld: str | None = None
    is_deferred: bool = False


class ToolBox:
    """The tools by the model's names.

    In the contents of a call a tool has two more names: its server's and its own. For a native tool
    these are `eca` and the model's name, for others the configured server and the server's name.

    Args:
        tools: the offered native tools, in the order of the model's list.
        withheld: the withheld native tools, with the reason for the model.
        served: the tools of MCP servers, listed after the native ones.
        described: descriptions that replace those of native tools.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        withheld: Mapping[str, str] | None = None,
        served: Iterable[ServedTool] = (),
        described: Mapping[str, str] | None = None,
    ) -> None:
        descriptions = {PREFIX + name: text for name, text in (described or {}).items()}
        self._withheld = {
            (NATIVE, PREFIX + name): reason for name, reason in (withheld or {}).items()
        }
        self._tools = {(NATIVE, PREFIX + tool.name): tool for tool in tools}
        self._served: dict[str, tuple[str, str]] = {}
        offered = {name: tool for (_, name), tool in self._tools.items()}
        for each in served:
            own = self._served[each.name] = each.server, each.tool.name
            if each.withheld is None:
                self._tools[own] = each.tool
                if not each.is_deferred:
                    offered[each.name] = each.tool
            else:
                self._withheld[own] = each.withheld
        self.offered = tuple(
            backend.Tool(
                name=name,
                description=descriptions.get(name) or tool.description,
                parameters=tool.parameters,
            )
            for name, tool in offered.items()
        )

    def resolve(self, name: str) -> tuple[str, str]:
        """Return the server of a tool and its name there, for any spelling of the model.

        Prompts that users bring from upstream's server name its tools as `eca__read_file`. An
        unknown name is returned unchanged, as that of a native tool.
        """
        if name in self._served:
            return self._served[name]
        for each in (PREFIX + name, PREFIX + name.removeprefix(f"{NATIVE}__")):
            if (NATIVE, each) in self._tools or (NATIVE, each) in self._withheld:
                return NATIVE, each
        return NATIVE, name

    def find(self, server: str, name: str) -> Tool | None:
        """Return the offered tool of a server and name, or None."""
        return self._tools.get((server, name))

    def why_withheld(self, server: str, name: str) -> str | None:
        """Return the reason why a tool is withheld, or None."""
        return self._withheld.get((server, name))

    def unknown(self, name: str) -> str:
        """Return the error for a tool that does not exist."""
        known = ", ".join(tool.name for tool in self.offered) or "none"
        return f"There is no tool {name[:_SHOWN]!r}. Tools: {known}."
