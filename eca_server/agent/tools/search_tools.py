"""`search_tools` and `call_tool`: MCP tools whose schemas are not in the model's context.

The tools of a turn are constant while it runs, since providers cache prompts and sign reasoning
with the text before it. So a matching tool is not added to them: its schema is in the result of the
search, which is part of the history, and `call_tool` calls it by its name. The call is judged as a
call of that tool, by all of its rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from eca_protocol import json
from eca_server.agent.tools.output import Cap, cut_end
from eca_server.agent.tools.schemas import check_arguments, object_schema, required, string
from eca_server.agent.tools.tool import Effect, InnerCall, PreparedCall, ToolError, ToolOutput
from eca_server.agent.tools.toolbox import ServedTool
from eca_server.config.tool_lists import ToolSearch
from eca_server.models.estimate import BYTES_PER_TOKEN
from eca_server.printable import printable_line

_MOST_MATCHES: Final = 10
_LONGEST_DESCRIPTION: Final = 600  # characters
_LONGEST_LIST: Final = 2_000  # characters of names in the description of the search
_SHOWN: Final = 60
_WORD: Final = re.compile(r"[^\W_]+")


@attrs.frozen(kw_only=True)
class SearchTools:
    """The tool `search_tools`."""

    served: Sequence[ServedTool] = ()
    cap: Cap = attrs.field(factory=Cap)

    name: ClassVar = "search_tools"
    effect: ClassVar[Effect] = "read"
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        query=required(string("Words to search for in names and descriptions, or names of tools."))
    )

    @property
    def description(self) -> str:
        """Return the description, with the names of the tools."""
        names = ", ".join(each.name for each in _offered(self.served))
        if len(names) > _LONGEST_LIST:
            names = f"{names[:_LONGEST_LIST].rpartition(',')[0]} and more"
        listed = f" Tools: {names}." if names else ""
        return (
            "Find tools of MCP servers and load their descriptions and parameters. Call a matching "
            f"tool with call_tool.{listed}"
        )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Searching tools: QUERY`."""
        query = arguments.get("query")
        shown = printable_line(query[:_SHOWN]) if isinstance(query, str) else ""
        return f"Searching tools: {shown}" if shown else "Searching tools"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Prepare the search."""
        query: str = arguments["query"]

        async def run() -> ToolOutput:
            matches = list(self._matches(query))
            if not matches:
                raise ToolError("No tool matches. Try different words, or a name from the list.")
            texts = [_described(each) for each in matches]
            return ToolOutput.of(cut_end("\n\n".join(texts), self.cap))

        return PreparedCall(run=run, summary=self.summary(arguments))

    def _matches(self, query: str) -> Iterator[ServedTool]:
        """Yield the best matches: exact names, then by number and place of the matching words."""
        words = {each.lower() for each in _WORD.findall(query)}
        exact = {each.strip(" ,;`\"'") for each in query.split()}
        ranked = []
        for order, each in enumerate(_offered(self.served)):
            name, text = each.name.lower(), each.tool.description.lower()
            rank = sum(3 * (word in name) + (word in text) for word in words)
            rank += 1000 * (each.name in exact or each.tool.name in exact)
            if rank:
                ranked.append((-rank, order, each))
        best = sorted(ranked, key=lambda match: match[:2])[:_MOST_MATCHES]
        yield from (each for *_, each in best)


@attrs.frozen(kw_only=True)
class CallTool:
    """The tool `call_tool`; approval is decided for the tool that it calls."""

    served: Sequence[ServedTool] = ()

    name: ClassVar = "call_tool"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Call a tool of an MCP server by its name. Load its parameters with search_tools first."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        name=required(string("The name of the tool, from search_tools.")),
        arguments={
            "type": "object",
            "description": "The arguments of the tool. Default: none.",
        },
    )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return the summary of the called tool, if it is known."""
        name, inner = arguments.get("name"), arguments.get("arguments")
        called = next((each for each in _offered(self.served) if each.name == name), None)
        if called is None:
            return "Calling a tool"
        return called.tool.summary(inner if isinstance(inner, Mapping) else {})

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Prepare the call of the inner tool.

        Raises:
            ToolError: there is no such tool, or its arguments are invalid.
        """
        name: str = arguments["name"]
        called = next((each for each in self.served if each.name == name), None)
        if called is None:
            raise ToolError(f"There is no tool {name[:_SHOWN]!r}. Find tools with search_tools.")
        if called.withheld is not None:
            raise ToolError(f"Not available: {called.withheld}.")
        inner_arguments = check_arguments(arguments.get("arguments", {}), called.tool.parameters)
        prepared = await called.tool.prepare(inner_arguments)
        inner = InnerCall(server=called.server, tool=called.tool, arguments=inner_arguments)
        return attrs.evolve(prepared, inner=inner)


@attrs.frozen
class Deferral:
    """The choice of the tools that a model has to search for.

    Attributes:
        settings: the configured selection, of one agent.
        context: the size of the model's context in tokens; None: unknown.
    """

    settings: ToolSearch
    context: int | None

    def mark(self, served: Sequence[ServedTool], *, most: int) -> tuple[ServedTool, ...]:
        """Return the tools, with a mark at the deferred ones.

        `most`: the limit of these tools in a request.
        """
        settings = self.settings
        all_tools = settings.percentage is not None and (
            sum(1 for _ in _offered(served)) > most
            or _size(served) > (self.context or math.inf) * settings.percentage / 100
        )
        return tuple(
            attrs.evolve(
                each, is_deferred=settings.defers(each.server, each.tool.name, all_tools=all_tools)
            )
            for each in served
        )


def _size(served: Sequence[ServedTool]) -> float:
    """Return the estimated tokens of the tools in a request."""
    texts = (
        [each.name, each.tool.description, json.dumps(dict(each.tool.parameters)).decode()]
        for each in _offered(served)
    )
    return sum(len(text) for each in texts for text in each) / BYTES_PER_TOKEN


def _offered(served: Sequence[ServedTool]) -> Iterator[ServedTool]:
    return (each for each in served if each.withheld is None)


def _described(each: ServedTool) -> str:
    text = each.tool.description
    if len(text) > _LONGEST_DESCRIPTION:
        text = f"{text[:_LONGEST_DESCRIPTION]}..."
    schema = json.dumps(each.tool.parameters).decode()
    return f"{each.name} (server {each.server}): {text}\nParameters: {schema}"
