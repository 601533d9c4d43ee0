"""The subagents of a chat's agent (`agent` in the configuration, mode `subagent`).

The subagents of an agent are fixed when its turn begins. A subagent has no subagents and no
permission that its parent lacks. Only CURRENT clients can show subagents; others get none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from eca_protocol.messages import ChatContentReceivedParams, ChatContext
from eca_server.config import AGENT_ALIASES, Behavior, apply_behavior
from eca_server.config.matchers import matches_name

if TYPE_CHECKING:
    from eca_server.chat import Chat
    from eca_server.chat.agent import Agent
    from eca_server.chat.outlet import Outlet
    from eca_server.chat.subagents import SubagentChat, Task
    from eca_server.chat.turn import Turn
    from eca_server.features.connection import Connection
    from eca_server.features.selection import Chosen
    from eca_server.tools.approval import Policy
    from eca_server.tools.tool import Tool

__all__ = ["SUBAGENT_INSTRUCTIONS", "ParentTurn", "make_spawn", "subagent_tools"]

_SUBAGENT = "subagent"

SUBAGENT_INSTRUCTIONS: Final = (
    "You work for another agent, which receives only your last message: put the complete result "
    "into it. Do not ask questions; they are not answered."
)


@attrs.frozen(kw_only=True)
class ParentTurn:
    """The parent of a subagent: the turn that waits for it, its chat and its policy."""

    chat: Chat
    turn: Turn
    policy: Policy


class MakeAgent(Protocol):
    """The type of `features.agents.make_agent`."""

    async def __call__(
        self,
        connection: Connection,
        chat: Outlet,
        turn: Turn,
        text: str,
        *,
        contexts: Sequence[ChatContext],
        chosen: Chosen,
        parent: ParentTurn | None = None,
    ) -> Agent | None: ...


def make_spawn(
    connection: Connection, parent: ParentTurn, chosen: Chosen, make_agent: MakeAgent
) -> Iterator[Tool]:
    """Yield the tool that starts subagents, if the agent of a turn has any.

    Args:
        connection: the connection.
        parent: the parent turn.
        chosen: the model and behaviour of the parent turn.
        make_agent: builds the agent of a task's turn.
    """
    agents = _subagents_of(connection, chosen.behavior)
    if not agents:
        return
    from eca_server.chat.subagents import SpawnAgent, run_task  # noqa: PLC0415 - only where needed
    from eca_server.tools.output import Cap  # noqa: PLC0415 - as above

    async def work(task: Task) -> SubagentChat:
        task_choice = attrs.evolve(
            chosen,
            model=task.agent.model,
            variant=task.agent.variant,
            behavior=task.agent.name,
        )

        async def body(chat: SubagentChat) -> None:
            turn = chat.turn
            agent = await make_agent(
                connection, chat, turn, task.text, contexts=(), chosen=task_choice, parent=parent
            )
            if agent is not None:
                await agent.run(turn)

        async with connection.subagents:
            return await run_task(parent.turn, task, body, connection.chats.working_subagents)

    limits = apply_behavior(connection.config, chosen.behavior).tool_call.output_truncation
    yield SpawnAgent(
        agents=agents,
        model=chosen.model,
        variant=chosen.variant,
        cap=Cap(lines=limits.lines, size=limits.size_kb * 1024),
        work=work,
    )


def subagent_tools(connection: Connection, behavior: str) -> Iterator[Tool]:
    """Yield the same tool as it is announced to clients."""
    agents = _subagents_of(connection, behavior)
    if agents:
        from eca_server.chat.subagents import SpawnAgent  # noqa: PLC0415 - only where needed

        yield SpawnAgent(agents=agents)


def _subagents_of(connection: Connection, behavior: str) -> Mapping[str, Behavior]:
    """Return the subagents of an agent, by name."""
    if not connection.session.writes(ChatContentReceivedParams, "parent_chat_id"):
        return {}
    own = connection.config.behaviors.get(behavior, Behavior()).subagents
    return {
        name: each
        for name, each in connection.config.behaviors.items()
        if name and _SUBAGENT in each.mode and _may_spawn(behavior, each) and _is_listed(name, own)
    }


def _is_listed(name: str, agents: Sequence[str] | None) -> bool:
    """Return whether an agent has no list of subagents, or its list names this one."""
    return agents is None or any(matches_name(each, {name}, if_late=False) for each in agents)


def _may_spawn(behavior: str, subagent: Behavior) -> bool:
    names = {AGENT_ALIASES.get(name, name) for name in subagent.spawnable_by}
    return not names or behavior in names
