"""The selection of agent, model and variant, for one chat and for all (ruling W-28).

A prompt's own selection wins, then that of its chat, then the last one. A change applies from the
next turn on.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import attrs

from eca_protocol import messages as m
from eca_server.config.agent_settings import AGENT_ALIASES, Behavior
from eca_server.connection.features.current_models import CurrentModels
from eca_server.connection.features.settings import Settings

if TYPE_CHECKING:
    from eca_server.agent.chat import Chat
    from eca_server.agent.chat.outlet import Outlet


@attrs.frozen(kw_only=True)
class Chosen:
    """The target of a prompt: the model as `provider/model`, its variant, the behaviour."""

    model: str
    variant: str | None
    behavior: str


@attrs.define(eq=False)
class Selection:
    """The client's selection for all chats, and for each chat in its `selection`.

    Attributes:
        model: the model that the user selected last for all chats, or None.
        variant: the variant of that model, or None.
        behavior: the behaviour that the user selected last for all chats, or None.
        initial_behavior: the behaviour in `initializationOptions`, or None.
        client_model: the model selected in the client, from announcements and its prompts.
        lost_model: the model that the user chose last, while it is not offered and the client has
            the one that was announced in its place; None: the user has chosen since.
    """

    settings: Settings
    models: CurrentModels
    model: str | None = None
    variant: str | None = None
    behavior: str | None = None
    initial_behavior: str | None = None
    client_model: str | None = None
    lost_model: str | None = None

    def select_model(self, chat: Outlet | None, model: str, variant: str | None) -> None:
        """Select a model and its variant for a chat, or for all."""
        self.lost_model = None
        if chat is not None:
            chat.selection.model, chat.selection.variant = model, variant
        else:
            self.model, self.variant = model, variant
            self.client_model = model

    def note_prompt(self, model: str) -> None:
        """Record the model of a prompt as that of the client."""
        if model != self.client_model:
            self.client_model, self.lost_model = model, None

    def replace_lost(self, offered: Collection[str], announced: Collection[str]) -> bool:
        """Record that the client's model is not offered now, if it was announced.

        Returns:
            True if the client needs a different model.
        """
        is_lost = self.client_model in announced and self.client_model not in offered
        if is_lost and self.lost_model is None:
            self.lost_model = self.client_model
        return is_lost

    def regain(self, offered: Collection[str]) -> str | None:
        """Return the lost model, once, if it is offered again; else None."""
        if self.lost_model not in offered:
            return None
        regained, self.lost_model = self.lost_model, None
        return regained

    def restore(self, chat: Chat) -> None:
        """Select the model, variant and agent of a chat's last prompt, as far as they exist."""
        stored, selected = chat.settings, chat.selection
        if selected.model is None:
            selected.model, selected.variant = stored.model, stored.variant
        if selected.model not in self.models.current.names:
            selected.model, selected.variant = None, None
        selected.behavior = selected.behavior or stored.behavior

    def behavior_in_force(self, *requested: str | None) -> str:
        """Return the behaviour in force, the first selectable one of several candidates.

        These are `requested`, the last selected, the client's initial and the configured one.
        """
        config = self.settings.config
        selectable = config.selectable_behaviors
        candidates = (*requested, self.behavior, self.initial_behavior, config.default_behavior)
        ours = (AGENT_ALIASES.get(name, name) for name in candidates if name is not None)
        return next((name for name in ours if name in selectable), selectable[0])

    def variant_in_force(
        self, model: str, selected: str | None, behavior: str | None = None
    ) -> str:
        """Return a model's variant: the selected one, else the agent's own, else an empty text."""
        own = self.own_settings(behavior or self.behavior_in_force()).variant
        variants = self.models.current.variants(model)
        return next((each for each in (selected, own) if each in variants), "")

    def own_settings(self, behavior: str) -> Behavior:
        """Return the settings of a behaviour."""
        return self.settings.config.behaviors.get(behavior, Behavior())

    def choose(
        self, chat: Outlet | None = None, params: m.ChatPromptParams | None = None
    ) -> Chosen:
        """Return the target of a prompt; without `params`, of a prompt without own selection.

        An empty variant in `params` means none.
        """
        prompt = params or m.ChatPromptParams(message="")
        own = None if chat is None else chat.selection
        behavior = self.behavior_in_force(
            prompt.agent or prompt.behavior, None if own is None else own.behavior
        )
        selected = [(own.model, own.variant)] if own is not None and own.model else []
        if self.model:
            selected.append((self.model, self.variant))
        models = self.models.current
        first = selected[0][0] if selected else models.default_for(behavior)
        model = models.canonical_name(prompt.model or first)
        configured = self.own_settings(behavior).variant
        variants = (variant for name, variant in selected if name == model)
        variant = next(variants, configured) if prompt.variant is None else prompt.variant
        return Chosen(model=model, variant=variant or None, behavior=behavior)

    def unknown_agent(self, chat: Chat, params: m.ChatPromptParams) -> str | None:
        """Return the requested agent if it cannot be selected, or None."""
        own = chat.selection.behavior
        names = (params.agent, params.behavior, own, self.behavior, self.initial_behavior)
        requested = next((name for name in names if name is not None), None)
        selectable = self.settings.config.selectable_behaviors
        is_known = requested is None or AGENT_ALIASES.get(requested, requested) in selectable
        return None if is_known else requested
