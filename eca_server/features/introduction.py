"""What a client is told before its first prompt, once it has said `initialized` (ruling W-11)."""

from __future__ import annotations

from collections.abc import Mapping

from eca_protocol.messages import InitializedParams, ProgressParams
from eca_protocol.peer import Handler
from eca_server.features.configuration import Watcher, tell_offer, tell_problems, unlock_logins
from eca_server.features.connection import Connection, Told
from eca_server.features.discovery import discover

__all__ = ["handlers_of"]

START_TASK = "eca-start"


def handlers_of(connection: Connection) -> Mapping[str, Handler]:
    """The introduction's handler."""

    def initialized(_: InitializedParams) -> None:
        _introduce(connection)

    return {"initialized": initialized}


def _introduce(connection: Connection) -> None:
    session = connection.session
    title = "Starting ECA"
    connection.told = Told()
    session.notify("$/progress", ProgressParams(type="start", task_id=START_TASK, title=title))
    tell_offer(connection)
    session.notify("$/progress", ProgressParams(type="finish", task_id=START_TASK, title=title))
    for notice in connection.notices:
        session.show("warning", notice)
    tell_problems(connection)
    connection.follow_mcp_servers()
    if connection.config.keyring:
        connection.nursery.start_soon(unlock_logins, connection)
    if connection.options.discovers:
        connection.nursery.start_soon(discover, connection)
    if connection.options.watch_seconds is not None:
        watcher = Watcher(connection)
        connection.nursery.start_soon(watcher.run, connection.options.watch_seconds)
