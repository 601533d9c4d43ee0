"""Servers that differ where the specification and the rulings leave a choice break no row."""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest

from eca_protocol import json
from eca_protocol.testing.conformance.target import Target
from tests.eca_protocol.testing.conformance.mutants.registry import parts_with
from tests.eca_protocol.testing.conformance.reference.chat import Turn
from tests.eca_protocol.testing.conformance.reference.commands import Commands
from tests.eca_protocol.testing.conformance.reference.mcp import MCPServer
from tests.eca_protocol.testing.conformance.reference.model import Model, ModelFault
from tests.eca_protocol.testing.conformance.reference.server import Parts, Server
from tests.eca_protocol.testing.conformance.reference.tools import (
    MoveFile,
    ReadFile,
    Tool,
    Toolbox,
    names,
)
from tests.eca_protocol.testing.conformance.reference.workspace import Workspace
from tests.eca_protocol.testing.conformance.test_mutants import broken, judged

Message = dict[str, Any]
Take = Callable[[Message], None]


class LeavesOutDisabled(Toolbox):
    """Does not say of a tool that it is not disabled."""

    def listed(self, tools: Iterable[Tool], behavior: str) -> list[Message]:
        listed = super().listed(tools, behavior)
        return [{key: tool[key] for key in tool if tool[key] is not False} for tool in listed]


class HasNoTools(Toolbox):
    """Has no native tools."""

    natives = ()


class _ReadsWhole(ReadFile):
    optional = ()


class _Moves(MoveFile):
    optional = ("overwrite",)


class HasOwnParameters(Toolbox):
    """Has tools with fewer parameters, and with one more, than people know."""

    natives = (_ReadsWhole, _Moves)


class HasNoCommands(Commands):
    """Has no commands."""

    def find(self, query: str) -> list[Message]:
        return []


class RefusesLogins(Commands):
    """Has a command to log in, and no provider to log in to."""

    def find(self, query: str) -> list[Message]:
        login = {"name": "login", "description": "Log in.", "type": "native", "arguments": []}
        return [*super().find(query), login]


class KnowsNoPrices(Model):
    """Knows neither the price of a model nor its limits."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.cost, self.limit = {}, {}


class HasNoPatience(Model):
    """Does not ask a second time."""

    tries = 1


class AsksNobody(Toolbox):
    """Runs what the user is commonly asked about."""

    def verdict(self, tool: Tool, behavior: str, arguments: dict[str, Any]) -> str:
        verdict = super().verdict(tool, behavior, arguments)
        return "allow" if verdict == "ask" else verdict


class RejectsPlanned(Toolbox):
    """Offers all tools when it is planned, and rejects calls of those that change something."""

    def is_withheld(self, tool: Tool, behavior: str) -> bool:
        return super().is_withheld(tool, "agent")

    def verdict(self, tool: Tool, behavior: str, arguments: dict[str, Any]) -> str:
        is_planned = behavior == "plan" and tool.changes
        return "deny" if is_planned else super().verdict(tool, behavior, arguments)


class ToolsInOrder(MCPServer):
    """Shows the tools of an MCP server in an order of its own."""

    def announce(self, status: str) -> None:
        self.tools = sorted(self.tools, key=lambda tool: tool.name, reverse=True)
        super().announce(status)


class NamesNothing(Server):
    """Warns and notes without saying of what."""

    def show(self, kind: str, text: str) -> None:
        super().show(kind, "There is no such server." if text.startswith("There is no") else text)

    async def show_context(self, context: Message) -> str:
        shown = await super().show_context(context)
        return "(something was skipped)" if "was skipped" in shown else shown


class ShowsTheLines(Workspace):
    """Shows the lines around the cursor, with their numbers."""

    def show_cursor(self, path: str, position: Message) -> str:
        first = position["start"]["line"] - 2
        lines = Path(path).read_text().splitlines()[first : first + 5]
        around = [f"{number} {line}" for number, line in enumerate(lines, first)]
        return "\n".join([super().show_cursor(path, position), *around])


class PathsFromTheRoot(Workspace):
    """Tells where files are, seen from the root."""

    def query(self, text: str, known: list[Message], more: list[Message]) -> list[Message]:
        [root] = self.roots
        known = [{**each, "path": str(root / each["path"])} for each in known]
        return [
            {**each, "path": str(Path(each["path"]).relative_to(root))}
            for each in super().query(text, known, more)
        ]


class CommandsByWholeWords(Commands):
    """Finds commands by the words of their names and descriptions."""

    def find(self, query: str) -> list[Message]:
        words = set(query.lower().split())
        return [
            each
            for each in super().find("")
            if words <= set(re.findall(r"\w+", f"{each['name']} {each['description']}".lower()))
        ]


class KeepsTheModelsIds(Turn):
    """Tells of a call by the id that the model gave it."""

    def take_call(self, piece: Message) -> None:
        index, name = piece["index"], piece.get("function", {}).get("name")
        while len(self.calls) <= index:
            self.calls.append(self.server.parts.tool_call(self, name or "?"))
            self.calls[-1].id = piece["id"]
        super().take_call(piece)


class KnowsToolsByTheirNames(Toolbox):
    """Does not offer what is denied, and finds a tool by its very name only."""

    def find(self, name: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.offered_name == name), None)

    def is_withheld(self, tool: Tool, behavior: str) -> bool:
        denied = self._owner.config.get("toolCall", {}).get("approval", {}).get("deny", ())
        return names(tool, denied) or super().is_withheld(tool, behavior)


class _Titles(Model):
    """Asks for titles in a way of its own."""

    async def ask(self, messages: list[Message], tools: list[Message], take: Take) -> None:
        if tools or "a title of a few words" not in messages[0]["content"]:
            await super().ask(messages, tools, take)
        else:
            await self.ask_for_title(messages, take)

    @abstractmethod
    async def ask_for_title(self, messages: list[Message], take: Take) -> None:
        """Ask, and give the answer to `take`."""


class TitlesComeWhole(_Titles):
    """Asks for a title without a stream."""

    async def ask_for_title(self, messages: list[Message], take: Take) -> None:
        url = self._provider["url"].rstrip("/") + "/chat/completions"
        request = json.dumps({"model": self._own_name, "messages": messages, "stream": False})
        async with self._client.stream("POST", url, content=request) as response:
            answer = json.loads(await response.read())
        take({"choices": [{"delta": choice["message"]} for choice in answer["choices"]]})


class TitlesAreAskedOfTheUser(_Titles):
    """Says in the user's message what a title is to be."""

    async def ask_for_title(self, messages: list[Message], take: Take) -> None:
        text = "\n\n".join(each["content"] for each in messages)
        await super(_Titles, self).ask([{"role": "user", "content": text}], [], take)


