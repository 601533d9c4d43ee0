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
)
from eca_server.workspace import FileFault, FileIndex, Found, Workspace

__all__ = ["query_contexts"]

_MOST = 200
_MOST_GIVEN = 10_000


async def query_contexts(
    params: ChatQueryContextParams, *, index: FileIndex, workspace: Workspace
) -> ChatQueryContextResponse:
    """The files and directories that fit a query, best first, at most 200.

    A blank query gives the roots, then all the rest. What the client has already is left out, by
    where it leads, however it is spelled. The repository map and the cursor are not offered: the
    one is deprecated, and only the editor knows where the other is.
    """
    given = params.contexts[:_MOST_GIVEN]
    found = await index.search(params.query, limit=_MOST + len(given))

    def offer() -> list[ChatContext]:
        return list(_offered(found, given, workspace))[:_MOST]

    contexts = await trio.to_thread.run_sync(offer)
    return ChatQueryContextResponse(chat_id=params.chat_id, contexts=tuple(contexts))


def _offered(
    found: Iterable[Found], given: Sequence[ChatContext], workspace: Workspace
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
    except FileFault:
        return None


def _is_text(path: str) -> bool:
    """Whether a name is UTF-8; another one could not be written, nor come back."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
