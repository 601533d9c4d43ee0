"""Servers that differ where the specification and the rulings leave a choice break no row."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from eca_protocol import json
from eca_protocol.testing.conformance.target import Target
from tests.eca_protocol.testing.conformance.mutants.filters import (
    Filter,
    Filtered,
    Knowing,
    args,
    change,
    content,
    each,
    params,
    put,
    result,
    without,
)
from tests.eca_protocol.testing.conformance.mutants.registry import altered
from tests.eca_protocol.testing.conformance.mutants.requests import (
    FOR_A_TITLE,
    SKIPPED,
    TURN_REQUEST,
    replaced,
)
from tests.eca_protocol.testing.conformance.mutants.sessions import LOGIN
from tests.eca_protocol.testing.conformance.reference.chat import Turn
from tests.eca_protocol.testing.conformance.reference.commands import Commands
from tests.eca_protocol.testing.conformance.reference.model import Model, ModelFault
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


class AsksAgain(Model):
    """Asks again where nothing of an answer came, after longer and longer pauses."""

    longest = 0.1
    hangs = False  # behind the longest pause

    async def ask(self, messages: list[Message], tools: list[Message], take: Take) -> None:
        came: list[Message] = []
        pause = 0.01
        while True:
            try:
                return await super().ask(
                    messages, tools, lambda event: (came.append(event), take(event))
                )
            except ModelFault:
                if came or (pause > self.longest and not self.hangs):
                    raise
            await (anyio.sleep_forever() if pause > self.longest else anyio.sleep(pause))
            pause *= 2


class TitlesComeWhole(Model):
    """Asks for a title without a stream."""

    async def ask(self, messages: list[Message], tools: list[Message], take: Take) -> None:
        if tools or "a title of a few words" not in messages[0]["content"]:
            await super().ask(messages, tools, take)
            return
        url = self._provider["url"].rstrip("/") + "/chat/completions"
        request = json.dumps({"model": self._own_name, "messages": messages, "stream": False})
        async with self._client.stream("POST", url, content=request) as response:
            answer = json.loads(await response.read())
        take({"choices": [{"delta": choice["message"]} for choice in answer["choices"]]})


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


class ShowsTheLines(Workspace):
    """Shows the lines around the cursor, with their numbers."""

    def show_cursor(self, path: str, position: Message) -> str:
        first = position["start"]["line"] - 2
        lines = Path(path).read_text().splitlines()[first : first + 5]
        around = [f"{number} {line}" for number, line in enumerate(lines, first)]
        return "\n".join([super().show_cursor(path, position), *around])


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


TITLED = (
    "titles.a_title_is_one_request_more_and_may_come_late",
    "titles.no_title_follows_a_stop_or_a_delete",
    "turns.the_model_that_a_prompt_names_answers_it",
    "usage.costs_and_limits_are_sent_where_they_are_known",
)


def joined(messages: list[Message]) -> list[Message]:
    """Say in the user's message what the instructions say."""
    return [{"role": "user", "content": "\n\n".join(each["content"] for each in messages)}]


def absolute(context: Message, server: Filtered) -> Message:
    [root] = server.workspace.roots
    return {**context, "path": str(root / context["path"])}


def relative(context: Message, server: Filtered) -> Message:
    [root] = server.workspace.roots
    return {**context, "path": str(Path(context["path"]).relative_to(root))}


def of_contexts(rewrite: Any) -> Knowing:
    return Knowing(
        lambda part, server: {**part, "contexts": [rewrite(x, server) for x in part["contexts"]]}
    )


COMMANDS = result("chat/queryCommands")
SERVERS = params("tool/serverUpdated")
PRICES = ("lastMessageCost", "messageCost", "sessionCost", "limit")

