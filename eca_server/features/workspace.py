"""The user's project has other folders than at the start.

The rule it keeps: what is asked from now on sees the new folders, a turn that runs keeps its own;
chats stay where they were kept. Temporary files of killed servers are removed from what is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import trio

from eca_protocol.messages import WorkspaceDidChangeWorkspaceFoldersParams, WorkspaceFolder
from eca_protocol.peer import Handler
from eca_server.features.configuration import put_in_force
from eca_server.features.connection import Connection
from eca_server.workspace import parse_roots, path_of

__all__ = ["handlers_of", "remove_leftovers"]


def handlers_of(connection: Connection) -> Mapping[str, Handler]:
    """The workspace's handler."""

    def folders_changed(params: WorkspaceDidChangeWorkspaceFoldersParams) -> None:
        added, problems = parse_roots(params.event.added)
        for problem in problems:
            connection.session.show("warning", problem)
        gone = set(_paths(params.event.removed))
        left = [root for root in connection.session.roots if root.path not in gone]
        before = {root.path for root in left}
        roots = (*left, *(root for root in added if root.path not in before))
        if roots != connection.session.roots:
            connection.change_roots(roots)
            connection.nursery.start_soon(_reload, connection)
            connection.nursery.start_soon(remove_leftovers, connection)

    return {"workspace/didChangeWorkspaceFolders": folders_changed}


async def remove_leftovers(connection: Connection) -> None:
    """Remove the temporary files of killed servers; those too young, a little later."""
    temporaries = connection.temporaries
    roots = [root.real_path for root in connection.session.roots]
    if not temporaries.directory.is_dir():
        return
    clean = partial(trio.to_thread.run_sync, temporaries.clean, roots, abandon_on_cancel=True)
    if await clean():
        from eca_server.workspace.temporary_files import MIN_AGE  # noqa: PLC0415 - seldom needed

        await trio.sleep(MIN_AGE)
        await clean()


def _paths(folders: Iterable[WorkspaceFolder]) -> Iterator[Path]:
    """Where folders are, or have been."""
    for folder in folders:
        with suppress(ValueError):
            yield Path(path_of(folder.uri))


async def _reload(connection: Connection) -> None:
    """Let the configuration of the folders count."""
    async with connection.changing.place():
        load = partial(connection.load, before=connection.loaded)
        put_in_force(connection, await trio.to_thread.run_sync(load))
