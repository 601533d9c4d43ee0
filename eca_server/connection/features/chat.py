"""Prompts, and requests about chats (chapter "Code Assistant Features"; W-20 to W-23).

A handler translates, calls the chat and answers at once: before the next message is read, the turn
is registered, stopped or deleted.
"""

from __future__ import annotations

from collections.abc import Mapping

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.peer import Handler
from eca_server.connection.features import approvals, steering
from eca_server.connection.features.agents import Agents
from eca_server.connection.features.chat_views import ChatViews
from eca_server.connection.features.chats import ChatRequests
from eca_server.connection.features.composition import Composition
from eca_server.connection.features.inline import InlinePrompts
from eca_server.connection.features.prompts import Prompts
from eca_server.connection.features.queries import Queries
from eca_server.connection.features.rollback import Rollbacks
from eca_server.connection.features.selecting import Selecting


def make_handlers(parts: Composition) -> Mapping[str, Handler]:
    """Return the handlers of chats."""
    session, settings, models = parts.session, parts.settings, parts.models
    selection, announcer, chats = parts.selection, parts.announcer, parts.chats.get()
    views = ChatViews(session, settings, selection, parts.tools, chats)
    requests = ChatRequests(
        session, models, selection, announcer, parts.hooks, parts.jobs, chats, views
    )
    selecting = Selecting(session, settings, models, selection, announcer, chats, parts.learn_modes)
    agents = Agents(
        session,
        settings,
        models,
        parts.folders,
        announcer,
        parts.tools,
        parts.approvals,
        parts.hooks,
        parts.jobs,
        parts.servers,
        parts.host.http,
        parts.acp,
        parts.subagents,
        chats.working_subagents,
    )
    prompts = Prompts(
        session,
        settings,
        models,
        selection,
        parts.folders,
        announcer,
        chats,
        agents,
        views,
        selecting,
        parts.logins.get(),
        parts.host.http,
        parts.trust,
        parts.servers,
        requests.delete,
    )
    return {
        **methods.handlers(
            methods.CHAT_PROMPT.handled_by(prompts.begin),
            methods.CHAT_PROMPT_STOP.handled_by(_make_stop(parts)),
        ),
        **InlinePrompts(settings, models, chats, views, prompts).handlers(),
        **steering.make_handlers(chats, prompts, parts.host.nursery),
        **Queries(
            session, settings, parts.folders, parts.servers, parts.repeat_announcements
        ).handlers(),
        **selecting.handlers(),
        **requests.handlers(),
        **Rollbacks(session, chats, views).handlers(),
        **approvals.make_handlers(session, chats, parts.approvals),
    }


def _make_stop(parts: Composition) -> Handler:
    chats = parts.chats.get()

    def prompt_stop(params: m.ChatPromptStopParams) -> None:
        chat = chats.at(params.chat_id)
        was_busy = chat is not None and chat.is_busy
        if chat is not None:
            chat.stop()
        elif parts.editing.made is not None:
            parts.editing.made.rewrites.stop(params.chat_id)
        if not was_busy:
            # A client whose server was restarted waits for the end of a lost turn (W-22).
            idle = m.ChatStatusChangedParams(chat_id=params.chat_id, status="idle")
            parts.session.notify("chat/statusChanged", idle)

    return prompt_stop
