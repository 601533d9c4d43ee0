"""Chats (chapter "Code Assistant Features"; rulings W-20 to W-28).

A handler translates, calls the chat and answers in place: when the next message is looked at, the
turn is registered, stopped or deleted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING

from eca_protocol import messages as m
from eca_protocol.peer import Handler
from eca_server.chat import Prompt, Turn
from eca_server.chat.agent import Agent
from eca_server.chat.instructions import (
    UnreadablePrompt,
    compact_prompt,
    instructions,
    own_prompt,
)
from eca_server.commands import (
    CommandFiles,
    MakeAgent,
    Situation,
    let_answer,
    login_prompt,
    matching_commands,
    named_command,
    run_command,
    ways_to_log_in,
)
from eca_server.config import Config
from eca_server.context import Built, build, query_contexts, read_instruction_files
from eca_server.features import tools
from eca_server.features.configuration import note_selection, select_behavior, tell_changes
from eca_server.features.connection import Connection
from eca_server.llm.backend import BackendError
from eca_server.llm.history import Message, TextPart
from eca_server.llm.models import Models
from eca_server.tools.approval import Policy, policy_of
from eca_server.tools.native import NativeTools
from eca_server.tools.permissions import Permissions
from eca_server.tools.toolbox import ServedTool

if TYPE_CHECKING:
    from eca_server.context.resources import ResourceReader
    from eca_server.mcp.manager import Manager

__all__ = ["handlers_of"]


def handlers_of(connection: Connection) -> Mapping[str, Handler]:
    """The chats' handlers."""

    def prompt(params: m.ChatPromptParams) -> m.ChatPromptResponse:
        return _prompt(connection, params)

    def prompt_stop(params: m.ChatPromptStopParams) -> None:
        chat = connection.chats.get(params.chat_id)
        if chat is not None:
            chat.stop()

    def delete(params: m.ChatDeleteParams) -> m.ChatDeleteResponse:
        connection.chats.delete(params.chat_id)
        return m.ChatDeleteResponse()

    def query_context(
        params: m.ChatQueryContextParams,
    ) -> m.ChatQueryContextResponse | Awaitable[m.ChatQueryContextResponse]:
        resources = _resources(connection, params)
        if not connection.session.roots and not params.query.strip():
            return m.ChatQueryContextResponse(chat_id=params.chat_id, contexts=resources)
        return query_contexts(
            params,
            index=connection.index,
            workspace=connection.workspace,
            resources=resources,
        )

    async def query_commands(
        params: m.ChatQueryCommandsParams,
    ) -> m.ChatQueryCommandsResponse:
        commands = await matching_commands(
            params.query, _command_files(connection), _mcp(connection)
        )
        return m.ChatQueryCommandsResponse(chat_id=params.chat_id, commands=commands)

    def behavior_selected(params: m.ChatSelectedBehaviorChanged) -> None:
        _select_behavior(connection, params.behavior)

    def agent_selected(params: m.ChatSelectedAgentChanged) -> None:
        _select_behavior(connection, params.agent)

    return {
        "chat/prompt": prompt,
        "chat/promptStop": prompt_stop,
        "chat/delete": delete,
        "chat/queryContext": query_context,
        "chat/queryCommands": query_commands,
        "chat/selectedBehaviorChanged": behavior_selected,
        "chat/selectedAgentChanged": agent_selected,
        **tools.handlers_of(connection),
    }


def _resources(
    connection: Connection, params: m.ChatQueryContextParams
) -> tuple[m.McpResourceContext, ...]:
    """The resources of MCP servers that fit what the user has typed."""
    if not connection.uses_mcp:
        return ()
    from eca_server.context.resources import matching_resources  # noqa: PLC0415 - only where needed

    return matching_resources(connection.mcp.running, params.query, params.contexts)


def _select_behavior(connection: Connection, name: str) -> None:
    """The user selected a behaviour: it counts from the next turn on (W-28)."""
    connection.behavior = name or connection.behavior
    if connection.is_introduced:
        note_selection(connection)
        tools.announce_tools(connection, select_behavior(connection))


def _prompt(connection: Connection, params: m.ChatPromptParams) -> m.ChatPromptResponse:
    """Register the turn and answer at once, whatever will become of it (W-21)."""
    behavior = select_behavior(connection, params.agent or params.behavior)
    model = params.model or connection.models.selected_in(behavior)
    connection.client_model = model

    chat = connection.chats.open(params.chat_id)
    login = login_prompt(
        params.message,
        awaited=chat.awaits_key_of,
        providers=ways_to_log_in(connection.config.providers),
    )
    chat.awaits_key_of = None if login is None else login.awaits_key_of

    async def make_agent(turn: Turn, text: str) -> Agent | None:
        return await _make_agent(
            connection, turn, text, contexts=params.contexts, model=model, behavior=behavior
        )

    async def body(turn: Turn) -> None:
        situation = _situation(connection, make_agent, behavior)
        if login is not None:
            await login.run(turn, situation)
        elif name := named_command(turn.prompt.text):
            await run_command(name, turn, situation)
        else:
            await let_answer(turn, situation, turn.prompt.text)

    text = params.message if login is None else login.shown
    chat.prompt(Prompt(text=text, body=body))
    return m.ChatPromptResponse(
        chat_id=chat.id,
        model=model,
        status="prompting" if chat.awaits_key_of is None else "login",
    )


