"""The introduction: announcements to the client after `initialized` (ruling W-11)."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from eca_protocol.messages import InitializedParams, ProgressParams
from eca_protocol.peer import Handler
from eca_server.features.configuration import Watcher, tell_offer, tell_problems, unlock_logins
from eca_server.features.connection import AnnouncedState, Connection
from eca_server.features.discovery import discover
from eca_server.features.hooks import begin_session
from eca_server.features.workspace import remove_leftovers

__all__ = ["make_handlers"]

START_TASK = "eca-start"

KEYRING_SECONDS = 2.0
"""Longest wait of servers and problem reports for the keyring, which may ask the user."""


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handler of `initialized`."""

    def initialized(_: InitializedParams) -> None:
        _introduce(connection)

    return {"initialized": initialized}


def _begin(connection: Connection) -> None:
    tell_problems(connection)
    connection.follow_mcp_servers()


async def _begin_with_keyring(connection: Connection) -> None:
    """Begin after a short wait for the system's keyring, to which settings may refer."""
    is_open = trio.Event()

    async def unlock() -> None:
        await unlock_logins(connection)
        is_open.set()

    connection.nursery.start_soon(unlock)
    with trio.move_on_after(KEYRING_SECONDS):
        await is_open.wait()
    _begin(connection)


def _introduce(connection: Connection) -> None:
    session = connection.session
    title = "Starting ECA"
    connection.announced = AnnouncedState()
    session.notify("$/progress", ProgressParams(type="start", task_id=START_TASK, title=title))
    tell_offer(connection)
    session.notify("$/progress", ProgressParams(type="finish", task_id=START_TASK, title=title))
    for notice in connection.notices:
        session.show("warning", notice)
    begin_session(connection)
    connection.nursery.start_soon(remove_leftovers, connection)
    if connection.config.keyring:
        connection.nursery.start_soon(_begin_with_keyring, connection)
    else:
        _begin(connection)
    if connection.options.discovers:
        connection.nursery.start_soon(discover, connection)
    if connection.options.watch_seconds is not None:
        watcher = Watcher(connection)
        connection.nursery.start_soon(watcher.run, connection.options.watch_seconds)
