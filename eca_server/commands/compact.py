"""`/compact`: a summary takes the place of what was said in the chat so far."""

from __future__ import annotations

from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.chat.compaction import compact, has_past
from eca_server.commands.command import Command, Situation, arguments_of

__all__ = ["COMPACT"]


async def _run(turn: Turn, situation: Situation) -> None:
    if not has_past(turn):
        turn.say(
            "There is nothing to compact: the model knows no more of this chat.", role="system"
        )
        return
    wish = arguments_of(turn.prompt.text)
    agent = await situation.make_agent(turn, wish)
    if agent is None:
        return
    summary = await compact(
        turn, agent.model, wish=wish, instruction=agent.compact_prompt, hooks=agent.hooks
    )
    if summary is None:
        turn.failed = True
    else:
        turn.say(f"\n\n{summary}", role="system")


COMPACT = Command(
    name="compact",
    description="Let a summary stand for this chat so far, so that it fits the model again.",
    run=_run,
    asks_model=True,
    arguments=(
        CommandArgument(name="instructions", description="What the summary should look after."),
    ),
)
