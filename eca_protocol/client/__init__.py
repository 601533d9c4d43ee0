"""The typed client for editors and scripts.

    async with eca_protocol.connect(command=eca_protocol.SERVER_COMMAND) as client:
        chat = client.chat()
        async for content in chat.prompt("Hello"):
            print(content)

Every wait has a deadline or ends with the connection, so that a dead or unresponsive server raises
an exception. A turn's inbox has a limit in bytes; beyond it the server has to wait, unless one of
our calls is pending. While a task waits for a content of a turn or for an event, the limit is 64
times as high. A stopped turn ends with the server's last content.
"""

from __future__ import annotations

from eca_protocol.client.approvals import (
    ApprovalDecision,
    ApprovalHandler,
    OnApproval,
    Rejection,
)
from eca_protocol.client.chat import Chat, Turn
from eca_protocol.client.client import Client
from eca_protocol.client.connecting import (
    SERVER_COMMAND,
    ConnectionOptions,
    InProcessServer,
    connect,
)
from eca_protocol.client.events import Event, Events
from eca_protocol.client.request_handlers import (
    DefinitionHandler,
    DiagnosticsHandler,
    QuestionHandler,
    ReferencesHandler,
)

__all__ = [
    "SERVER_COMMAND",
    "ApprovalDecision",
    "ApprovalHandler",
    "Chat",
    "Client",
    "ConnectionOptions",
    "DefinitionHandler",
    "DiagnosticsHandler",
    "Event",
    "Events",
    "InProcessServer",
    "OnApproval",
    "QuestionHandler",
    "ReferencesHandler",
    "Rejection",
    "Turn",
    "connect",
]
