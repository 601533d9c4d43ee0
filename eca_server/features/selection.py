"""What the user selects: agent, model and variant, for one chat or for all of them (ruling W-28).

The rules it keeps: what a prompt names wins, then what was selected for its chat, then what was
selected last; a change counts from the next turn on, and is not sent back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from eca_protocol import messages as m
from eca_protocol.peer import Handler
from eca_server.config import Behavior
from eca_server.features import tools
from eca_server.features.configuration import note_selection, select_behavior, tell_variants
from eca_server.features.connection import Connection

if TYPE_CHECKING:
    from eca_server.chat import Chat

__all__ = ["Chosen", "choose", "handlers_of", "select_model"]


@attrs.frozen(kw_only=True)
class Chosen:
    """What a prompt goes to: the model as `provider/model`, its variant, the behaviour."""

    model: str
    variant: str | None
    behavior: str


def handlers_of(connection: Connection) -> Mapping[str, Handler]:
    """The handlers of selections."""

    def select(name: str, chat_id: str | None = None) -> None:
        if chat_id:
            chat = connection.chats.open(chat_id)
            chat.selection.behavior = name or chat.selection.behavior
            return
        connection.behavior = name or connection.behavior
        if connection.is_introduced:
            note_selection(connection)
            tools.announce_tools(connection, select_behavior(connection))

    def behavior_selected(params: m.ChatSelectedBehaviorChanged) -> None:
        select(params.behavior)

    def agent_selected(params: m.ChatSelectedAgentChanged) -> None:
        select(params.agent, params.chat_id)

    def model_selected(params: m.ChatSelectedModelChanged) -> None:
        chat = connection.chats.open(params.chat_id) if params.chat_id else None
        model = params.model or choose(connection, chat).model
        if chat is None:
            connection.model, connection.variant = model, params.variant
            connection.client_model = model
        else:
            chat.selection.model, chat.selection.variant = model, params.variant
        if connection.is_introduced:
            tell_variants(connection, model, params.chat_id)

    return {
        "chat/selectedBehaviorChanged": behavior_selected,
        "chat/selectedAgentChanged": agent_selected,
        "chat/selectedModelChanged": model_selected,
    }


def choose(
    connection: Connection, chat: Chat | None = None, params: m.ChatPromptParams | None = None
) -> Chosen:
    """What a prompt goes to; without `params` one that names nothing itself."""
    prompt = params or m.ChatPromptParams(message="")
    own = None if chat is None else chat.selection
    behavior = select_behavior(
        connection, prompt.agent or prompt.behavior, None if own is None else own.behavior
    )
    selected = [(own.model, own.variant)] if own is not None and own.model else []
    if connection.model:
        selected.append((connection.model, connection.variant))
    first = selected[0][0] if selected else connection.models.selected_in(behavior)
    model = prompt.model or first
    configured = connection.config.behaviors.get(behavior, Behavior()).variant
    variants = (variant for name, variant in selected if name == model)
    variant = prompt.variant or next(variants, configured)
    return Chosen(model=model, variant=variant, behavior=behavior)


def select_model(connection: Connection, chat: Chat, model: str) -> None:
    """Select a model in the client's place, and tell it, for it names one with each prompt.

    A client that has one selection for all of its chats gets it for all of them.
    """
    chat.set(model=model, variant=None)
    variants = connection.models.variants(model)
    if connection.session.writes(m.ConfigUpdatedParams, "chat_id"):
        chat.selection.model, chat.selection.variant = model, None
        scope, selected = chat.id, m.ChatConfig(select_model=model, variants=variants)
    else:
        connection.model, connection.variant = model, None
        connection.client_model = model
        scope, selected = None, m.ChatConfig(select_model=model)
    params = m.ConfigUpdatedParams(chat_id=scope, chat=selected)
    connection.session.notify("config/updated", params)
