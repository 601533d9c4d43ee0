"""What a slash command is, and how one is recognized in a prompt."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import attrs

from eca_protocol.http import HTTPClient
from eca_protocol.messages import CommandArgument
from eca_server.chat import Chat, Turn
from eca_server.chat.agent import Agent
from eca_server.chat.memory import Memory
from eca_server.chat.store import ChatSettings
from eca_server.commands.custom import CommandFiles
from eca_server.config import LoadedConfig, Source
from eca_server.credentials import Logins
from eca_server.llm.history import Message
from eca_server.llm.models import Models
from eca_server.secret import Secret, mask
from eca_server.skills import SkillFiles
from eca_server.workspace import Workspace

if TYPE_CHECKING:
    from eca_server.config.trust_items import TrustItem
    from eca_server.config.trust_texts import Listing
    from eca_server.mcp.manager import Manager

__all__ = [
    "BeginChat",
    "Command",
    "ForkChat",
    "MakeAgent",
    "Run",
    "Situation",
    "Steering",
    "TrustControl",
    "arguments_of",
    "fenced",
    "let_answer",
    "named_command",
    "told_of_sources",
    "without_keys",
]

_MASKED_FROM = 8  # characters of a key

MakeAgent: TypeAlias = Callable[[Turn, str], Awaitable[Agent | None]]
"""Who answers a text as if the user had written it, with the prompt's model, behaviour and
contexts; None: the model cannot be asked, which the user was told."""

BeginChat: TypeAlias = Callable[[Sequence[Message], str, ChatSettings], Awaitable[Chat]]
"""Makes a chat of a history, a title and settings, and shows it to the client."""

ForkChat: TypeAlias = Callable[[Chat, Sequence[Message]], Awaitable[Chat]]
"""Makes a chat of messages of another one, and shows it to the client."""

Steering: TypeAlias = Literal["between requests", "at once", "refused"]
"""What becomes of a command that is sent to a turn that runs."""


class TrustControl(Protocol):
    """The settings of opened folders that wait for the user, and the user's decisions."""

    @property
    def items(self) -> tuple[TrustItem, ...]: ...  # noqa: D102
    @property
    def listed(self) -> tuple[TrustItem, ...]: ...  # noqa: D102
    @property
    def is_barred(self) -> bool: ...  # noqa: D102
    def list_waiting(self) -> Listing: ...  # noqa: D102
    async def accept(self, items: Iterable[TrustItem]) -> None: ...  # noqa: D102
    async def refuse(self, items: Iterable[TrustItem]) -> None: ...  # noqa: D102
    async def forget(self) -> bool: ...  # noqa: D102


@attrs.frozen(kw_only=True)
class Situation:
    """What a command may look at beside its turn.

    Attributes:
        text: the prompt that names the command.
        loaded: the configuration.
        models: the models.
        model: the model of the turn, as `provider/model`.
        behavior: of the turn.
        make_agent: who answers a text in the turn.
        logins: the stored keys.
        refresh_models: makes the models anew, after a key came or went, and tells the client.
        http: how a login is done.
        workspace: the user's project.
        gitignore: whether what Git ignores is left out of trees.
        command_files: where custom commands lie.
        skill_files: where skills lie.
        trust: the settings of opened folders that wait for the user.
        memory: the stored chats, if chats are stored.
        mcp: the MCP servers, if any are configured.
        select_model: selects a model, by its name, for a chat, and tells the client.
        begin_chat: makes a new chat of what was said elsewhere and shows it; None: the client
            knows no chats but those it opens.
        fork_chat: makes a chat that begins with messages of another one; None: likewise.
        ask_aside: asks a question in a chat that begins with another one; None: likewise.
        select_agent: selects an agent, by its name, for a chat, and tells the client.
        find_title: finds what a chat is called, or its id; None: there is no such chat.
        delete_chat: deletes a chat, by its id.
        asks_user: whether the client shows questions to its user.
        ask_user: asks the user to choose one of these labels; None: no answer.
    """

    text: str
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
    select_model: Callable[[Chat, str], None]
    trust: TrustControl
    memory: Memory | None = None
    mcp: Manager | None = None
    begin_chat: BeginChat | None = None
    fork_chat: ForkChat | None = None
    ask_aside: Callable[[Chat, str], Awaitable[Chat]] | None = None
    select_agent: Callable[[Chat, str], None]
    find_title: Callable[[str], Awaitable[str | None]]
    delete_chat: Callable[[str], None]
    asks_user: bool
    ask_user: Callable[[Chat, str, Sequence[str]], Awaitable[str | None]]


Run: TypeAlias = Callable[[Turn, Situation], Awaitable[None]]


@attrs.frozen(kw_only=True)
class Command:
    """A slash command of this server; `run` is the body of its turn.

    Attributes:
        asks_model: a model takes part in the answer.
        steering: what becomes of it in a turn that runs.
    """

    name: str
    description: str
    run: Run
    asks_model: bool = False
    steering: Steering = "refused"
    arguments: tuple[CommandArgument, ...] = ()


def named_command(message: str) -> str | None:
    """The command a prompt names: its first word, if that begins with the only slash in it.

    `/doctor` and `/Costs now` name one; `/usr/bin/env`, `a/b` and `/` do not. Capitals mean
    nothing.
    """
    word = message.split(maxsplit=1)[0] if message.strip() else ""
    name = word[1:].lower()
    return name if word.startswith("/") and name and "/" not in name else None


def arguments_of(prompt: str) -> str:
    """What stands behind the command's name."""
    return " ".join(prompt.split(maxsplit=1)[1:]).strip()


def fenced(text: str) -> str:
    """A text as a block of code in Markdown, whatever is in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def told_of_sources(sources: Iterable[Source]) -> list[str]:
    """Lines about where the configuration was looked for."""
    states = {"used": "used", "absent": "not found", "broken": "broken, see below"}
    return [
        "Configuration (the later wins):",
        "",
        *(f"- {source.name}: {states[source.state]}" for source in sources),
    ]


def without_keys(text: str, keys: Iterable[Secret]) -> str:
    """A report without keys; one so short that it is any word (`ollama`) stays."""
    return mask(text, *(key for key in keys if len(key.reveal()) >= _MASKED_FROM))


async def let_answer(turn: Turn, situation: Situation, text: str) -> None:
    """Let the model answer a text as if the user had written it."""
    turn.messages.append(turn.unsent)
    agent = await situation.make_agent(turn, text)
    if agent is not None:
        await agent.run(turn)
