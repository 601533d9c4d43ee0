"""The declarations of a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol import messages as m
from eca_protocol.server.chat import ServerChat
from eca_protocol.server.values import Prompt, Tool

__all__ = ["Command", "Declarations", "PromptHandler"]

PromptHandler: TypeAlias = Callable[[ServerChat, Prompt], Awaitable[None]]
"""Answers a prompt, or a command."""


@attrs.frozen(kw_only=True)
class Command:
    """A slash command of the server."""

    shown: m.ChatCommand
    run: PromptHandler

    def matches(self, query: str) -> bool:
        """Return whether the name or the description contains a text (W-40)."""
        searched = query.strip().lower()
        return any(searched in text.lower() for text in (self.shown.name, self.shown.description))


@attrs.frozen(kw_only=True)
class Declarations:
    """Everything that a server's author has declared; handlers may still be added.

    Attributes:
        models: the models, as `provider/model`; the first is selected.
        agents: the agents; the first is selected.
        commands: the commands, by name in lower case.
        handlers: the handler of prompts, and that of context queries.
    """

    welcome: str
    models: Sequence[str]
    agents: Sequence[str]
    tools: dict[str, Tool] = attrs.field(factory=dict)
    commands: dict[str, Command] = attrs.field(factory=dict)
    handlers: dict[Literal["prompt", "context_query"], Any] = attrs.field(factory=dict)
