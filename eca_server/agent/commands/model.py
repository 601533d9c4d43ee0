"""`/model`: lists the models, or selects one for this chat."""

from collections.abc import Sequence
from typing import Final

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command, fenced

MAX_LISTED: Final = 100


@command("model", CommandArgument(name="name", description="Name of the model, or a part of it."))
async def select_model(turn: Turn, context: CommandContext) -> None:
    """List the models, or select one for this chat."""
    query, names = arguments_of(context.text), context.models.names
    matches = _matching(query, names)
    if not matches:
        turn.fail(f"No model's name contains {query!r}. Send `/model` to list all models.")
    elif query and len(matches) == 1:
        context.chats.select_model(context.chat, matches[0])
        await context.chat.storage.store()
        turn.say(f"This chat uses {matches[0]} from the next prompt on.", role="system")
    else:
        selected = context.chat.settings.model
        lines = [f"{'*' if name == selected else ' '} {name}" for name in matches[:MAX_LISTED]]
        if len(matches) > MAX_LISTED:
            lines.append(f"  and {len(matches) - MAX_LISTED} more")
        listed = fenced("\n".join(lines))
        turn.say(
            f"Models:\n\n{listed}\n\nSend `/model NAME` to select one for this chat.", role="system"
        )


def _matching(query: str, names: Sequence[str]) -> Sequence[str]:
    """Return the model of exactly this name, else those whose names contain it, ignoring case."""
    word = query.lower()
    exact = [name for name in names if name.lower() == word]
    return exact or [name for name in names if word in name.lower()]
