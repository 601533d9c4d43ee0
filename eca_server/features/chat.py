"""Prompts and what ends or steers them (chapter "Code Assistant Features"; W-20 to W-23).

A handler translates, calls the chat and answers in place: when the next message is looked at, the
turn is registered, stopped or deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from eca_protocol import messages as m
from eca_protocol.peer import Handler
from eca_server.chat import Chat, Prompt, Turn
from eca_server.chat.agent import Agent
from eca_server.commands import (
    MakeAgent,
    Situation,
    is_answered_alone,
    let_answer,
    login_prompt,
    named_command,
    run_command,
    ways_to_log_in,
)
from eca_server.features import chats, fork, queries, rollback, selection, tools
from eca_server.features.agents import make_agent
from eca_server.features.configuration import tell_changes
from eca_server.features.connection import Connection
from eca_server.features.queries import command_files, mcp_of
from eca_server.features.selection import Chosen, choose
from eca_server.llm.backend import BackendError
from eca_server.llm.models import Models

__all__ = ["handlers_of"]


def handlers_of(connection: Connection) -> Mapping[str, Handler]:
    """The chats' handlers."""

    def prompt(params: m.ChatPromptParams) -> m.ChatPromptResponse:
        return _prompt(connection, params)

    def prompt_stop(params: m.ChatPromptStopParams) -> None:
        chat = connection.chats.get(params.chat_id)
        if chat is not None:
            chat.stop()
        elif "rewrites" in vars(connection):
            connection.rewrites.stop(params.chat_id)

    def prompt_steer(params: m.ChatPromptSteerParams) -> None:
        chat = connection.chats.get(params.chat_id)
        if chat is not None:
            chat.steer(params.message)

    def prompt_steer_remove(params: m.ChatPromptSteerRemoveParams) -> None:
        chat = connection.chats.get(params.chat_id)
        if chat is not None:
            chat.drop_steers()

    return {
        "chat/prompt": prompt,
        "chat/promptStop": prompt_stop,
        "chat/promptSteer": prompt_steer,
        "chat/promptSteerRemove": prompt_steer_remove,
        **queries.handlers_of(connection),
        **selection.handlers_of(connection),
        **chats.handlers_of(connection),
        **fork.handlers_of(connection),
        **rollback.handlers_of(connection),
        **tools.handlers_of(connection),
    }


def _prompt(connection: Connection, params: m.ChatPromptParams) -> m.ChatPromptResponse:
    """Register the turn and answer at once, whatever will become of it (W-21)."""
    subagent = connection.chats.subagent(params.chat_id)
    if subagent is not None:
        subagent.refuse(params.message)
        model = params.model or subagent.worker.model
        return m.ChatPromptResponse(chat_id=subagent.id, model=model, status="error")
    chat = connection.chats.open(params.chat_id)
    if params.chat_id and chat.is_blank:
        connection.session.notify("chat/opened", m.ChatOpenedParams(chat_id=chat.id))
    chosen = choose(connection, chat, params)
    connection.client_model = chosen.model
    chat.set(model=chosen.model, variant=chosen.variant, behavior=chosen.behavior)
    if params.trust is not None:
        chat.set(trust=params.trust)
    login = login_prompt(
        params.message,
        awaited=chat.awaits_key_of,
        providers=ways_to_log_in(connection.config.providers),
    )
    chat.awaits_key_of = None if login is None else login.awaits_key_of

    async def body(turn: Turn) -> None:
        goes_to = chosen
        name = None if login is not None else named_command(turn.prompt.text)
        if login is None and not is_answered_alone(name) and await _settle_trust(connection, turn):
            goes_to = choose(connection, chat, params)
            chat.set(model=goes_to.model, variant=goes_to.variant, behavior=goes_to.behavior)

        async def answerer(turn: Turn, text: str) -> Agent | None:
            contexts = params.contexts
            return await make_agent(connection, turn, text, contexts=contexts, chosen=goes_to)

        situation = _situation(connection, answerer, goes_to.behavior)
        if login is not None:
            await login.run(turn, situation)
        elif name:
            await run_command(name, turn, situation)
        else:
            await let_answer(turn, situation, turn.prompt.text)

    text = params.message if login is None else login.shown
    chat.prompt(Prompt(text=text, body=body))
    needs_model = login is None and named_command(params.message) is None
    return m.ChatPromptResponse(
        chat_id=chat.id,
        model=chosen.model,
        status=_status(connection, chat, chosen, needs_model=needs_model),
    )


async def _settle_trust(connection: Connection, turn: Turn) -> bool:
    """Ask about settings of the opened folders that wait; whether the configuration changed."""
    before = connection.loaded
    if before.withheld:
        await connection.trust.settle(turn)
    return connection.loaded is not before


def _status(
    connection: Connection, chat: Chat, chosen: Chosen, *, needs_model: bool
) -> m.ChatPromptStatus:
    """How the prompt stands; `error` where no model can be asked (W-21)."""
    if chat.awaits_key_of is not None:
        return "login"
    if needs_model:
        try:
            connection.models.find(chosen.model)
        except BackendError:
            return "error"
    return "prompting"


def _situation(connection: Connection, make_agent: MakeAgent, behavior: str) -> Situation:
    def refresh_models() -> Models:
        connection.renew_models()
        tell_changes(connection)
        return connection.models

    knows_more_chats = connection.session.writes(m.ConfigUpdatedParams, "chat_id")
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
        command_files=command_files(connection),
        skill_files=connection.skill_files,
        select_model=partial(selection.select_model, connection),
        memory=connection.chats.memory,
        trust=connection.trust,
        mcp=mcp_of(connection),
        begin_chat=partial(fork.begin_chat, connection) if knows_more_chats else None,
        fork_chat=partial(fork.fork_chat, connection) if knows_more_chats else None,
    )