def _situation(connection: Connection, make_agent: MakeAgent, behavior: str) -> Situation:
    def refresh_models() -> Models:
        connection.renew_models()
        tell_changes(connection)
        return connection.models

    return Situation(
        loaded=connection.loaded,
        models=connection.models,
        behavior=behavior,
        make_agent=make_agent,
        logins=connection.logins,
        refresh_models=refresh_models,
        http=connection.http,
        workspace=connection.workspace,
        gitignore=connection.follows_gitignore,
        command_files=_command_files(connection),
        memory=connection.chats.memory,
        mcp=_mcp(connection),
    )


def _mcp(connection: Connection) -> Manager | None:
    """The MCP servers, if any are configured: where none is, nothing of MCP is loaded."""
    return connection.mcp if connection.uses_mcp else None


def _command_files(connection: Connection) -> CommandFiles:
    named = (each.path for each in connection.config.commands)
    return CommandFiles(
        workspace=connection.workspace,
        user_folder=connection.user_folder,
        configured=tuple(path for path in named if path is not None),
    )


async def _make_agent(
    connection: Connection,
    turn: Turn,
    text: str,
    *,
    contexts: Sequence[m.ChatContext],
    model: str,
    behavior: str,
) -> Agent | None:
    """Who answers a text in a turn; None if the model cannot be asked, which was told.

    The configuration is looked at before the first wait: the turn keeps what it began with.
    """
    try:
        asked = connection.models.find(model)
    except BackendError as error:
        turn.fail(f"{model} cannot be asked: {error.message}.")
        return None

    async def gather() -> Built:
        return await build(
            contexts,
            text,
            workspace=connection.workspace,
            http=connection.http,
            resources=_resource_reader(connection, turn),
            gitignore=gitignore,
        )

    config, gitignore = connection.config, connection.follows_gitignore
    policy = policy_of(config, behavior)
    native = connection.tools(turn.chat.ledger)
    permissions = Permissions(
        policy=policy,
        workspace=connection.workspace,
        memos=connection.memos,
        variables=connection.child_variables,
    )
    if connection.is_introduced:
        tools.announce_tools(connection, behavior)
    system = await _system(connection, turn, config, behavior)
    served, more = await _of_servers(connection, turn, policy, native)
    return Agent(
        model=asked,
        asked=(Message(role="user", parts=(TextPart(text),)),),
        system=f"{system}\n\n{more}" if more else system,
        toolbox=native.toolbox(policy, served),
        permissions=permissions,
        wants_title=config.chat_title,
        compact_at=_compact_at(config, behavior),
        gather=gather,
        title_prompt=config.prompts.chat_title,
        compact_prompt=await _compact_prompt(turn, config),
    )


async def _of_servers(
    connection: Connection, turn: Turn, policy: Policy, native: NativeTools
) -> tuple[Sequence[ServedTool], str]:
    """The tools and the instructions of the MCP servers that run."""
    if not connection.uses_mcp:
        return (), ""
    from eca_server.features import mcp  # noqa: PLC0415 - only where one is configured

    await mcp.wait_for_servers(connection, turn)
    served = mcp.served_tools(connection, turn, policy, native.toolbox(policy))
    return served, mcp.instructions(connection)


def _resource_reader(connection: Connection, turn: Turn) -> ResourceReader | None:
    """What asks MCP servers for resources, if any are configured."""
    if not connection.uses_mcp:
        return None
    from eca_server.features import mcp  # noqa: PLC0415 - as above

    return mcp.ResourceReader(servers=connection.mcp, chat=turn.chat)


def _compact_at(config: Config, behavior: str) -> float:
    own = config.behaviors.get(behavior)
    if own is None or own.auto_compact_percentage is None:
        return config.auto_compact_percentage
    return own.auto_compact_percentage


async def _compact_prompt(turn: Turn, config: Config) -> str:
    try:
        return await compact_prompt(config)
    except UnreadablePrompt as fault:
        turn.say(str(fault), role="system")
        return ""


async def _system(connection: Connection, turn: Turn, config: Config, behavior: str) -> str:
    """The chat's instructions for a behaviour, AGENTS.md and rules, read once."""
    systems = turn.chat.systems
    if behavior not in systems:
        found = await read_instruction_files(
            connection.workspace,
            user_folder=connection.user_folder,
            rules=[rule.path for rule in config.rules if rule.path is not None],
            parents=config.include_parent_agents_files,
        )
        for note in found.notes:
            turn.say(note, role="system")
        try:
            own = await own_prompt(config, behavior)
        except UnreadablePrompt as fault:
            own = ""
            turn.say(str(fault), role="system")
        parts = (instructions(behavior, connection.session.roots, own), found.text)
        systems[behavior] = "\n\n".join(part for part in parts if part)
    return systems[behavior]
