"""One module per chapter of the protocol: translate, call the room that does it, answer."""

from __future__ import annotations

from eca_protocol.peer import Handler
from eca_server.features import chat, lifecycle
from eca_server.features.connection import Connection, Options

__all__ = ["Connection", "Options", "handlers_of"]


def handlers_of(connection: Connection) -> dict[str, Handler]:
    """The handler of every method this server serves, by the method's name."""
    return {**lifecycle.handlers_of(connection), **chat.handlers_of(connection)}
