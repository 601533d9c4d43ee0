"""The slash command, its context, and its recognition in a prompt."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import attrs

from eca_protocol.http import HTTPClient
from eca_protocol.messages import CommandArgument
from eca_server.agent.chat import Chat, Turn
from eca_server.agent.chat.agent import Agent
from eca_server.agent.chat.memory import Memory
from eca_server.agent.chat.store.rows import ChatSettings
from eca_server.agent.commands.custom import CommandFiles
from eca_server.agent.skills.skills import SkillFiles
from eca_server.config.loading import LoadedConfig
from eca_server.config.problems import Source
from eca_server.models.credentials.logins import Logins
from eca_server.models.history import Message, TextPart
from eca_server.models.models import Models
from eca_server.secret import Secret, mask
from eca_server.workspace.boundary import Workspace

if TYPE_CHECKING:
    from eca_server.agent.mcp.manager import Manager
    from eca_server.config.trust_items import TrustItem
    from eca_server.config.trust_texts import Listing

_MIN_MASKED = 8  # characters of a key

MakeAgent: TypeAlias = Callable[[Turn, str], Awaitable[Agent | None]]
"""Builds the agent that answers a text with the prompt's model, behaviour and contexts; returns
None after reporting that the model cannot be asked."""

Steering: TypeAlias = Literal["between requests", "at once", "refused"]
"""The moment at which a command runs that is sent to a running turn."""


class TrustControl(Protocol):
    """The settings of opened folders that wait for the user, and the user's decisions."""

    @property
    def items(self) -> tuple[TrustItem, ...]:
        """The settings that wait for a decision."""

    @property
    def listed(self) -> tuple[TrustItem, ...]:
        """The settings that the user has seen in a list."""

    @property
    def is_barred(self) -> bool:
        """True if the editor does not trust the workspace."""

    def list_waiting(self) -> Listing:
        """List the waiting settings for the user."""

    async def accept(self, items: Iterable[TrustItem]) -> None:
        """Store that the user accepts settings."""

    async def refuse(self, items: Iterable[TrustItem]) -> None:
        """Store that the user refuses settings."""

    async def forget(self) -> bool:
        """Remove the trust in the opened folders; return False if there was none."""


@attrs.frozen(kw_only=True)
class ChatActions:
    """The actions of commands on chats, of which the client is notified.

    Attributes:
        find_title: returns the title of a chat, or its id; None: there is no such chat.
        delete: deletes a chat, by its id.
        begin: creates and shows a chat with an imported history; None: the client shows only chats
            that it opens.
        fork: creates and shows a chat with messages of another one; None: as above.
        ask_aside: asks a question in a fork of a chat; None: as above.
        show_after_turn: shows a chat again after its turn; None: as above.
    """

    select_model: Callable[[Chat, str], None]
    select_agent: Callable[[Chat, str], None]
    find_title: Callable[[str], Awaitable[str | None]]
    delete: Callable[[str], None]
    begin: Callable[[Sequence[Message], str, ChatSettings], Awaitable[Chat]] | None = None
    fork: Callable[[Chat, Sequence[Message]], Awaitable[Chat]] | None = None
    ask_aside: Callable[[Chat, str], Awaitable[Chat]] | None = None
    show_after_turn: Callable[[Chat], object] | None = None


@attrs.frozen(kw_only=True)
class CommandContext:
    """The data and services of a command, in addition to its turn.

    Attributes:
        model: the model of the turn, as `provider/model`.
        make_agent: builds the agent that answers a text in the turn.
        refresh_models: rebuilds the models after a change of keys, and notifies the client.
        gitignore: whether trees skip files that Git ignores.
        trust: the settings of opened folders that wait for the user.
        mcp: the MCP servers, if any are configured.
        ask_user: asks the user to choose one of these labels, and returns None without an answer;
            None: the client shows no questions.
    """

    text: str
    chat: Chat
    loaded: LoadedConfig
    models: Models
    model: str
    behavior: str
    make_agent: MakeAgent
    logins: Logins
    refresh_models: Callable[[], Models]
    http: HTTPClient
    workspace: Workspace
    gitignore: bool
    command_files: CommandFiles
    skill_files: SkillFiles
    trust: TrustControl
    memory: Memory | None = None
    mcp: Manager | None = None
    chats: ChatActions
    ask_user: Callable[[Chat, str, Sequence[str]], Awaitable[str | None]] | None = None


Run: TypeAlias = Callable[[Turn, CommandContext], Awaitable[None]]


@attrs.frozen(kw_only=True)
class Command:
    """A native slash command; `run` is the body of its turn.

    Attributes:
        steering: when it runs if it is sent to a running turn.
    """

    name: str
    description: str
    run: Run
    asks_model: bool = False
    steering: Steering = "refused"
    arguments: tuple[CommandArgument, ...] = ()


def command(
    name: str,
    *arguments: CommandArgument,
    asks_model: bool = False,
    steering: Steering = "refused",
) -> Callable[[Run], Command]:
    """Declare a native command: the body of its turn, whose docstring is the description."""

    def declare(run: Run) -> Command:
        return Command(
            name=name,
            description=run.__doc__ or "",
            run=run,
            asks_model=asks_model,
            steering=steering,
            arguments=arguments,
        )

    return declare


def fenced(text: str) -> str:
    """Return a text as a Markdown code block, with a fence longer than any in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def source_lines(sources: Iterable[Source]) -> list[str]:
    """Return lines that list the sources of the configuration."""
    states = {"used": "present", "absent": "not found", "broken": "invalid, see below"}
    return [
        "Configuration sources (later ones take precedence):",
        "",
        *(f"- {source.name}: {states[source.state]}" for source in sources),
    ]


def mask_keys(text: str, keys: Iterable[Secret]) -> str:
    """Mask keys in a report, but for those so short that they may be any word (`ollama`)."""
    return mask(text, *(key for key in keys if len(key.reveal()) >= _MIN_MASKED))


async def ask_model(turn: Turn, context: CommandContext, text: str) -> None:
    """Ask the model a text as if the user had written it.

    A prompt that is stopped before the first request goes to the model with the next one, unless
    hooks have yet to see it.
    """
    parts = () if context.loaded.config.hooks else (TextPart(text),)
    turn.messages[:] = [attrs.evolve(turn.unsent, parts=parts)]
    agent = await context.make_agent(turn, text)
    if agent is None:
        turn.messages[:] = [turn.unsent]
    else:
        await agent.run(turn)
