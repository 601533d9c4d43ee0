r"""Prompts of MCP servers as commands: `/server:prompt`, and what the server makes of one.

Arguments are told in the prompt's order, cut at blanks but not inside quotes; the last one takes
all that is left, and `""` passes an optional one over.

The rules they keep: a name is one word and stands for one prompt, however servers name theirs;
whatever a server does, the turn ends with a readable text; only in what the user typed is an
`@path` followed, for the prompt's own words are not the user's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final

import attrs
import trio

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.commands.command import Situation, arguments_of
from eca_server.commands.custom import words_of
from eca_server.commands.given_prompt import messages_of
from eca_server.mcp.faults import MCPFault
from eca_server.mcp.manager import PATIENCE, Manager
from eca_server.mcp.messages import Prompt
from eca_server.mcp.server import Server
from eca_server.mcp.states import State
from eca_server.secret import mask
from eca_server.tools.files import printable

__all__ = [
    "MissingArguments",
    "ServerPrompt",
    "find_server_prompt",
    "prefix_of",
    "run_server_prompt",
    "server_prompts",
]

_NOT_IN_NAMES = re.compile(r"[^\w.:@+~-]+")
_MOST: Final = 500  # prompts that are commands
_MOST_ARGUMENTS: Final = 20
_LONGEST_NAME: Final = 128
_LONGEST_DESCRIPTION: Final = 500
_LONGEST_OF_ARGUMENT: Final = 200
_LONGEST_FAULT: Final = 2000


class MissingArguments(Exception):
    """A prompt was called without what it needs; the text says how it is called."""


@attrs.frozen(kw_only=True)
class ServerPrompt:
    """One prompt of a server that runs.

    Attributes:
        name: what stands behind the slash.
        server: who offers it.
        prompt: as its server lists it.
    """

    name: str
    server: Server
    prompt: Prompt

    @property
    def description(self) -> str:
        """One line."""
        told = self.prompt.description or self.prompt.title or f"A prompt of {self.server.name}."
        return _line(told, _LONGEST_DESCRIPTION)

    @property
    def arguments(self) -> tuple[CommandArgument, ...]:
        """As the server describes them."""
        return tuple(
            CommandArgument(
                name=_line(each.name, _LONGEST_NAME),
                description=_line(each.description, _LONGEST_OF_ARGUMENT) or None,
                required=each.required,
            )
            for each in self.prompt.arguments[:_MOST_ARGUMENTS]
        )

    def values(self, given: str) -> Mapping[str, str]:
        """The arguments by name, from what stands behind the command's name.

        Raises:
            MissingArguments: there are too few.
        """
        wanted = self.prompt.arguments[:_MOST_ARGUMENTS]
        words = words_of(given, most=len(wanted))
        values = {
            each.wire_name: word
            for each, word in zip(wanted, words, strict=False)
            if word or each.required
        }
        if any(each.required and each.wire_name not in values for each in wanted):
            raise MissingArguments(self._usage(len(words)))
        return values

    def _usage(self, given: int) -> str:
        """What is missing where only so many arguments were given, and how to call it."""
        missing = "; ".join(
            f"`{each.name}`" + (f" ({each.description})" if each.description else "")
            for each in self.arguments[given:]
            if each.required
        )
        usage = " ".join(
            each.name if each.required else f"[{each.name}]" for each in self.arguments
        )
        return (
            f"`/{self.name}` needs {missing}. Write `/{self.name} {usage}`, "
            "and put a value with blanks in quotes."
        )


def server_prompts(
    servers: Iterable[Server], taken: Collection[str] = ()
) -> tuple[ServerPrompt, ...]:
    """The prompts of servers, each under a name of its own; `taken` are names in use."""
    used = set(taken)
    offered = ((server, prompt) for server in servers for prompt in server.prompts)
    found = []
    for server, prompt in islice(offered, _MOST):
        plain = _NOT_IN_NAMES.sub("-", f"{server.name}:{prompt.name}"[:_LONGEST_NAME])
        name, number = plain, 1
        while name.lower() in used:
            number += 1
            name = f"{plain}-{number}"
        used.add(name.lower())
        found.append(ServerPrompt(name=name, server=server, prompt=prompt))
    return tuple(found)


def _line(text: str, longest: int) -> str:
    """A server's text as one line that people can read."""
    return printable(" ".join(text[: 4 * longest].split())[:longest])


async def find_server_prompt(
    name: str, manager: Manager, taken: Collection[str]
) -> ServerPrompt | str | None:
    """The prompt that a command's name means, after a moment for a server that is starting.

    Returns:
        A sentence, where it would be one of a server that does not tell its prompts now; None,
        where no server is meant.
    """
    meant = [each for each in manager if name.startswith(prefix_of(each))]
    with trio.move_on_after(PATIENCE):
        for server in meant:
            await server.listed()
    for found in server_prompts(manager.running, taken):
        if found.name.lower() == name:
            return found
    silent = [f"{each.name} ({each.state.value})" for each in meant if not _tells(each)]
    return f"MCP servers that do not tell their prompts: {', '.join(silent)}." if silent else None


def prefix_of(server: Server) -> str:
    """Return what the names of a server's prompts begin with, in small letters."""
    return f"{_NOT_IN_NAMES.sub('-', server.name).lower()}:"


def _tells(server: Server) -> bool:
    return server.state is State.RUNNING


async def run_server_prompt(found: ServerPrompt, turn: Turn, situation: Situation) -> None:
    """The body of a turn: what the server makes of its prompt is what the model answers."""
    given = arguments_of(situation.text)
    name, server = f"`/{found.name}`", found.server
    try:
        values = found.values(given)
    except MissingArguments as fault:
        turn.fail(str(fault))
        return
    turn.progress(f"Asking {server.name} for the prompt")
    try:
        result = await server.session.get_prompt(found.prompt.wire_name, values)
    except MCPFault as fault:
        reason = mask(str(fault), *server.settings.secrets)[:_LONGEST_FAULT]
        turn.fail(f"{name}: the MCP server {server.name} did not give it: {reason}.")
        return
    more = given if not found.prompt.arguments else ""
    messages = messages_of(result, server=server.name, typed=situation.text, more=more)
    if not messages:
        turn.fail(f"{name}: the MCP server {server.name} gave a prompt without a text.")
        return
    agent = await situation.make_agent(turn, given)
    if agent is not None:
        await attrs.evolve(agent, asked=messages).run(turn)
