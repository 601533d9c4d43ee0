r"""Prompts of MCP servers as commands: `/server:prompt`.

Arguments are given in the prompt's order, split at spaces but not inside quotes; the last one takes
the whole rest, and `""` skips an optional one.

Rules: a name is one word and means one prompt, whatever names servers use; whatever a server does,
the turn ends with a readable text; an `@path` is resolved only in the user's message, since the
user did not write the prompt's text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final

import attrs
import trio

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext
from eca_server.agent.commands.custom import words_of
from eca_server.agent.commands.prompt_messages import messages_of
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.manager import START_WAIT_SECONDS, Manager
from eca_server.agent.mcp.messages import Prompt
from eca_server.agent.mcp.server import Server, State
from eca_server.agent.tools.files import printable
from eca_server.secret import mask

_NOT_IN_NAMES = re.compile(r"[^\w.:@+~-]+")
_MAX_PROMPTS: Final = 500  # prompts
_MAX_ARGUMENTS: Final = 20
_MAX_NAME: Final = 128
_MAX_DESCRIPTION: Final = 500
_MAX_ARGUMENT_DESCRIPTION: Final = 200
_MAX_ERROR: Final = 2000


class MissingArguments(Exception):
    """A call of a prompt without a required argument; the text shows the usage."""


@attrs.frozen(kw_only=True)
class ServerPrompt:
    """One prompt of a running server."""

    name: str
    server: Server
    prompt: Prompt

    @property
    def description(self) -> str:
        """The description, in one line."""
        text = self.prompt.description or self.prompt.title or f"A prompt of {self.server.name}."
        return _line(text, _MAX_DESCRIPTION)

    @property
    def arguments(self) -> tuple[CommandArgument, ...]:
        """The arguments, as the server describes them."""
        return tuple(
            CommandArgument(
                name=_line(each.name, _MAX_NAME),
                description=_line(each.description, _MAX_ARGUMENT_DESCRIPTION) or None,
                required=each.required,
            )
            for each in self.prompt.arguments[:_MAX_ARGUMENTS]
        )

    def values(self, argument_text: str) -> Mapping[str, str]:
        """Return the arguments by name.

        Raises:
            MissingArguments: a required argument is missing.
        """
        arguments = self.prompt.arguments[:_MAX_ARGUMENTS]
        words = words_of(argument_text, limit=len(arguments))
        values = {
            each.wire_name: word
            for each, word in zip(arguments, words, strict=False)
            if word or each.required
        }
        if any(each.required and each.wire_name not in values for each in arguments):
            raise MissingArguments(self._usage(len(words)))
        return values

    def _usage(self, count: int) -> str:
        """Return the missing arguments after the first `count`, and the usage."""
        missing = "; ".join(
            f"`{each.name}`" + (f" ({each.description})" if each.description else "")
            for each in self.arguments[count:]
            if each.required
        )
        usage = " ".join(
            each.name if each.required else f"[{each.name}]" for each in self.arguments
        )
        return (
            f"Missing arguments of `/{self.name}`: {missing}. Send `/{self.name} {usage}`; put a "
            "value with spaces in quotes."
        )


def server_prompts(
    servers: Iterable[Server], taken: Collection[str] = ()
) -> tuple[ServerPrompt, ...]:
    """Return the prompts of servers under unique names; `taken` are names in use."""
    used_names = set(taken)
    offered = ((server, prompt) for server in servers for prompt in server.prompts)
    prompts = []
    for server, prompt in islice(offered, _MAX_PROMPTS):
        plain = _NOT_IN_NAMES.sub("-", f"{server.name}:{prompt.name}"[:_MAX_NAME])
        name, number = plain, 1
        while name.lower() in used_names:
            number += 1
            name = f"{plain}-{number}"
        used_names.add(name.lower())
        prompts.append(ServerPrompt(name=name, server=server, prompt=prompt))
    return tuple(prompts)


def _line(text: str, limit: int) -> str:
    return printable(" ".join(text[: 4 * limit].split())[:limit])


async def find_server_prompt(
    name: str, manager: Manager, taken: Collection[str]
) -> ServerPrompt | str | None:
    """Find the prompt of a command, after a short wait for a server that is starting.

    Returns:
        The prompt; a sentence, if its server does not run; None, if the name belongs to no server.
    """
    candidates = [each for each in manager if name.startswith(prefix_of(each))]
    with trio.move_on_after(START_WAIT_SECONDS):
        for server in candidates:
            await server.listed()
    for prompt in server_prompts(manager.running, taken):
        if prompt.name.lower() == name:
            return prompt
    stopped = [f"{each.name} ({each.state.value})" for each in candidates if not _is_running(each)]
    return f"These MCP servers do not run: {', '.join(stopped)}." if stopped else None


def prefix_of(server: Server) -> str:
    """Return the prefix of the names of a server's prompts, in lower case."""
    return f"{_NOT_IN_NAMES.sub('-', server.name).lower()}:"


def _is_running(server: Server) -> bool:
    return server.state is State.RUNNING


async def run_server_prompt(
    server_prompt: ServerPrompt, turn: Turn, context: CommandContext
) -> None:
    """Run a turn in which the model answers a server's prompt."""
    argument_text = arguments_of(context.text)
    name, server = f"`/{server_prompt.name}`", server_prompt.server
    try:
        values = server_prompt.values(argument_text)
    except MissingArguments as error:
        turn.fail(str(error))
        return
    turn.progress(f"Asking {server.name} for the prompt")
    try:
        result = await server.session.get_prompt(server_prompt.prompt.wire_name, values)
    except MCPError as error:
        reason = mask(str(error), *server.settings.secrets)[:_MAX_ERROR]
        turn.fail(f"{name}: the MCP server {server.name} refused the prompt: {reason}.")
        return
    more = argument_text if not server_prompt.prompt.arguments else ""
    messages = messages_of(result, server=server.name, user_text=context.text, extra_text=more)
    if not messages:
        turn.fail(f"{name}: the MCP server {server.name} returned an empty prompt.")
        return
    agent = await context.make_agent(turn, argument_text)
    if agent is not None:
        await attrs.evolve(agent, messages=messages).run(turn)
