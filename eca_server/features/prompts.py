"""The handling of prompts: the turn, the named command, the command context (W-21)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import attrs

from eca_protocol import messages as m
from eca_protocol.errors import ConnectionClosed, DeadlineExceeded, DecodeError, RequestFailed
from eca_server.chat import Chat, Prompt, Turn
from eca_server.chat.agent import Agent
from eca_server.chat.title import shortened_title
from eca_server.chat.turn import Body
from eca_server.commands import (
    ChatActions,
    CommandContext,
    ask_model,
    login_flows,
    login_prompt,
    named_command,
    run_command,
    runs_without_model,
)
from eca_server.features import fork, selection
from eca_server.features.agents import make_agent
from eca_server.features.chats import delete_chat
from eca_server.features.configuration import tell_changes
from eca_server.features.connection import Connection
from eca_server.features.fork import messages_so_far
from eca_server.features.queries import command_files, mcp_of
from eca_server.features.selection import Chosen, choose, unknown_agent
from eca_server.llm.backend import BackendError
from eca_server.llm.models import Models
from eca_server.llm.simulator import DEFAULT
from eca_server.tools.ask_user import PATIENCE, client_asks_questions

__all__ = ["accept", "answer", "ask_aside", "begin_prompt", "command_context", "shown_text"]

_NO_MODEL = (
    "No model is configured. This answer comes from the built-in `simulator/echo`, which "
    "repeats what you write. To use a model, send `/login`, or set a key such as "
    "`ANTHROPIC_API_KEY` or `OPENAI_API_KEY` where the editor starts, or "
    "configure `providers` in `{}`."
)


@attrs.frozen
class Accepted:
    """A prompt whose model is chosen.

    Attributes:
        text: the displayed text.
        body: the function that answers it.
        needs_model: whether a model answers.
    """

    text: str
    body: Body
    needs_model: bool


def begin_prompt(connection: Connection, params: m.ChatPromptParams) -> m.ChatPromptResponse:
    """Register the turn and answer at once, even if the turn will fail (W-21)."""
    subagent = connection.chats.subagent(params.chat_id)
    if subagent is not None:
        subagent.refuse(params.message)
        model = params.model or subagent.worker.model
        return m.ChatPromptResponse(chat_id=subagent.id, model=model, status="error")
    chat = connection.chats.open(params.chat_id)
    if params.chat_id and chat.is_blank:
        connection.session.notify("chat/opened", m.ChatOpenedParams(chat_id=chat.id))
    accepted = accept(connection, chat, params)
    chat.prompt(Prompt(text=accepted.text, body=accepted.body))
    return answer(connection, chat, params, needs_model=accepted.needs_model)


def accept(connection: Connection, chat: Chat, params: m.ChatPromptParams) -> Accepted:
    """Choose the model and the command of a prompt."""
    chosen = choose(connection, chat, params)
    connection.client_model = chosen.model
    chat.set(model=chosen.model, variant=chosen.variant, behavior=chosen.behavior)
    if params.trust is not None:
        chat.set(trust=params.trust)
    login = login_prompt(
        params.message,
        awaited=chat.awaits_key_of,
        providers=login_flows(connection.config.providers),
    )
    chat.awaits_key_of = None if login is None else login.awaits_key_of

    async def body(turn: Turn) -> None:
        target = chosen
        name = None if login is not None else named_command(params.message)
        if login is None and not runs_without_model(name) and await _settle_trust(connection, turn):
            target = choose(connection, chat, params)
            chat.set(model=target.model, variant=target.variant, behavior=target.behavior)
        text = params.message if login is None else login.masked_text
        situation = _situation(connection, chat, params, target, text)
        if login is not None:
            await login.run(turn, situation)
        elif name:
            await run_command(name, turn, situation)
        else:
            if _lacks_a_model(connection, chat, target) and _is_an_editors(params):
                turn.say(_NO_MODEL.format(connection.user_directory / "config.json"), role="system")
            note = unknown_agent(connection, chat, params, target)
            if note and connection.session.is_first(f"{chat.id}: {note}"):
                turn.say(note, role="system")
            await ask_model(turn, situation, params.message)

    needs_model = login is None and named_command(params.message) is None
    return Accepted(params.message if login is None else login.masked_text, body, needs_model)


def shown_text(connection: Connection, message: str) -> str:
    """Return the displayed text of a new chat's first prompt, without a key in it."""
    providers = login_flows(connection.config.providers)
    login = login_prompt(message, awaited=None, providers=providers)
    return message if login is None else login.masked_text