VARIANTS: dict[str, tuple[type[Any] | Filter, tuple[str, ...]]] = {
    "asks a model once": (
        HasNoPatience,
        ("stops.a_stop_ends_the_turn_in_each_state_of_the_answer",),
    ),
    "runs what the user is commonly asked about": (
        AsksNobody,
        ("stops.a_stop_ends_a_call_that_waits_and_one_that_runs",),
    ),
    "offers all tools when it is planned, and rejects calls of some": (
        RejectsPlanned,
        ("approvals.the_list_is_sent_again_when_what_is_disabled_changes",),
    ),
    "shows the tools of an MCP server in an order of its own": (
        Filter(SERVERS, change(tools=lambda tools: tools[::-1])),
        ("mcp.mcp_servers_are_shown_as_they_come",),
    ),
    "warns and notes without saying of what": (
        Filter(
            params("$/showMessage", test=lambda p: p["message"].startswith("There is no")),
            put(message="There is no such server."),
            also=(TURN_REQUEST, replaced(SKIPPED, "(something was skipped)")),
        ),
        (
            "configuration.unknown_mcp_servers_are_named_to_the_user",
            "contexts.an_unknown_context_is_skipped_with_a_note",
        ),
    ),
    "shows the lines around the cursor": (ShowsTheLines, ("contexts.the_cursor_is_passed_on",)),
    "tells where files are, seen from the root": (
        Filter(
            args("chat/queryContext", lambda p: p.get("contexts")),
            of_contexts(absolute),
            also=(result("chat/queryContext"), of_contexts(relative)),
        ),
        ("queries.contexts_are_found",),
    ),
    "finds commands by whole words": (CommandsByWholeWords, ("queries.commands_are_found",)),
    "does not say of a tool that it is not disabled": (
        Filter(
            SERVERS,
            change(tools=each(lambda tool: {k: tool[k] for k in tool if tool[k] is not False})),
        ),
        ("configuration.it_introduces_itself",),
    ),
    "has no native tools": (
        HasNoTools,
        (
            "configuration.it_introduces_itself",
            "tools.a_call_is_announced_while_the_model_still_writes",
            "tools.native_tools_have_the_names_that_people_configure",
        ),
    ),
    "has fewer parameters, and one more, than people know": (
        HasOwnParameters,
        ("tools.native_tools_have_the_names_that_people_configure",),
    ),
    "has no commands": (Filter(COMMANDS, put(commands=[])), ("queries.commands_are_found",)),
    "has a command to log in, and no provider to log in to": (
        Filter(COMMANDS, change(commands=lambda commands: [*commands, LOGIN])),
        ("queries.a_login_says_so",),
    ),
    "knows neither prices nor limits": (
        Filter(content("usage"), without(*PRICES)),
        ("usage.costs_and_limits_are_sent_where_they_are_known",),
    ),
    "tells of a call by the id that the model gave it": (
        KeepsTheModelsIds,
        (
            "approvals.a_decision_in_the_same_instant_counts",
            "approvals.an_approval_is_saved_for_the_session",
            "tools.a_file_change_is_shown",
        ),
    ),
    "does not offer what is denied": (
        KnowsToolsByTheirNames,
        (
            "approvals.what_configuration_denies_is_rejected",
            "approvals.configuration_names_tools_in_any_spelling",
            "tools.what_cannot_be_called_is_called_with_an_error",
        ),
    ),
    "asks for a title without a stream": (TitlesComeWhole, TITLED),
    "says in the user's message what a title is to be": (
        Filter(FOR_A_TITLE, change(messages=joined)),
        TITLED,
    ),
    "asks again if an answer fails at once": (
        AsksAgain,
        ("faults.an_error_of_the_model_is_shown_and_ends_the_turn",),
    ),
}
"""The reference server with a part or messages of its own, and the cases that meet them."""


@pytest.mark.parametrize(("variant", "cases"), VARIANTS.values(), ids=VARIANTS)
def test_what_is_left_open_is_no_breach(
    variant: type[Any] | Filter, cases: tuple[str, ...]
) -> None:
    run = judged(Target(serve=altered(variant).serve), *cases)
    assert broken(run) == set()
    assert not [
        each for each in run.findings if each.case in cases and each.verdict == "untestable"
    ]
    assert (run.incidents, run.suite_errors) == ((), ())
