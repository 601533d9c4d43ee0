"""The connected client, as a server sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from eca_protocol import messages as m
from eca_protocol.revisions import EVER, Revision, window_of
from eca_protocol.server.roots import Root

__all__ = ["ConnectedClient", "asks_questions", "writes"]

DRAFT_SECONDS = 60.0
"""The limit of the wait for a decision that the client's edition has no message for (W-52)."""

_PREFIX = "eca_"


def writes(revision: Revision, model: type[Any], field: str) -> bool:
    """Return whether a field of a message is written in a revision."""
    return window_of(attrs.fields_dict(model)[field].metadata).written_in(revision)


def asks_questions(capabilities: m.ClientCapabilities, revision: Revision) -> bool:
    """Return whether a client can show questions, in an edition that has them."""
    assistant = capabilities.code_assistant
    chat = assistant.chat_capabilities if assistant else None
    has_capability = bool(chat and chat.ask_question)
    return has_capability and writes(revision, m.CodeAssistantCapabilities, "chat_capabilities")


@attrs.frozen(kw_only=True)
class ConnectedClient:
    """A client.

    Attributes:
        info: its name and version.
        capabilities: what it can answer.
        revision: the edition of the connection.
        roots: the directories of the workspace.
    """

    info: m.ClientInfo = attrs.field(factory=m.ClientInfo)
    capabilities: m.ClientCapabilities = attrs.field(factory=m.ClientCapabilities)
    revision: Revision = Revision.R2025_10
    roots: tuple[Root, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The directories of the workspace."""
        return tuple(root.path for root in self.roots)

    @property
    def approval_seconds(self) -> float | None:
        """The limit of the wait for an approval; None: the turn owns the wait."""
        return None if EVER.holds(self.revision) else DRAFT_SECONDS

    @property
    def has_variants(self) -> bool:
        """True if the edition has variants of models."""
        return writes(self.revision, m.ChatConfig, "variants")

    def tool_name(self, name: str) -> str:
        """Return the client's name of a tool: until 2025-10 it has a prefix (W-33)."""
        bare = name.removeprefix(_PREFIX)
        return bare if self.has_variants else f"{_PREFIX}{bare}"

    @property
    def built_in_agent(self) -> str:
        """The client's name of the built-in agent (W-28)."""
        return "code" if self.has_variants else "agent"
