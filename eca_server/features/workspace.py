"""Changes of the workspace folders.

New requests use the new folders, a running turn keeps its own, and chats stay in their storage.
Temporary files of killed servers are removed from opened folders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import trio

from eca_protocol.messages import WorkspaceDidChangeWorkspaceFoldersParams, WorkspaceFolder
from eca_protocol.peer import Handler
from eca_server.features.folders import Folders
from eca_server.features.settings import Settings
from eca_server.session import Session
from eca_server.workspace import parse_roots, path_of

__all__ = ["make_handlers"]


def make_handlers(
    session: Session, settings: Settings, folders: Folders, nursery: trio.Nursery
) -> Mapping[str, Handler]:
    """Return the handler of workspace changes."""

    def folders_changed(params: WorkspaceDidChangeWorkspaceFoldersParams) -> None:
        added, problems = parse_roots(params.event.added)
        for problem in problems:
            session.show("warning", problem)
        removed = set(_paths(params.event.removed))
        remaining = [root for root in session.roots if root.path not in removed]
        before = {root.path for root in remaining}
        roots = (*remaining, *(root for root in added if root.path not in before))
        if roots != session.roots:
            folders.change(roots)
            nursery.start_soon(_reload, settings)
            nursery.start_soon(folders.remove_leftovers)

    return {"workspace/didChangeWorkspaceFolders": folders_changed}


async def _reload(settings: Settings) -> None:
    """Reload the configuration with the new folders."""
    async with settings.changing.place():
        await settings.reload()


def _paths(folders: Iterable[WorkspaceFolder]) -> Iterator[Path]:
    """Yield the paths of folders, which need not exist."""
    for folder in folders:
        with suppress(ValueError):
            yield Path(path_of(folder.uri))
