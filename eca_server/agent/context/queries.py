"""`chat/queryContext`: the contexts that match the text the user types (ruling W-40)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import trio

from eca_protocol import messages as m
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.errors import FileError
from eca_server.workspace.index import FileIndex, FileMatch

_MOST = 200
_MOST_EXISTING = 10_000
_SECONDS = 5.0  # until a disk that does not answer has no matches


async def query_contexts(
    params: m.ChatQueryContextParams,
    *,
    index: FileIndex,
    workspace: Workspace,
    resources: Sequence[m.McpResourceContext] = (),
) -> m.ChatQueryContextResponse:
    """Return the files, directories and resources that match a query, best first, at most 200.

    A blank query gives the roots, then the resources, then the rest; any other query gives the
    resources last. Contexts of the client are left out, compared by their real paths. The
    repository map and the cursor are not offered: the former is deprecated, and the position of
    the latter is known only to the editor.

    `resources`: the matching resources of MCP servers, without those of the client.
    """
    existing = params.contexts[:_MOST_EXISTING]
    paths: list[m.ChatContext] = []
    with trio.move_on_after(_SECONDS):
        matches = await index.search(params.query, limit=_MOST + len(existing))

        def offer() -> list[m.ChatContext]:
            return list(_offered(matches, existing, workspace))

        paths = await index.in_search_thread(offer)
    before = len(paths) if params.query.strip() else _count_of_roots(paths, workspace)
    before = min(before, _MOST - len(resources))
    contexts = (*paths[:before], *resources, *paths[before:])[:_MOST]
    return m.ChatQueryContextResponse(chat_id=params.chat_id, contexts=contexts)


def _count_of_roots(paths: Iterable[m.ChatContext], workspace: Workspace) -> int:
    roots = {str(root.path) for root in workspace.roots}
    return sum(isinstance(each, m.DirectoryContext) and each.path in roots for each in paths)


def _offered(
    matches: Iterable[FileMatch], existing: Sequence[m.ChatContext], workspace: Workspace
) -> Iterator[m.ChatContext]:
    existing_paths = set()
    for context in existing:
        if isinstance(context, m.DirectoryContext) or (
            isinstance(context, m.FileContext) and context.lines_range is None
        ):
            existing_paths.add(_real(context.path, workspace))
    for each in matches:
        path = str(each.path)
        if not _is_text(path) or (existing_paths and _real(path, workspace) in existing_paths):
            continue
        yield m.DirectoryContext(path=path) if each.is_directory else m.FileContext(path=path)


def _real(path: str, workspace: Workspace) -> Path | None:
    try:
        return workspace.locate(path).real_path
    except FileError:
        return None


def _is_text(path: str) -> bool:
    """Return True if a name is UTF-8; any other name cannot be sent to the client."""
    return path.encode(errors="ignore").decode() == path
