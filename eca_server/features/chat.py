"""Prompts, and requests about chats (chapter "Code Assistant Features"; W-20 to W-23).

A handler translates, calls the chat and answers at once: before the next message is read, the turn
is registered, stopped or deleted.
"""

from __future__ import annotations

from collections.abc import Mapping

from eca_protocol import messages as m
from eca_protocol.peer import Handler
from eca_server.features import approvals
from eca_server.features.chat_views import ChatViews
from eca_server.features.chats import ChatRequests
from eca_server.features.composition import Composition
from eca_server.features.fork import Forks
from eca_server.features.inline import InlinePrompts
from eca_server.features.prompts import Prompts
from eca_server.features.queries import Queries
from eca_server.features.rollback import Rollbacks
from eca_server.features.selecting import Selecting
from eca_server.features.steering import Steering

__all__ = ["make_handlers"]


def make_handlers(parts: Composition) -> Mapping[str, Handler]:
    """Return the handlers of chats."""
    session, settings, models, chats = (
        parts.session,
        parts.settings,
        parts.models,
        parts.chats.get(),
    )
    selection, announcer = parts.selection, parts.announcer
    views = ChatViews(session, settings, selection, parts.tools.get(), chats)
    requests = ChatRequests(
        session, models, selection, announcer, parts.hooks.get(), parts.jobs, chats, views
    )
    selecting = Selecting(session, settings, models, selection, announcer, chats)
    forks = Forks(models, chats, views)
    prompts = Prompts(
        session,
        settings,
        models,
        selection,
        parts.folders,
        announcer,
        chats,
        parts.agents.get(),
        forks,
        selecting,
        parts.logins.get(),
        parts.host.http,
        parts.trust.get(),
        lambda: parts.servers,
        requests.delete,
    )
    return {
        "chat/prompt": prompts.begin,
        "chat/promptStop": _make_stop(parts),
        **InlinePrompts(session, settings, models, chats, prompts).handlers(),
        **Steering(chats, prompts, parts.host.nursery).handlers(),
        **Queries(session, parts.folders, lambda: parts.servers).handlers(),
        **selecting.handlers(),
        **requests.handlers(),
        **forks.handlers(),
        **Rollbacks(session, chats, views).handlers(),
        **approvals.make_handlers(chats, parts.approvals),
    }


def _make_stop(parts: Composition) -> Handler:
    chats = parts.chats.get()

    def prompt_stop(params: m.ChatPromptStopParams) -> None:
        chat = chats.get(params.chat_id)
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
