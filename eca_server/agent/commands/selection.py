"""The models and agents: `/model` and `/agent` select one for a chat, `/subagents` lists more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command, fenced
from eca_server.config.agent_settings import AGENT_ALIASES, Behavior

MAX_LISTED: Final = 100


@command("agent", CommandArgument(name="name", description="Name of the agent to select."))
async def select_agent(turn: Turn, context: CommandContext) -> None:
    """List the agents, or select one for this chat."""
    requested = arguments_of(context.text).lower()
    names = context.loaded.config.selectable_behaviors
    spelled = turn.session.profile.agent_name
    requested = AGENT_ALIASES.get(requested, requested)
    agent = next((name for name in names if name.lower() == requested), None)
    if agent is not None:
        context.chats.select_agent(context.chat, agent)
        context.chat.set(behavior=agent)
        await context.chat.storage.store()
        name = spelled(agent)
        turn.report(f"This chat uses the agent {name} from the next prompt on.")
    elif requested:
        turn.fail(f"There is no agent {requested[:100]!r}. Send `/agent` to list all agents.")
    else:
        lines = [f"{'*' if name == context.behavior else ' '} {spelled(name)}" for name in names]
        listed = fenced("\n".join(lines))
        turn.report(f"Agents:\n\n{listed}\n\nSend `/agent NAME` to select one for this chat.")


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
        turn.report(f"This chat uses {matches[0]} from the next prompt on.")
    else:
        selected = context.chat.settings.model
        lines = [f"{'*' if name == selected else ' '} {name}" for name in matches[:MAX_LISTED]]
        if len(matches) > MAX_LISTED:
            lines.append(f"  and {len(matches) - MAX_LISTED} more")
        listed = fenced("\n".join(lines))
        turn.report(f"Models:\n\n{listed}\n\nSend `/model NAME` to select one for this chat.")


def _matching(query: str, names: Sequence[str]) -> Sequence[str]:
    """Return the model of exactly this name, else those whose names contain it, ignoring case.

    A name without the provider goes before a part of a name.
    """
    word = query.lower()
    exact = [name for name in names if name.lower() == word]
    own = [name for name in names if name.lower().partition("/")[2] == word]
    return exact or own or [name for name in names if word in name.lower()]


@command("subagents", steering="between requests")
async def list_subagents(turn: Turn, context: CommandContext) -> None:
    """List the agents that other agents may call."""
    subagents = context.loaded.config.subagents()
    lines = [" - ".join([name, *_details(each)]) for name, each in sorted(subagents.items())]
    turn.report("Subagents:\n\n" + fenced("\n".join(lines)) if lines else "There are no subagents.")


def _details(behavior: Behavior) -> Iterator[str]:
    if behavior.description:
        yield " ".join(behavior.description.split())
    if behavior.default_model:
        yield f"model: {behavior.default_model}"
    if behavior.max_steps is not None:
        yield f"steps: {behavior.max_steps}"
    if behavior.spawnable_by:
        yield f"called by: {', '.join(behavior.spawnable_by)}"
