"""`/agent`: lists the agents, or selects one for this chat."""

from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command, fenced
from eca_server.config.tool_settings import AGENT_ALIASES


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
        turn.say(f"This chat uses the agent {name} from the next prompt on.", role="system")
    elif requested:
        turn.fail(f"There is no agent {requested[:100]!r}. Send `/agent` to list all agents.")
    else:
        lines = [f"{'*' if name == context.behavior else ' '} {spelled(name)}" for name in names]
        listed = fenced("\n".join(lines))
        turn.say(
            f"Agents:\n\n{listed}\n\nSend `/agent NAME` to select one for this chat.", role="system"
        )
