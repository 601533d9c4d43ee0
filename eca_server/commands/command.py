"""What a slash command is, and how one is recognized in a prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.chat.agent import Agent
from eca_server.chat.memory import Memory
from eca_server.config import Loaded
from eca_server.llm.models import Models

__all__ = ["Command", "MakeAgent", "Run", "Situation", "named_command"]

MakeAgent: TypeAlias = Callable[[Turn, str], Awaitable[Agent | None]]
"""Who answers a text as if the user had written it, with the prompt's model, behaviour and
contexts; None: the model cannot be asked, which the user was told."""


@attrs.frozen(kw_only=True)
class Situation:
    """What a command may look at beside its turn.

    Attributes:
        loaded: the configuration.
        models: the models.
        behavior: of the turn.
        make_agent: who answers a text in the turn.
        memory: the stored chats, if chats are stored.
    """

    loaded: Loaded
    models: Models
    behavior: str
    make_agent: MakeAgent
    memory: Memory | None = None


Run: TypeAlias = Callable[[Turn, Situation], Awaitable[None]]


@attrs.frozen(kw_only=True)
class Command:
    """A slash command of this server; `run` is the body of its turn."""

    name: str
    description: str
    run: Run
    arguments: tuple[CommandArgument, ...] = ()


def named_command(message: str) -> str | None:
    """The command a prompt names: its first word, if that begins with the only slash in it.

    `/doctor` and `/costs now` name one; `/usr/bin/env`, `a/b` and `/` do not.
    """
    word = message.split(maxsplit=1)[0] if message.strip() else ""
    name = word[1:]
    return name if word.startswith("/") and name and "/" not in name else None