class AsksAgain(Model):
    """Asks up to three times if an answer fails before anything of it has come."""

    async def ask(self, messages: list[Message], tools: list[Message], take: Take) -> None:
        came: list[Message] = []

        def note(event: Message) -> None:
            came.append(event)
            take(event)

        for pause in (0.05, 0.1):
            try:
                return await super().ask(messages, tools, note)
            except ModelFault:
                if came:
                    raise
            await anyio.sleep(pause)
        return await super().ask(messages, tools, note)


TITLED = (
    "titles.a_title_is_one_request_more_and_may_come_late",
    "titles.no_title_follows_a_stop_or_a_delete",
    "turns.the_model_that_a_prompt_names_answers_it",
    "usage.costs_and_limits_are_sent_where_they_are_known",
)

VARIANTS: list[tuple[type[Any], tuple[str, ...]]] = [
    (HasNoPatience, ("stops.a_stop_ends_the_turn_in_each_state_of_the_answer",)),
    (AsksNobody, ("stops.a_stop_ends_a_call_that_waits_and_one_that_runs",)),
    (RejectsPlanned, ("approvals.the_list_is_sent_again_when_what_is_disabled_changes",)),
    (ToolsInOrder, ("mcp.mcp_servers_are_shown_as_they_come",)),
    (
        NamesNothing,
        (
            "configuration.unknown_mcp_servers_are_named_to_the_user",
            "contexts.an_unknown_context_is_skipped_with_a_note",
        ),
    ),
    (ShowsTheLines, ("contexts.the_cursor_is_passed_on",)),
    (PathsFromTheRoot, ("queries.contexts_are_found",)),
    (CommandsByWholeWords, ("queries.commands_are_found",)),
    (LeavesOutDisabled, ("configuration.it_introduces_itself",)),
    (
        HasNoTools,
        (
            "configuration.it_introduces_itself",
            "tools.a_call_is_announced_while_the_model_still_writes",
            "tools.native_tools_have_the_names_that_people_configure",
        ),
    ),
    (HasOwnParameters, ("tools.native_tools_have_the_names_that_people_configure",)),
    (HasNoCommands, ("queries.commands_are_found",)),
    (RefusesLogins, ("queries.a_login_says_so",)),
    (KnowsNoPrices, ("usage.costs_and_limits_are_sent_where_they_are_known",)),
    (
        KeepsTheModelsIds,
        (
            "approvals.a_decision_in_the_same_instant_counts",
            "approvals.an_approval_is_saved_for_the_session",
            "tools.a_file_change_is_shown",
        ),
    ),
    (
        KnowsToolsByTheirNames,
        (
            "approvals.what_configuration_denies_is_rejected",
            "approvals.configuration_names_tools_in_any_spelling",
            "tools.what_cannot_be_called_is_called_with_an_error",
        ),
    ),
    (TitlesComeWhole, TITLED),
    (TitlesAreAskedOfTheUser, TITLED),
    (AsksAgain, ("faults.an_error_of_the_model_is_shown_and_ends_the_turn",)),
]
"""One part of the reference server in another way, and the cases that meet it."""


@pytest.mark.parametrize(
    ("variant", "cases"), VARIANTS, ids=[each.__name__ for each, _ in VARIANTS]
)
def test_what_is_left_open_is_no_breach(variant: type[Any], cases: tuple[str, ...]) -> None:
    parts: Parts = parts_with(variant)

    async def serve(transport: Any, config: Message) -> int:
        return await parts.server(transport, config, parts).run()

    run = judged(Target(serve=serve), *cases)
    assert broken(run) == set()
    assert not [
        each for each in run.findings if each.case in cases and each.verdict == "untestable"
    ]
    assert (run.incidents, run.suite_errors) == ((), ())
