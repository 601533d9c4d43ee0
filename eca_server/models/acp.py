"""The models that are ACP agents: their names, and the backend of requests that they refuse.

An agent answers the prompts of a chat, with tools of its own (`eca_server.agent.acp`). It has no
API for a single request, such as one for a title or a summary.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

import attrs

from eca_server.config import settings as configuration
from eca_server.config.settings import Config
from eca_server.models.backend import BackendError, Request
from eca_server.models.events import Event
from eca_server.models.facts import Capabilities
from eca_server.models.history import Origin

ACP: Final = "acp"
"""The API of a configured agent, and the provider of all of them: `acp/NAME`."""
AGENT_VARIABLE: Final = "ECA_ACP_AGENT"
"""Set for the agents: an ECA server among them has no agents itself, so that none starts itself."""


def acp_agents(config: Config, environ: Mapping[str, str]) -> dict[str, configuration.Model]:
    """Return the configured agents as models, by the names of their providers.

    A server that is such an agent itself has none.
    """
    every = () if AGENT_VARIABLE in environ else config.providers.items()
    return {name: configuration.Model() for name, each in every if each.api == ACP and each.command}


@attrs.frozen(kw_only=True)
class ACPBackend:
    """The backend of an agent, without requests outside of a chat's turns.

    Attributes:
        command: the program of the agent, and its arguments.
    """

    command: tuple[str, ...]
    origin: Origin
    capabilities: Capabilities = attrs.field(factory=Capabilities)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Refuse the request.

        Raises:
            BackendError: always.
        """
        raise BackendError("unsupported_feature", "an ACP agent answers only the prompts of a chat")
