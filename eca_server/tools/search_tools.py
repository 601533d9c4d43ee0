"""`search_tools` and `call_tool`: MCP tools whose schemas are out of the model's context.

The tools of a turn do not change while it runs (design decision 20), for providers cache prompts
and sign reasoning by what is before it. So a tool that was found never joins them: its schema is
in the result of the search, which is a part of the history, and `call_tool` calls it by its name.
The call is judged as one of that tool, by all of its rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from eca_protocol import json
from eca_server.llm.history import TextPart
from eca_server.printable import printable_line
from eca_server.tools.output import Cap, cut_end
from eca_server.tools.schema_check import fitting
from eca_server.tools.tool import Effect, InnerCall, PreparedCall, ToolFault, ToolOutput
from eca_server.tools.toolbox import ServedTool

__all__ = ["CallTool", "SearchTools", "searchable"]

_MOST_FOUND: Final = 10
_LONGEST_DESCRIPTION: Final = 600  # characters, of a tool that was found
_LONGEST_LIST: Final = 2_000  # characters of names in the description of the search
_SHOWN: Final = 60
_WORD: Final = re.compile(r"[^\W_]+")


@attrs.frozen(kw_only=True)
class SearchTools:
    """The tool `search_tools`.

    Attributes:
        served: the tools there are.
        cap: of an output.
    """

    served: Sequence[ServedTool] = ()
    cap: Cap = attrs.field(factory=Cap)

    name: ClassVar = "search_tools"
    effect: ClassVar[Effect] = "read"
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "Words to look for in names and descriptions, or names of tools.",
            },
        },
        "required": ["query"],
    }

    @property
    def description(self) -> str:
        """Return how to search, and the names there are."""
        names = ", ".join(each.name for each in _offered(self.served))
        if len(names) > _LONGEST_LIST:
            names = f"{names[:_LONGEST_LIST].rpartition(',')[0]} and more"
        listed = f" Tools: {names}." if names else ""
        return (
            "Find tools of MCP servers and load their descriptions and parameters. Call a tool "
            f"that was found with call_tool.{listed}"
        )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Searching tools: QUERY`."""
        query = arguments.get("query")
        shown = printable_line(query[:_SHOWN]) if isinstance(query, str) else ""
        return f"Searching tools: {shown}" if shown else "Searching tools"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Nothing has to be looked at."""
        query: str = arguments["query"]

        async def run() -> ToolOutput:
            found = list(self._found(query))
            if not found:
                raise ToolFault("No tool fits. Try other words, or a name from the list.")
            texts = [_described(each) for each in found]
            return ToolOutput(parts=(TextPart(cut_end("\n\n".join(texts), self.cap)),))

        return PreparedCall(run=run, summary=self.summary(arguments))

    def _found(self, query: str) -> Iterator[ServedTool]:
        """Yield the tools that fit best: named exactly, then by how many words fit, and where."""
        words = {each.lower() for each in _WORD.findall(query)}
        exact = {each.strip(" ,;`\"'") for each in query.split()}
        ranked = []
        for order, each in enumerate(_offered(self.served)):
            name, text = each.name.lower(), each.tool.description.lower()
            rank = sum(3 * (word in name) + (word in text) for word in words)
            rank += 1000 * (each.name in exact or each.tool.name in exact)
            if rank:
                ranked.append((-rank, order, each))
        yield from (each for *_, each in sorted(ranked, key=lambda found: found[:2])[:_MOST_FOUND])


@attrs.frozen(kw_only=True)
class CallTool:
    """The tool `call_tool`; what it may do is decided on the tool that it calls."""

    served: Sequence[ServedTool] = ()

    name: ClassVar = "call_tool"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Call a tool of an MCP server by its name. Load its parameters with search_tools first."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The tool, as search_tools names it."},
            "arguments": {"type": "object", "description": "Its arguments. Default: none."},
        },
        "required": ["name"],
    }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return the summary of the tool that is called, as far as it is known."""
        name, given = arguments.get("name"), arguments.get("arguments")
        found = next((each for each in _offered(self.served) if each.name == name), None)
        if found is None:
            return "Calling a tool"
        return found.tool.summary(given if isinstance(given, Mapping) else {})

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Look at the call of the other tool.

        Raises:
            ToolFault: there is no such tool, or its arguments do not fit.
        """
        name: str = arguments["name"]
        called = next((each for each in self.served if each.name == name), None)
        if called is None:
            raise ToolFault(f"There is no tool {name[:_SHOWN]!r}. search_tools finds tools.")
        if called.withheld is not None:
            raise ToolFault(f"Not available: {called.withheld}.")
        given = fitting(arguments.get("arguments", {}), called.tool.parameters)
        prepared = await called.tool.prepare(given)
        inner = InnerCall(server=called.server, tool=called.tool, arguments=given)
        return attrs.evolve(prepared, inner=inner)


def searchable(served: Sequence[ServedTool]) -> tuple[ServedTool, ...]:
    """Return tools that the model has to look for."""
    return tuple(attrs.evolve(each, is_deferred=True) for each in served)


def _offered(served: Sequence[ServedTool]) -> Iterator[ServedTool]:
    return (each for each in served if each.withheld is None)


def _described(each: ServedTool) -> str:
    text = each.tool.description
    if len(text) > _LONGEST_DESCRIPTION:
        text = f"{text[:_LONGEST_DESCRIPTION]}..."
    schema = json.dumps(each.tool.parameters).decode()
    return f"{each.name} (server {each.server}): {text}\nParameters: {schema}"
