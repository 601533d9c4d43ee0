"""Who answers a turn: the model, its instructions and tools, as configured and selected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from eca_protocol.messages import ChatContext
from eca_server.chat import Turn
from eca_server.chat.agent import Agent
from eca_server.chat.instructions import (
    System,
    UnreadablePrompt,
    compact_prompt,
    instructions,
    own_prompt,
)
from eca_server.child_process import of_chat
from eca_server.commands import hidden_skill_notes
from eca_server.config import Behavior, Config, in_behavior
from eca_server.context import PromptContext, build_context, read_instruction_files
from eca_server.context.job_notice import job_notice
from eca_server.features import tools
from eca_server.features.connection import Connection
from eca_server.features.hooks import told_of, turn_hooks
from eca_server.features.selection import Chosen
from eca_server.features.subagents import WORKS_FOR_ANOTHER, Superior, spawning
from eca_server.llm.backend import BackendError
from eca_server.llm.history import Message, TextPart
from eca_server.skills import SKILL_TOOL, Skill, is_allowed, list_skills
from eca_server.tools.approval import NATIVE, Call, Policy, policy_of
from eca_server.tools.ask_user import AskUser
from eca_server.tools.native import NativeTools
from eca_server.tools.permissions import Permissions
from eca_server.tools.search_tools import CallTool, SearchTools, searchable
from eca_server.tools.tasks import TASK_TOOL, lists_in
from eca_server.tools.toolbox import ServedTool
from eca_server.tools.view_image import ViewImage

if TYPE_CHECKING:
    from eca_server.context.resources import ResourceReader

__all__ = ["make_agent"]


async def make_agent(
    connection: Connection,
    turn: Turn,
    text: str,
    *,
    contexts: Sequence[ChatContext],
    chosen: Chosen,
    superior: Superior | None = None,
) -> Agent | None:
    """Who answers a text in a turn; None if the model cannot be asked, which was told.

    The configuration is looked at before the first wait: the turn keeps what it began with.

    Args:
        connection: the client's.
        turn: the turn.
        text: what the model is told.
        contexts: what goes before it.
        chosen: model and behaviour.
        superior: whom it works for; None: the user.
    """
    behavior = chosen.behavior
    try:
        asked = connection.models.find(chosen.model, chosen.variant)
    except BackendError as error:
        turn.fail(f"{chosen.model} cannot be asked: {error.message}.")
        return None

    async def gather() -> PromptContext:
        built = await build_context(
            contexts,
            text,
            workspace=connection.workspace,
            http=connection.http,
            resources=_resource_reader(connection, turn),
            gitignore=gitignore,
        )
        news = job_notice(connection.jobs, turn.chat.id) if connection.has_jobs else ""
        return attrs.evolve(built, parts=(TextPart(news), *built.parts)) if news else built

    config, gitignore = in_behavior(connection.config, behavior), connection.follows_gitignore
    policy = policy_of(config, behavior, within=None if superior is None else superior.policy)
    owner = turn.chat if superior is None else superior.turn.chat
    if superior is None:
        spawn = spawning(connection, Superior(turn=turn, policy=policy), chosen, make_agent)
        lists = [tasks for _, tasks in lists_in(turn.chat.history)]
        native = connection.tools(
            turn.chat.ledger,
            owner.id,
            behavior=behavior,
            tasks=lists[-1] if lists else None,
            more=spawn,
        )
    else:
        native = connection.tools(
            turn.chat.ledger, owner.id, reader=turn.chat.id, behavior=behavior
        )
        native = native.without(AskUser.name).without(TASK_TOOL)
    if not asked.capabilities.images:
        native = native.without(ViewImage.name)
    permissions = Permissions(
        policy=policy,
        workspace=connection.workspace,
        memos=connection.memos,
        variables=of_chat(connection.child_variables, turn.chat.id),
        trusts=lambda: owner.settings.trust or turn.chat.settings.trust,
    )
    system = await _system(connection, turn, config, policy, behavior)
    if not system.lists_skills and _offers_skills(policy):
        native = native.without(SKILL_TOOL)
    if connection.is_introduced and superior is None:
        tools.announce_tools(connection, behavior)
    model = f"{asked.origin.provider}/{asked.origin.model}"
    told = told_of(turn.chat, model=model, variant=chosen.variant, behavior=behavior)
    served, more = await _of_servers(connection, turn, config, policy, native)
    if config.mcp_tool_search and served:
        served = searchable(served)
        native = native.adding([SearchTools(served=served), CallTool(served=served)])
    return Agent(
        model=asked,
        asked=(Message(role="user", parts=(TextPart(text),)),),
        system="\n\n".join(
            filter(None, [system.text, more, WORKS_FOR_ANOTHER if superior else ""])
        ),
        toolbox=native.toolbox(policy, served),
        permissions=permissions,
        wants_title=config.chat_title and superior is None,
        compact_at=_compact_at(config, behavior, asked.capabilities.context),
        answer_max_kb=config.answer_max_kb,
        gather=gather,
        title_prompt=config.prompts.chat_title,
        compact_prompt=await _compact_prompt(turn, config),
        hooks=await turn_hooks(connection, turn, config, told),
        max_steps=config.behaviors.get(behavior, Behavior()).max_steps,
        initiator="user" if superior is None else "agent",
    )


async def _of_servers(
    connection: Connection, turn: Turn, config: Config, policy: Policy, native: NativeTools
) -> tuple[Sequence[ServedTool], str]:
    """The tools and the instructions of the MCP servers that run."""
    if not connection.uses_mcp:
        return (), ""
    from eca_server.features import mcp  # noqa: PLC0415 - only where one is configured

    await mcp.wait_for_servers(connection, turn)
    limits = config.tool_call.output_truncation
    served = mcp.served_tools(connection, turn, policy, native.toolbox(policy), limits)
    return served, mcp.instructions(connection)


def _resource_reader(connection: Connection, turn: Turn) -> ResourceReader | None:
    """What asks MCP servers for resources, if any are configured."""
    if not connection.uses_mcp:
        return None
    from eca_server.features import mcp  # noqa: PLC0415 - as above

    return mcp.ResourceReader(servers=connection.mcp, chat=turn.chat)


def _compact_at(config: Config, behavior: str, context: int | None) -> float:
    """Return how full a context of so many tokens may be, in percent."""
    own = config.behaviors.get(behavior, Behavior())
    left, percentage = own.auto_compact_tokens_left, own.auto_compact_percentage
    if left is None and percentage is None:
        left = config.auto_compact_tokens_left
    if left is not None and context is not None and left < context:
        return 100 * (context - left) / context
    return config.auto_compact_percentage if percentage is None else percentage


async def _compact_prompt(turn: Turn, config: Config) -> str:
    try:
        return await compact_prompt(config)
    except UnreadablePrompt as fault:
        turn.say(str(fault), role="system")
        return ""


async def _system(
    connection: Connection, turn: Turn, config: Config, policy: Policy, behavior: str
) -> System:
    """The chat's instructions for a behaviour, AGENTS.md, rules and skills, read once."""
    systems = turn.chat.systems
    if behavior not in systems:
        found = await read_instruction_files(
            connection.workspace,
            user_folder=connection.user_folder,
            rules=[rule.path for rule in config.rules if rule.path is not None],
            parents=config.include_parent_agents_files,
            behavior=behavior,
            trusted_roots=connection.loaded.trusted_roots,
        )
        for note in found.notes:
            turn.say(note, role="system")
        try:
            own = await own_prompt(config, behavior)
        except UnreadablePrompt as fault:
            own = ""
            turn.say(str(fault), role="system")
        only = config.behaviors.get(behavior, Behavior()).skills
        skills = await _listed_skills(connection, turn, policy, only)
        part = instructions(config.built_in(behavior), connection.session.roots, own)
        text = "\n\n".join(filter(None, [part, found.text, skills]))
        systems[behavior] = System(text=text, lists_skills=bool(skills))
    return systems[behavior]


async def _listed_skills(
    connection: Connection, turn: Turn, policy: Policy, only: Sequence[str] | None
) -> str:
    """The skills that the model may load, as a part of its instructions."""
    found = await connection.skill_files.read()
    connection.has_skills = bool(found.skills)
    if not _offers_skills(policy):
        return ""
    named = (each for each in found.skills if is_allowed(each, only))
    allowed = [each for each in named if _may_be_loaded(each, policy)]
    text, too_long = list_skills(allowed)
    for note in (*found.notes, *hidden_skill_notes(allowed), too_long):
        if note:
            turn.say(note, role="system")
    return text


def _offers_skills(policy: Policy) -> bool:
    """Whether no rule withholds the tool that loads them."""
    return policy.withheld(server=NATIVE, tool=SKILL_TOOL, effect="read") is None


def _may_be_loaded(skill: Skill, policy: Policy) -> bool:
    """Whether no rule denies it by its name: what is listed in vain only costs."""
    call = Call(tool=SKILL_TOOL, arguments={"name": skill.name}, effect="read")
    return policy.decide(call).verdict != "deny"
