"""The typed client for editors and scripts.

    async with eca_protocol.connect(command=["eca-server", "server"]) as client:
        chat = client.chat()
        async for content in chat.prompt("Hello"):
            print(content)

The rules it keeps: every wait has a deadline or ends with the connection, so that a dead or deaf
server is an exception and never a hang; a turn's inbox is bounded by bytes, past it the server
waits, unless a call of ours is pending; a stopped turn ends with the server's last word.
"""

from __future__ import annotations

from eca_protocol.client.chat import Chat, Turn
from eca_protocol.client.client import Client, Event
from eca_protocol.client.connecting import connect
from eca_protocol.client.request_handlers import (
    AskQuestionHandler,
    DefinitionHandler,
    DiagnosticsHandler,
    ReferencesHandler,
)

__all__ = [
    "AskQuestionHandler",
    "Chat",
    "Client",
    "DefinitionHandler",
    "DiagnosticsHandler",
    "Event",
    "ReferencesHandler",
    "Turn",
    "connect",
]
