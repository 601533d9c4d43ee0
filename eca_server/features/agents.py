"""The agent of a turn: its model, instructions and tools, as configured and selected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from eca_protocol.messages import ChatContext
from eca_server.chat import Chat, Turn
from eca_server.chat.agent import Agent
from eca_server.chat.instructions import (
    System,
    UnreadablePrompt,
    compact_prompt,
    instructions,
    own_prompt,
)
from eca_server.chat.outlet import Outlet
from eca_server.child_process import chat_environment
from eca_server.commands import hidden_skill_notes
from eca_server.config import Behavior, Config, apply_behavior
from eca_server.context import PromptContext, build_context, read_instruction_files
from eca_server.context.job_notice import job_notice
from eca_server.features import tools
from eca_server.features.connection import Connection
from eca_server.features.hooks import hook_fields, turn_hooks
from eca_server.features.selection import Chosen
from eca_server.features.subagents import SUBAGENT_INSTRUCTIONS, ParentTurn, make_spawn
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
    chat: Outlet,
    turn: Turn,
    text: str,
    *,
    contexts: Sequence[ChatContext],
    chosen: Chosen,
    parent: ParentTurn | None = None,
) -> Agent | None:
    """Build the agent for a turn; return None after reporting an unusable model.

    The configuration is read before the first wait, so the turn keeps it to its end.

    Args:
        connection: the connection.
        chat: the chat of the turn.
        turn: the turn.
        text: the prompt for the model.
        contexts: the contexts of the prompt.
        chosen: the model and the behaviour.
        parent: the parent turn of a subagent; None: the user's own agent.
    """
    behavior = chosen.behavior
    try:
        selected_model = connection.models.find(chosen.model, chosen.variant)
    except BackendError as error:
        turn.fail(f"{chosen.model} cannot be used: {error.message}.")
        return None

    async def gather() -> PromptContext:
        built = await build_context(
            contexts,
            text,
            workspace=connection.workspace,
            http=connection.http,
            resources=_resource_reader(connection, chat),
            gitignore=gitignore,
        )
        news = job_notice(connection.jobs, chat.id) if connection.has_jobs else ""
        return attrs.evolve(built, parts=(TextPart(news), *built.parts)) if news else built

    config, gitignore = apply_behavior(connection.config, behavior), connection.follows_gitignore
    policy = policy_of(config, behavior, within=None if parent is None else parent.policy)
    owner = chat if parent is None else parent.chat
    if isinstance(chat, Chat):
        own = ParentTurn(chat=chat, turn=turn, policy=policy)
        spawn = make_spawn(connection, own, chosen, make_agent)
        lists = [tasks for _, tasks in lists_in(chat.history)]
        native = connection.tools(
            chat.ledger,
            owner.id,
            behavior=behavior,
            tasks=lists[-1] if lists else None,
            more=spawn,
        )
    else:
        native = connection.tools(chat.ledger, owner.id, reader=chat.id, behavior=behavior)
        native = native.without(AskUser.name).without(TASK_TOOL)
    if not selected_model.capabilities.images:
        native = native.without(ViewImage.name)
    permissions = Permissions(
        policy=policy,
        workspace=connection.workspace,
        memos=connection.memos,
        variables=chat_environment(connection.child_variables, chat.id),
        trusts=lambda: owner.settings.trust or chat.settings.trust,
    )
    system = chat.systems.get(behavior)
    if system is None:
        system = await _system(connection, turn, config, policy, behavior)
        chat.systems[behavior] = system
    if not system.lists_skills and _offers_skills(policy):
        native = native.without(SKILL_TOOL)
    if connection.is_introduced and parent is None:
        tools.announce_tools(connection, behavior)
    model = f"{selected_model.origin.provider}/{selected_model.origin.model}"
    fields = hook_fields(connection, chat, model=model, variant=chosen.variant, behavior=behavior)
    served, more = await _of_servers(connection, turn, config, policy, native)
    if config.mcp_tool_search and served:
        served = searchable(served)
        native = native.adding([SearchTools(served=served), CallTool(served=served)])
    return Agent(
        model=selected_model,
        messages=(Message(role="user", parts=(TextPart(text),)),),
        system="\n\n".join(
            filter(None, [system.text, more, SUBAGENT_INSTRUCTIONS if parent else ""])
        ),
        toolbox=native.toolbox(policy, served),
        permissions=permissions,
        wants_title=config.chat_title and parent is None,
        compact_at=_compact_at(config, behavior, selected_model.capabilities.context),
        answer_max_kb=config.answer_max_kb,
        gather=gather,
        title_prompt=config.prompts.chat_title,
        compact_prompt=await _compact_prompt(turn, config),
        hooks=await turn_hooks(connection, turn, config, fields),
        max_steps=config.behaviors.get(behavior, Behavior()).max_steps,
        initiator="user" if parent is None else "agent",
    )


async def _of_servers(
    connection: Connection, turn: Turn, config: Config, policy: Policy, native: NativeTools
) -> tuple[Sequence[ServedTool], str]:
    """Return the tools and the instructions of the running MCP servers."""
    if not connection.uses_mcp:
        return (), ""
    from eca_server.features import mcp  # noqa: PLC0415 - only where one is configured

    await mcp.wait_for_servers(connection, turn)
    limits = config.tool_call.output_truncation
    served = mcp.served_tools(connection, turn, policy, native.toolbox(policy), limits)
    return served, mcp.instructions(connection)


def _resource_reader(connection: Connection, chat: Outlet) -> ResourceReader | None:
    """Return the reader of MCP resources, or None if no server is configured."""
    if not connection.uses_mcp:
        return None
    from eca_server.features import mcp  # noqa: PLC0415 - as above

    return mcp.ResourceReader(servers=connection.mcp, chat=chat)


def _compact_at(config: Config, behavior: str, context: int | None) -> float:
    """Return the percentage of the context above which the chat is compacted."""
    own = config.behaviors.get(behavior, Behavior())
    tokens_left, percentage = own.auto_compact_tokens_left, own.auto_compact_percentage
    if tokens_left is None and percentage is None:
        tokens_left = config.auto_compact_tokens_left
    if tokens_left is not None and context is not None and tokens_left < context:
        return 100 * (context - tokens_left) / context
    return config.auto_compact_percentage if percentage is None else percentage


async def _compact_prompt(turn: Turn, config: Config) -> str:
    try:
        return await compact_prompt(config)
    except UnreadablePrompt as error:
        turn.say(str(error), role="system")
        return ""


async def _system(
    connection: Connection, turn: Turn, config: Config, policy: Policy, behavior: str
) -> System:
    """Build a chat's instructions for a behaviour from its prompt and files."""
    files = await read_instruction_files(
        connection.workspace,
        user_directory=connection.user_directory,
        rules=[rule.path for rule in config.rules if rule.path is not None],
        parents=config.include_parent_agents_files,
        behavior=behavior,
        trusted_roots=connection.loaded.trusted_roots,
    )
    for note in files.notes:
        turn.say(note, role="system")
    try:
        own = await own_prompt(config, behavior)
    except UnreadablePrompt as error:
        own = ""
        turn.say(str(error), role="system")
    only = config.behaviors.get(behavior, Behavior()).skills
    skills = await _listed_skills(connection, turn, policy, only)
    part = instructions(config.built_in(behavior), connection.session.roots, own)
    text = "\n\n".join(filter(None, [part, files.text, skills]))
    return System(text=text, lists_skills=bool(skills))


async def _listed_skills(
    connection: Connection, turn: Turn, policy: Policy, only: Sequence[str] | None
) -> str:
    """Return the list of skills that the model may load, a part of its instructions."""
    files = await connection.skill_files.read()
    connection.has_skills = bool(files.skills)
    if not _offers_skills(policy):
        return ""
    named = (each for each in files.skills if is_allowed(each, only))
    allowed = [each for each in named if _may_be_loaded(each, policy)]
    text, too_long = list_skills(allowed)
    for note in (*files.notes, *hidden_skill_notes(allowed), too_long):
        if note:
            turn.say(note, role="system")
    return text


def _offers_skills(policy: Policy) -> bool:
    """Return whether no rule withholds the tool that loads skills."""
    return policy.withheld(server=NATIVE, tool=SKILL_TOOL, effect="read") is None


def _may_be_loaded(skill: Skill, policy: Policy) -> bool:
    """Return whether no rule denies a skill by its name; a denied one is not worth listing."""
    call = Call(tool=SKILL_TOOL, arguments={"name": skill.name}, effect="read")
    return policy.decide(call).verdict != "deny"
