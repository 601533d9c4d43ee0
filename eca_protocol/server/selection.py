"""The models and agents of a server, and the client's selection of them (W-11, W-28)."""

from __future__ import annotations

from typing import Any, Final

import attrs

from eca_protocol import messages as m
from eca_protocol.server.connected_client import ConnectedClient
from eca_protocol.server.declarations import Declarations

__all__ = ["Selection"]

_BUILT_IN: Final = frozenset({"agent", "build", "code"})
"""The names of the built-in agent, which are read as one (W-28)."""


@attrs.define
class _Selected:
    """The client's selection; empty: nothing is selected."""

    model: str = ""
    agent: str = ""


class Selection:
    """The selections of one client: for all chats, and for some."""

    def __init__(self, declarations: Declarations) -> None:
        self.client: ConnectedClient = ConnectedClient()
        self._declarations = declarations
        self._selections: dict[str | None, _Selected] = {None: _Selected()}

    def configuration(self) -> m.ChatConfig:
        """Return the models and agents, with the selected ones (W-11)."""
        agents = tuple(map(self.shown_agent, self._declarations.agents))
        model, agent = self.selected(None)
        behaviors: Any = agents
        return m.ChatConfig(
            models=tuple(self._declarations.models),
            behaviors=behaviors,
            agents=agents,
            select_model=model,
            select_behavior=self.shown_agent(agent),
            select_agent=self.shown_agent(agent),
            variants=(),
            select_variant="",
            welcome_message=self._declarations.welcome,
        )

    def shown_agent(self, name: str) -> Any:
        """Return the client's name of an agent (W-28)."""
        return self.client.built_in_agent if name in _BUILT_IN else name

    def known_agent(self, name: object) -> str:
        """Return the declared name of an agent, or an empty text."""
        names = _BUILT_IN if name in _BUILT_IN else {name}
        return next((each for each in self._declarations.agents if each in names), "")

    def selected(self, chat_id: str | None) -> tuple[str, str]:
        """Return the selected model and agent."""
        common, own = self._selections[None], self._selections.get(chat_id, _Selected())
        declared = self._declarations
        model = own.model or common.model or declared.models[0]
        return model, own.agent or common.agent or declared.agents[0]

    def select_agent(self, name: object, chat_id: str | None = None) -> None:
        """Select an agent for a chat, or for all; do nothing if it is unknown."""
        if agent := self.known_agent(name):
            self._selections.setdefault(chat_id, _Selected()).agent = agent

    def select_model(self, name: str, chat_id: str | None) -> bool:
        """Select a model for a chat, or for all; return False if it is unknown."""
        is_known = name in self._declarations.models
        if is_known:
            self._selections.setdefault(chat_id, _Selected()).model = name
        return is_known

    def forget(self, chat_id: str) -> None:
        """Remove the selection of a deleted chat."""
        self._selections.pop(chat_id, None)
