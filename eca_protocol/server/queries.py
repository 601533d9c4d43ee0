"""Queries for contexts, files and commands while the user types (ruling W-40)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.server.connected_client import ConnectedClient
from eca_protocol.server.declarations import Declarations
from eca_protocol.server.values import ContextQuery, ContextQueryHandler

__all__ = ["Queries"]

MOST: Final = 200
"""The limit of the results of one query."""


@attrs.frozen
class Queries:
    """The queries of a connection."""

    _declarations: Declarations
    _client: Callable[[], ConnectedClient]

    def handlers(self) -> Iterable[tuple[str, Callable[[Any], Any]]]:
        """Return the handlers of queries, by method."""
        return (
            methods.CHAT_QUERY_CONTEXT.handled_by(self._query_context),
            methods.CHAT_QUERY_FILES.handled_by(self._query_files),
            methods.CHAT_QUERY_COMMANDS.handled_by(self._query_commands),
        )

    async def _query_context(self, params: m.ChatQueryContextParams) -> m.ChatQueryContextResponse:
        contexts = await self._find(params.query, params.chat_id, params.contexts)
        return m.ChatQueryContextResponse(chat_id=params.chat_id, contexts=contexts)

    async def _query_files(self, params: m.ChatQueryFilesParams) -> m.ChatQueryFilesResponse:
        contexts = await self._find(params.query, params.chat_id, ())
        files = [each for each in contexts if isinstance(each, m.FileContext | m.DirectoryContext)]
        return m.ChatQueryFilesResponse(chat_id=params.chat_id, files=tuple(files))

    def _query_commands(self, params: m.ChatQueryCommandsParams) -> m.ChatQueryCommandsResponse:
        commands = self._declarations.commands.values()
        matches = [each.shown for each in commands if each.matches(params.query)]
        return m.ChatQueryCommandsResponse(chat_id=params.chat_id, commands=tuple(matches))

    async def _find(
        self, text: str, chat_id: str | None, contexts: tuple[m.ChatContext, ...]
    ) -> tuple[m.ChatContext, ...]:
        handler: ContextQueryHandler | None = self._declarations.handlers.get("context_query")
        if handler is None:
            return ()
        roots = self._client().paths
        query = ContextQuery(text=text, roots=roots, chat_id=chat_id, contexts=contexts)
        matches = [each for each in await handler(query) if each not in contexts]
        first = [m.DirectoryContext(path=str(root)) for root in roots]
        return tuple(sorted(matches, key=lambda each: each not in first)[:MOST])
