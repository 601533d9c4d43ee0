"""Changes of the workspace folders.

New requests use the new folders, a running turn keeps its own, and chats stay in their storage.
Temporary files of killed servers are removed from opened folders.
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

__all__ = ["make_handlers", "remove_leftovers"]


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handler of workspace changes."""

    def folders_changed(params: WorkspaceDidChangeWorkspaceFoldersParams) -> None:
        added, problems = parse_roots(params.event.added)
        for problem in problems:
            connection.session.show("warning", problem)
        removed = set(_paths(params.event.removed))
        remaining = [root for root in connection.session.roots if root.path not in removed]
        before = {root.path for root in remaining}
        roots = (*remaining, *(root for root in added if root.path not in before))
        if roots != connection.session.roots:
            connection.change_roots(roots)
            connection.nursery.start_soon(_reload, connection)
            connection.nursery.start_soon(remove_leftovers, connection)

    return {"workspace/didChangeWorkspaceFolders": folders_changed}


async def remove_leftovers(connection: Connection) -> None:
    """Remove the temporary files of killed servers; wait for those that are too young."""
    temporaries = connection.temporary_files
    roots = [root.real_path for root in connection.session.roots]
    if not temporaries.directory.is_dir():
        return
    clean = partial(trio.to_thread.run_sync, temporaries.clean, roots, abandon_on_cancel=True)
    if await clean():
        from eca_server.workspace.temporary_files import MIN_AGE  # noqa: PLC0415 - seldom needed

        await trio.sleep(MIN_AGE)
        await clean()


def _paths(folders: Iterable[WorkspaceFolder]) -> Iterator[Path]:
    """Yield the paths of folders, which need not exist."""
    for folder in folders:
        with suppress(ValueError):
            yield Path(path_of(folder.uri))


async def _reload(connection: Connection) -> None:
    """Reload the configuration with the new folders."""
    async with connection.changing.place():
        load = partial(connection.load, previous=connection.loaded)
        put_in_force(connection, await trio.to_thread.run_sync(load))