def answer(
    connection: Connection, chat: Chat, params: m.ChatPromptParams, *, needs_model: bool
) -> m.ChatPromptResponse:
    """Return the answer to a prompt; its status is `error` if the model is unusable (W-21)."""
    model = choose(connection, chat, params).model
    status: m.ChatPromptStatus = "prompting"
    if chat.awaits_key_of is not None:
        status = "login"
    elif needs_model:
        try:
            connection.models.find(model)
        except BackendError:
            status = "error"
    return m.ChatPromptResponse(chat_id=chat.id, model=model, status=status)


async def ask_aside(connection: Connection, chat: Chat, question: str) -> Chat:
    """Ask a question in a fork of a chat that may be running (`/btw`)."""
    title = f"btw: {shortened_title(shown_text(connection, question))}"
    aside = await fork.fork_chat(connection, chat, messages_so_far(chat), title)
    begin_prompt(connection, _of_chat(aside, question))
    return aside


def command_context(connection: Connection, chat: Chat, text: str) -> CommandContext:
    """Return the context of a command that is sent to the running turn."""
    params = _of_chat(chat, text)
    return _situation(connection, chat, params, choose(connection, chat, params), text)


def _of_chat(chat: Chat, text: str) -> m.ChatPromptParams:
    """Return a prompt with the model, variant and agent of a chat's last one."""
    last = chat.settings
    return m.ChatPromptParams(
        chat_id=chat.id, message=text, model=last.model, variant=last.variant, agent=last.behavior
    )


async def _settle_trust(connection: Connection, turn: Turn) -> bool:
    """Ask about waiting settings of workspace folders; return whether the configuration changed."""
    before = connection.loaded
    if before.withheld:
        await connection.trust.settle(turn)
    return connection.loaded is not before


def _lacks_a_model(connection: Connection, chat: Chat, chosen: Chosen) -> bool:
    """Return whether the simulator gives a chat's first answer because no model is configured."""
    models, config = connection.models, connection.config
    return (
        chosen.model == models.selected == models.names[0] == DEFAULT
        and config.default_model is None
        and not chat.history
    )


def _is_an_editors(params: m.ChatPromptParams) -> bool:
    """Return whether an editor sent the prompt: editors name the agent, programs do not."""
    return bool(params.agent or params.behavior)


def _situation(
    connection: Connection, chat: Chat, params: m.ChatPromptParams, target: Chosen, text: str
) -> CommandContext:
    async def make_answerer(turn: Turn, text: str) -> Agent | None:
        contexts = params.contexts
        return await make_agent(connection, chat, turn, text, contexts=contexts, chosen=target)

    def refresh_models() -> Models:
        connection.renew_models()
        tell_changes(connection)
        return connection.models

    can_ask = client_asks_questions(connection.session)
    return CommandContext(
        text=text,
        chat=chat,
        loaded=connection.loaded,
        models=connection.models,
        model=target.model,
        behavior=target.behavior,
        make_agent=make_answerer,
        logins=connection.logins,
        refresh_models=refresh_models,
        http=connection.http,
        workspace=connection.workspace,
        gitignore=connection.follows_gitignore,
        command_files=command_files(connection),
        skill_files=connection.skill_files,
        ask_user=partial(_ask_user, connection) if can_ask else None,
        memory=connection.chats.memory,
        trust=connection.trust,
        mcp=mcp_of(connection),
        chats=_chat_actions(connection),
    )


def _chat_actions(connection: Connection) -> ChatActions:
    async def find_title(chat_id: str) -> str | None:
        chat = await connection.chats.find(chat_id)
        return None if chat is None else chat.title or chat.id

    knows_more_chats = connection.session.writes(m.ConfigUpdatedParams, "chat_id")
    return ChatActions(
        select_model=partial(selection.select_model, connection),
        select_agent=partial(selection.select_agent, connection),
        find_title=find_title,
        delete=partial(delete_chat, connection),
        begin=partial(fork.begin_chat, connection) if knows_more_chats else None,
        fork=partial(fork.fork_chat, connection) if knows_more_chats else None,
        ask_aside=partial(ask_aside, connection) if knows_more_chats else None,
    )


async def _ask_user(
    connection: Connection, chat: Chat, question: str, labels: Sequence[str]
) -> str | None:
    """Ask the user to choose one of these labels, and return it, or None without an answer."""
    params = m.ChatAskQuestionParams(
        chat_id=chat.id,
        question=question,
        options=tuple(m.ChatAskQuestionOption(label=label) for label in labels),
        allow_freeform=False,
    )
    try:
        answered: m.ChatAskQuestionResponse = await connection.session.request(
            "chat/askQuestion", params, deadline=PATIENCE
        )
    except (ConnectionClosed, DeadlineExceeded, DecodeError, RequestFailed):
        return None
    return None if answered.cancelled else answered.answer
