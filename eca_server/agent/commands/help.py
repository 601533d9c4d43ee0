"""The command `/help`: lists all commands with their descriptions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import Command, CommandContext
from eca_server.models.acp import ACP
from eca_server.printable import printable_line

_LONGEST_DESCRIPTION = 200  # characters
_OF_AGENT = "Other commands are sent to the agent."


class _Described(Protocol):
    """A command of any kind, as it is listed."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...


def help_command(
    load: Callable[[CommandContext], Awaitable[tuple[Sequence[_Described], Sequence[str]]]],
) -> Command:
    """Return the command that lists what `load` returns: all commands, and notes about others."""

    async def run(turn: Turn, context: CommandContext) -> None:
        commands, notes = await load(context)
        lines = [
            f"- `/{each.name}`: {printable_line(each.description, longest=_LONGEST_DESCRIPTION)}"
            for each in commands
        ]
        listed = "\n".join(["Commands:", "", *lines])
        others = [_OF_AGENT] if context.model.startswith(f"{ACP}/") else []
        turn.report("\n\n".join([listed, *others, *notes]))

    return Command(
        name="help",
        description="List all commands.",
        run=run,
        steering="between requests",
    )
