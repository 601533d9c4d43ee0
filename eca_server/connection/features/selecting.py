"""Selections of agent, model and variant, by the client or by a command (ruling W-28).

A selection of the client is not sent back.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.peer import Handler
from eca_server.agent.chat import Chat
from eca_server.agent.chat.outlet import Outlet
from eca_server.connection.features.composition import Feature


class Selecting(Feature):
    """The selections that the client or a command makes."""

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of selections."""

        def behavior_selected(params: m.ChatSelectedBehaviorChanged) -> None:
            self._agent_selected(params.behavior, None)

        def agent_selected(params: m.ChatSelectedAgentChanged) -> None:
            self._agent_selected(params.agent, params.chat_id)

        return methods.handlers(
            methods.CHAT_SELECTED_BEHAVIOR_CHANGED.handled_by(behavior_selected),
            methods.CHAT_SELECTED_AGENT_CHANGED.handled_by(agent_selected),
            methods.CHAT_SELECTED_MODEL_CHANGED.handled_by(self._model_selected),
        )

    def select_model(self, chat: Chat, model: str) -> None:
        """Select a model for the client, and announce it, because each of its prompts names one.

        A client with one selection for all chats gets it for all of them.
        """
        chat.set(model=model, variant=None)
        selected = m.ChatConfig(select_model=model)
        if self.session.has_selections_of_chats:
            variants = self.models.current.variants(model)
            selected = attrs.evolve(selected, variants=variants, select_variant="")
        self._select_for_client(chat, model, None, selected)

    def select_agent(self, chat: Chat, agent: str) -> None:
        """Select an agent for the client, and announce it; model and variant stay.

        A client with one selection for all chats gets it for all of them.
        """
        if self.session.has_selections_of_chats:
            before = self.selection.choose(chat)
            chat.selection.behavior = agent
            selected = m.ChatConfig(select_agent=self.session.profile.agent_name(agent))
            self._select_for_client(chat, before.model, before.variant, selected)
        else:
            self._select_agent_for_all(agent)
            behavior = m.UnknownValue(agent)
            selected = m.ChatConfig(select_agent=agent, select_behavior=behavior)
            self.announcer.announce_selection(selected, None)

    def _select_for_client(
        self, chat: Chat, model: str, variant: str | None, selected: m.ChatConfig
    ) -> None:
        scope = chat if self.session.has_selections_of_chats else None
        self.selection.select_model(scope, model, variant)
        self.announcer.announce_selection(selected, None if scope is None else scope.id)

    def _agent_selected(self, name: str, chat_id: str | None) -> None:
        if not chat_id:
            self._select_agent_for_all(name or self.selection.behavior)
            return
        chat = self.chats.at(chat_id) or self.chats.open(chat_id)
        chat.selection.behavior = name or chat.selection.behavior
        if not chat.history and not chat.is_busy and self.announcer.is_introduced:
            self._select_own_model(chat)

    def _select_agent_for_all(self, agent: str | None) -> None:
        self.selection.behavior = agent
        if self.announcer.is_introduced:
            self.announcer.note_selection()
            self.announcer.announce_tools(self.selection.behavior_in_force())

    def _model_selected(self, params: m.ChatSelectedModelChanged) -> None:
        chats, chat_id = self.chats, params.chat_id
        chat = (chats.at(chat_id) or chats.open(chat_id)) if chat_id else None
        before = self.selection.choose(chat)
        model = self.models.current.canonical_name(params.model or before.model)
        variant = params.variant
        if variant is not None or model != before.model:
            variant = self.selection.variant_in_force(model, variant, before.behavior) or None
        self.selection.select_model(chat, model, variant)
        self.parts.learn_modes(model)
        if self.announcer.is_introduced:
            is_own = variant == params.variant
            self.announcer.announce_variants(model, variant, params.chat_id, is_own=is_own)

    def _select_own_model(self, chat: Outlet) -> None:
        """Select the own model and variant of a new chat's agent, and announce them.

        A chat with history keeps its model.
        """
        if not self.session.has_selections_of_chats:
            return
        chosen, config = self.selection.choose(chat), self.settings.config
        own = self.selection.own_settings(chosen.behavior)
        model = chosen.model
        if own.default_model or config.default_model:
            model = self.models.current.default_for(chosen.behavior)
        elif not own.variant:
            return
        variant = self.selection.variant_in_force(model, None, chosen.behavior)
        self.selection.select_model(chat, model, variant or None)
        selected = m.ChatConfig(
            select_model=model, variants=self.models.current.variants(model), select_variant=variant
        )
        self.announcer.announce_selection(selected, chat.id)
