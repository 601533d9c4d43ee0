"""The subagents of a chat's agent (`agent` in the configuration, mode `subagent`).

The subagents of an agent are fixed when its turn begins. A subagent has no subagents and no
permission that its parent lacks. Only CURRENT clients can show subagents; others get none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs
import trio

from eca_protocol.messages import ChatContentReceivedParams
from eca_server.chat.subagents import SpawnAgent, SubagentChat, Task, run_task
from eca_server.chat.turn import Body, Turn
from eca_server.config import AGENT_ALIASES, Behavior, Config
from eca_server.config.matchers import matches_name
from eca_server.features.selection import Chosen
from eca_server.session import Session
from eca_server.tools.approval import Policy
from eca_server.tools.output import Cap
from eca_server.tools.tool import Tool

__all__ = [
    "SUBAGENT_INSTRUCTIONS",
    "ParentTurn",
    "make_spawn",
    "subagent_tools",
    "subagents_of",
]

_SUBAGENT = "subagent"

SUBAGENT_INSTRUCTIONS: Final = (
    "You work for another agent, which receives only your last message: put the complete result "
    "into it. Do not ask questions; they are not answered."
)


@attrs.frozen(kw_only=True)
class ParentTurn:
    """The parent of a subagent: the turn that waits for it, and that turn's policy."""

    turn: Turn
    policy: Policy


def make_spawn(
    *,
    agents: Mapping[str, Behavior],
    parent: Turn,
    chosen: Chosen,
    cap: Cap,
    make_body: Callable[[str, Chosen], Body],
    limiter: trio.Semaphore,
) -> Tool:
    """Return the tool that starts subagents.

    Args:
        agents: the subagents by name.
        parent: the parent turn.
        chosen: the model and behaviour of the parent turn.
        cap: the limits of a result.
        make_body: returns the body of a task's turn, for its text and its model and behaviour.
        limiter: limits the number of subagents that work at once.
    """

    async def work(task: Task) -> SubagentChat:
        task_choice = attrs.evolve(
            chosen,
            model=task.agent.model,
            variant=task.agent.variant,
            behavior=task.agent.name,
        )
        async with limiter:
            return await run_task(parent, task, make_body(task.text, task_choice))

    return SpawnAgent(agents=agents, model=chosen.model, variant=chosen.variant, cap=cap, work=work)


def subagent_tools(session: Session, config: Config, behavior: str) -> Iterator[Tool]:
    """Yield the same tool as it is announced to clients, if a behaviour has subagents."""
    agents = subagents_of(session, config, behavior)
    if agents:
        yield SpawnAgent(agents=agents)


def subagents_of(session: Session, config: Config, behavior: str) -> Mapping[str, Behavior]:
    """Return the subagents of an agent, by name."""
    if not session.writes(ChatContentReceivedParams, "parent_chat_id"):
        return {}
    own = config.behaviors.get(behavior, Behavior()).subagents
    return {
        name: each
        for name, each in config.behaviors.items()
        if name and _SUBAGENT in each.mode and _may_spawn(behavior, each) and _is_listed(name, own)
    }


def _is_listed(name: str, agents: Sequence[str] | None) -> bool:
    """Return whether an agent has no list of subagents, or its list names this one."""
    return agents is None or any(matches_name(each, {name}, if_late=False) for each in agents)


def _may_spawn(behavior: str, subagent: Behavior) -> bool:
    names = {AGENT_ALIASES.get(name, name) for name in subagent.spawnable_by}
    return not names or behavior in names
