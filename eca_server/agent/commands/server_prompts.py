r"""Prompts of MCP servers as commands: `/server:prompt`.

Arguments are given in the prompt's order, split at spaces but not inside quotes; the last one takes
the whole rest, and `""` skips an optional one.

Rules: a name is one word and means one prompt, whatever names servers use; whatever a server does,
the turn ends with a readable text; an `@path` is resolved only in the user's message, since the
user did not write the prompt's text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import Final, Literal, TypeAlias

import attrs
import trio

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext
from eca_server.agent.commands.custom import words_of
from eca_server.agent.context.block import render
from eca_server.agent.context.limits import Limits
from eca_server.agent.context.resources import resource_content
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.manager import START_WAIT_SECONDS, Manager
from eca_server.agent.mcp.messages import Content, Prompt, PromptMessage, ResourceContents
from eca_server.agent.mcp.server import Server
from eca_server.agent.mcp.states import State
from eca_server.agent.tools.files import printable
from eca_server.agent.tools.output import Cap, cut_end
from eca_server.models.attachments import MAX_IMAGE_BYTES
from eca_server.models.history import FilePart, ImagePart, Message, TextPart
from eca_server.secret import mask
from eca_server.workspace.errors import FileError

_NOT_IN_NAMES = re.compile(r"[^\w.:@+~-]+")
_MAX_PROMPTS: Final = 500  # prompts
_MAX_ARGUMENTS: Final = 20
_MAX_NAME: Final = 128
_MAX_DESCRIPTION: Final = 500
_MAX_ARGUMENT_DESCRIPTION: Final = 200
_MAX_ERROR: Final = 2000

_LONGEST_URI = 2000
_CONTINUE = TextPart("Continue.")

_Part: TypeAlias = TextPart | ImagePart | FilePart


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
    stopped = [each for each in candidates if each.state is not State.RUNNING]
    names = ", ".join(f"{each.name} ({each.state.value})" for each in stopped)
    return f"These MCP servers do not run: {names}." if stopped else None


def prefix_of(server: Server) -> str:
    """Return the prefix of the names of a server's prompts, in lower case."""
    return f"{_NOT_IN_NAMES.sub('-', server.name).lower()}:"


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
        reason = mask(str(error), *server.secrets())[:_MAX_ERROR].rstrip(".")
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


def messages_of(
    prompt: Iterable[PromptMessage], *, server: str, user_text: str, extra_text: str = ""
) -> tuple[Message, ...]:
    """Return a prompt as messages of a history; the last is the user's.

    Roles are preserved, but the history begins and ends with the user, as every API requires;
    embedded resources are marked like other contexts; the size is limited.

    Args:
        prompt: its messages, with its arguments filled in.
        server: the name of its server.
        user_text: the user's message; it comes first if the prompt begins with an answer.
        extra_text: text of the user that no argument of the prompt takes.
    """
    builder = _PartBuilder(server=server)
    parts = [
        (each.role, part) for each in prompt for part in builder.parts(each.role, each.content)
    ]
    messages = [
        Message(role=role, parts=tuple(part for _, part in group))
        for role, group in groupby(parts, lambda each: each[0])
    ]
    if not messages:
        return ()
    if messages[0].role == "assistant":
        messages.insert(0, Message(role="user", parts=(TextPart(user_text),)))
    extra_parts = (TextPart(extra_text),) if extra_text else ()
    if messages[-1].role == "assistant":
        messages.append(Message(role="user", parts=extra_parts or (_CONTINUE,)))
    elif extra_parts:
        messages[-1] = attrs.evolve(messages[-1], parts=messages[-1].parts + extra_parts)
    return tuple(messages)


@attrs.define(kw_only=True, eq=False)
class _PartBuilder:
    """Builds the parts of one prompt, within limits."""

    server: str
    limits: Limits = attrs.field(factory=Limits)
    size: int = attrs.field(init=False, default=0)
    attached: int = attrs.field(init=False, default=0)
    is_full: bool = attrs.field(init=False, default=False)

    def parts(self, role: Literal["user", "assistant"], content: Content) -> Iterator[_Part]:
        """Yield the parts of a block; answers contain no pictures, which no API takes there."""
        for part in self._parts(content):
            if isinstance(part, TextPart):
                if part.text.strip():
                    yield part
            elif role == "user" and self._may_attach(part):
                yield part
            else:
                yield TextPart(f"(a picture or document of {len(part.data)} bytes was left out)")

    def _parts(self, content: Content) -> Iterator[_Part]:
        room = self.limits.total - self.size
        if room <= 0:
            if not self.is_full:
                self.is_full = True
                yield TextPart("(the rest of the prompt was left out: it is too long)")
            return
        if isinstance(content, ResourceContents):
            yield from self._embedded(content, room)
            return
        if isinstance(content, TextPart):
            self.size += len(content.text.encode())
            content = TextPart(cut_end(content.text, Cap(lines=room, size=room)))
        yield content

    def _embedded(self, contents: ResourceContents, room: int) -> Iterator[_Part]:
        try:
            rendered = resource_content(self.server, contents, budget=room, limits=self.limits)
        except FileError as error:
            yield TextPart(f"({contents.uri[:_LONGEST_URI]} was left out: {error})")
            return
        self.size += rendered.size
        yield TextPart(render([rendered.section]))
        if rendered.attachment is not None:
            yield rendered.attachment

    def _may_attach(self, part: ImagePart | FilePart) -> bool:
        self.attached += 1
        fits = isinstance(part, FilePart) or len(part.data) <= MAX_IMAGE_BYTES
        return fits and self.attached <= self.limits.attachments
