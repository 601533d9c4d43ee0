"""The selection of agent, model and variant, for one chat or for all (ruling W-28).

A prompt's own selection wins, then that of its chat, then the last one. A change applies from the
next turn on, and is not sent back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from eca_protocol import messages as m
from eca_protocol.peer import Handler
from eca_server.config import AGENT_ALIASES, Behavior
from eca_server.features import tools
from eca_server.features.configuration import (
    note_selection,
    select_behavior,
    tell_variants,
    variant_in_force,
)
from eca_server.features.connection import Connection
from eca_server.printable import printable_line

if TYPE_CHECKING:
    from eca_server.chat import Chat
    from eca_server.chat.outlet import Outlet

__all__ = ["Chosen", "choose", "make_handlers", "select_agent", "select_model", "unknown_agent"]


@attrs.frozen(kw_only=True)
class Chosen:
    """The target of a prompt: the model as `provider/model`, its variant, the behaviour."""

    model: str
    variant: str | None
    behavior: str


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handlers of selections."""

    def select(name: str, chat_id: str | None = None) -> None:
        if chat_id:
            chat = connection.chats.at(chat_id) or connection.chats.open(chat_id)
            chat.selection.behavior = name or chat.selection.behavior
            if not chat.history and not chat.is_busy and connection.is_introduced:
                _select_own_model(connection, chat)
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
        chats, chat_id = connection.chats, params.chat_id
        chat = (chats.at(chat_id) or chats.open(chat_id)) if chat_id else None
        before = choose(connection, chat)
        model = connection.models.canonical_name(params.model or before.model)
        variant = params.variant
        if variant is not None or model != before.model:
            variant = variant_in_force(connection, model, variant, before.behavior) or None
        if chat is None:
            connection.model, connection.variant = model, variant
            connection.client_model = model
        else:
            chat.selection.model, chat.selection.variant = model, variant
        if connection.is_introduced:
            is_own = variant == params.variant
            tell_variants(connection, model, variant, params.chat_id, is_own=is_own)

    return {
        "chat/selectedBehaviorChanged": behavior_selected,
        "chat/selectedAgentChanged": agent_selected,
        "chat/selectedModelChanged": model_selected,
    }


def _select_own_model(connection: Connection, chat: Outlet) -> None:
    """Select the own model and variant of a new chat's agent, and announce them.

    A chat with history keeps its model.
    """
    if not connection.session.writes(m.ConfigUpdatedParams, "chat_id"):
        return
    behavior = choose(connection, chat).behavior
    config = connection.config
    own = config.behaviors.get(behavior, Behavior())
    if own.default_model or config.default_model:
        chat.selection.model, chat.selection.variant = None, None
        model = connection.models.default_for(behavior)
    elif own.variant:
        model = choose(connection, chat).model
    else:
        return
    variant = variant_in_force(connection, model, None, behavior)
    chat.selection.model, chat.selection.variant = model, variant or None
    selected = m.ChatConfig(
        select_model=model,
        variants=connection.models.variants(model),
        select_variant=variant,
    )
    params = m.ConfigUpdatedParams(chat_id=chat.id, chat=selected)
    connection.session.notify("config/updated", params)


def choose(
    connection: Connection,
    chat: Outlet | None = None,
    params: m.ChatPromptParams | None = None,
) -> Chosen:
    """Return the target of a prompt; without `params`, that of a prompt without own selection."""
    prompt = params or m.ChatPromptParams(message="")
    own = None if chat is None else chat.selection
    behavior = select_behavior(
        connection, prompt.agent or prompt.behavior, None if own is None else own.behavior
    )
    selected = [(own.model, own.variant)] if own is not None and own.model else []
    if connection.model:
        selected.append((connection.model, connection.variant))
    first = selected[0][0] if selected else connection.models.default_for(behavior)
    model = connection.models.canonical_name(prompt.model or first)
    configured = connection.config.behaviors.get(behavior, Behavior()).variant
    variants = (variant for name, variant in selected if name == model)
    variant = prompt.variant or next(variants, configured)
    return Chosen(model=model, variant=variant, behavior=behavior)


def unknown_agent(
    connection: Connection, chat: Chat, params: m.ChatPromptParams, chosen: Chosen
) -> str:
    """Return a note that the requested agent cannot be selected, or an empty text."""
    names = (
        params.agent,
        params.behavior,
        chat.selection.behavior,
        connection.behavior,
        connection.initial_behavior,
    )
    requested = next((name for name in names if name is not None), None)
    agents = connection.config.selectable_behaviors
    if requested is None or AGENT_ALIASES.get(requested, requested) in agents:
        return ""
    known = ", ".join(f"`{name}`" for name in agents)
    return (
        f"The agent `{printable_line(str(requested), longest=80)}` does not exist, or cannot be "
        f"selected: `{chosen.behavior}` answers instead. Available agents: {known}."
    )


def select_model(connection: Connection, chat: Chat, model: str) -> None:
    """Select a model for the client, and announce it, because each prompt of the client names one.

    A client with one selection for all chats gets it for all of them.
    """
    chat.set(model=model, variant=None)
    variants = connection.models.variants(model)
    if connection.session.writes(m.ConfigUpdatedParams, "chat_id"):
        chat.selection.model, chat.selection.variant = model, None
        selected = m.ChatConfig(select_model=model, variants=variants, select_variant="")
        scope: str | None = chat.id
    else:
        connection.model, connection.variant = model, None
        connection.client_model = model
        scope, selected = None, m.ChatConfig(select_model=model)
    params = m.ConfigUpdatedParams(chat_id=scope, chat=selected)
    connection.session.notify("config/updated", params)


def select_agent(connection: Connection, chat: Chat, agent: str) -> None:
    """Select an agent for the client, and announce it; model and variant stay.

    A client with one selection for all chats gets it for all of them.
    """
    has_own = connection.session.writes(m.ConfigUpdatedParams, "chat_id")
    if has_own:
        before = choose(connection, chat)
        chat.selection.behavior = agent
        chat.selection.model, chat.selection.variant = before.model, before.variant
        agent_name = connection.session.profile.agent_name(agent)
        scope, selected = chat.id, m.ChatConfig(select_agent=agent_name)
    else:
        connection.behavior = agent
        note_selection(connection)
        tools.announce_tools(connection, agent)
        behavior = m.UnknownValue(agent)
        scope, selected = None, m.ChatConfig(select_agent=agent, select_behavior=behavior)
    params = m.ConfigUpdatedParams(chat_id=scope, chat=selected)
    connection.session.notify("config/updated", params)
