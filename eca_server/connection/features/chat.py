"""Prompts, and requests about chats (chapter "Code Assistant Features"; W-20 to W-23).

A handler translates, calls the chat and answers at once: before the next message is read, the turn
is registered, stopped or deleted.
"""

from __future__ import annotations

from collections.abc import Mapping

from eca_protocol.peer import Handler
from eca_server.connection.features import approvals, steering
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
    views, selecting = ChatViews(parts), Selecting(parts)
    requests = ChatRequests(parts, views)
    prompts = Prompts(parts, views, selecting, requests.delete)
    return {
        **prompts.handlers(),
        **InlinePrompts(parts, views, prompts).handlers(),
        **steering.make_handlers(prompts),
        **Queries(parts).handlers(),
        **selecting.handlers(),
        **requests.handlers(),
        **Rollbacks(parts, views).handlers(),
        **approvals.make_handlers(parts.session, parts.chats.get(), parts.approvals),
    }
