"""`/model`: the models there are, and another one for this chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, arguments_of, fenced

__all__ = ["MODEL"]

MOST_LISTED: Final = 100


async def _run(turn: Turn, situation: Situation) -> None:
    wanted, names = arguments_of(situation.text), situation.models.names
    found = _meant(wanted, names)
    if not found:
        turn.fail(f"There is no model whose name holds {wanted!r}; `/model` lists them all.")
    elif wanted and len(found) == 1:
        situation.select_model(turn.chat, found[0])
        await turn.chat.keep_settings()
        turn.say(f"The next prompt of this chat goes to {found[0]}.", role="system")
    else:
        selected = turn.chat.settings.model
        lines = [f"{'*' if name == selected else ' '} {name}" for name in found[:MOST_LISTED]]
        if len(found) > MOST_LISTED:
            lines.append(f"  and {len(found) - MOST_LISTED} more")
        listed = fenced("\n".join(lines))
        turn.say(f"Models:\n\n{listed}\n\n`/model NAME` selects one here.", role="system")


def _meant(wanted: str, names: Sequence[str]) -> Sequence[str]:
    """The models that a word may mean: the one of that name, else those whose names hold it."""
    word = wanted.lower()
    exact = [name for name in names if name.lower() == word]
    return exact or [name for name in names if word in name.lower()]


MODEL = Command(
    name="model",
    description="List the models there are; with a name, select one for this chat.",
    run=_run,
    arguments=(CommandArgument(name="name", description="Of the model, or a part of it."),),
)
