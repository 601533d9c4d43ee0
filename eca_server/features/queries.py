"""Queries for contexts, files and commands while the user types (ruling W-40)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from eca_protocol import messages as m
from eca_protocol.peer import Handler
from eca_server.commands import matching_commands
from eca_server.context import query_contexts

if TYPE_CHECKING:
    from eca_server.features.mcp import McpServers
import attrs

from eca_server.features.folders import Folders
from eca_server.session import Session

__all__ = ["Queries"]


@attrs.frozen(eq=False)
class Queries:
    """The queries of a connection."""

    session: Session
    folders: Folders
    servers: Callable[[], McpServers | None]

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of queries."""

        def query_context(
            params: m.ChatQueryContextParams,
        ) -> m.ChatQueryContextResponse | Awaitable[m.ChatQueryContextResponse]:
            resources = self._resources(params)
            if not self.session.roots and not params.query.strip():
                return m.ChatQueryContextResponse(chat_id=params.chat_id, contexts=resources)
            return query_contexts(
                params,
                index=self.folders.index,
                workspace=self.folders.workspace,
                resources=resources,
            )

        async def query_files(params: m.ChatQueryFilesParams) -> m.ChatQueryFilesResponse:
            matches = await query_contexts(
                m.ChatQueryContextParams(query=params.query),
                index=self.folders.index,
                workspace=self.folders.workspace,
            )
            return m.ChatQueryFilesResponse(chat_id=params.chat_id, files=matches.contexts)

        async def query_commands(
            params: m.ChatQueryCommandsParams,
        ) -> m.ChatQueryCommandsResponse:
            servers = self.servers()
            commands = await matching_commands(
                params.query,
                self.folders.command_files,
                self.folders.skill_files,
                None if servers is None else servers.manager,
            )
            return m.ChatQueryCommandsResponse(chat_id=params.chat_id, commands=commands)

        return {
            "chat/queryContext": query_context,
            "chat/queryFiles": query_files,
            "chat/queryCommands": query_commands,
        }

    def _resources(self, params: m.ChatQueryContextParams) -> tuple[m.McpResourceContext, ...]:
        """Return the resources of MCP servers that match the query."""
        servers = self.servers()
        if servers is None:
            return ()
        from eca_server.context.resources import matching_resources  # noqa: PLC0415 - only where needed

        return matching_resources(servers.manager.running, params.query, params.contexts)
