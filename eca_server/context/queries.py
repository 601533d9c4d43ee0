"""`chat/queryContext`: what the user may add to a prompt, while they type (ruling W-40)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import trio

from eca_protocol.messages import (
    ChatContext,
    ChatQueryContextParams,
    ChatQueryContextResponse,
    DirectoryContext,
    FileContext,
    McpResourceContext,
)
from eca_server.workspace import FileError, FileIndex, FileMatch, Workspace

__all__ = ["query_contexts"]

_MOST = 200
_MOST_GIVEN = 10_000


async def query_contexts(
    params: ChatQueryContextParams,
    *,
    index: FileIndex,
    workspace: Workspace,
    resources: Sequence[McpResourceContext] = (),
) -> ChatQueryContextResponse:
    """The files, directories and resources that fit a query, best first, at most 200.

    A blank query gives the roots, then the resources, then all the rest; another one gives the
    resources last. What the client has already is left out, by where it leads, however it is
    spelled. The repository map and the cursor are not offered: the one is deprecated, and only the
    editor knows where the other is.

    Args:
        params: what is asked for.
        index: the workspace's files.
        workspace: its roots.
        resources: those of MCP servers that fit and that the client has not yet.
    """
    given = params.contexts[:_MOST_GIVEN]
    found = await index.search(params.query, limit=_MOST + len(given))

    def offer() -> list[ChatContext]:
        return list(_offered(found, given, workspace))

    paths = await trio.to_thread.run_sync(offer)
    before = len(paths) if params.query.strip() else _count_of_roots(paths, workspace)
    before = min(before, _MOST - len(resources))
    contexts = (*paths[:before], *resources, *paths[before:])[:_MOST]
    return ChatQueryContextResponse(chat_id=params.chat_id, contexts=contexts)


def _count_of_roots(paths: Iterable[ChatContext], workspace: Workspace) -> int:
    roots = {str(root.path) for root in workspace.roots}
    return sum(isinstance(each, DirectoryContext) and each.path in roots for each in paths)


def _offered(
    found: Iterable[FileMatch], given: Sequence[ChatContext], workspace: Workspace
) -> Iterator[ChatContext]:
    has = set()
    for context in given:
        if isinstance(context, DirectoryContext) or (
            isinstance(context, FileContext) and context.lines_range is None
        ):
            has.add(_real(context.path, workspace))
    for each in found:
        path = str(each.path)
        if not _is_text(path) or (has and _real(path, workspace) in has):
            continue
        yield DirectoryContext(path=path) if each.is_directory else FileContext(path=path)


def _real(path: str, workspace: Workspace) -> Path | None:
    try:
        return workspace.locate(path).real_path
    except FileError:
        return None


def _is_text(path: str) -> bool:
    """Whether a name is UTF-8; another one could not be written, nor come back."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
