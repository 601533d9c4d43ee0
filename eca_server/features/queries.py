"""Queries for contexts, files and commands while the user types (ruling W-40)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from eca_protocol import messages as m
from eca_protocol.peer import Handler
from eca_server.commands import CommandFiles, matching_commands
from eca_server.context import query_contexts
from eca_server.features.connection import Connection

if TYPE_CHECKING:
    from eca_server.mcp.manager import Manager

__all__ = ["command_files", "make_handlers", "mcp_of"]


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handlers of queries."""

    def query_context(
        params: m.ChatQueryContextParams,
    ) -> m.ChatQueryContextResponse | Awaitable[m.ChatQueryContextResponse]:
        resources = _resources(connection, params)
        if not connection.session.roots and not params.query.strip():
            return m.ChatQueryContextResponse(chat_id=params.chat_id, contexts=resources)
        return query_contexts(
            params,
            index=connection.index,
            workspace=connection.workspace,
            resources=resources,
        )

    async def query_files(params: m.ChatQueryFilesParams) -> m.ChatQueryFilesResponse:
        matches = await query_contexts(
            m.ChatQueryContextParams(query=params.query),
            index=connection.index,
            workspace=connection.workspace,
        )
        return m.ChatQueryFilesResponse(chat_id=params.chat_id, files=matches.contexts)

    async def query_commands(
        params: m.ChatQueryCommandsParams,
    ) -> m.ChatQueryCommandsResponse:
        commands = await matching_commands(
            params.query,
            command_files(connection),
            connection.skill_files,
            mcp_of(connection),
        )
        return m.ChatQueryCommandsResponse(chat_id=params.chat_id, commands=commands)

    return {
        "chat/queryContext": query_context,
        "chat/queryFiles": query_files,
        "chat/queryCommands": query_commands,
    }


def mcp_of(connection: Connection) -> Manager | None:
    """Return the MCP servers, or None if none is configured, which imports nothing of MCP."""
    return connection.mcp if connection.uses_mcp else None


def command_files(connection: Connection) -> CommandFiles:
    """Return the files of the user's own commands."""
    named = (each.path for each in connection.config.commands)
    return CommandFiles(
        workspace=connection.workspace,
        user_directory=connection.user_directory,
        configured=tuple(path for path in named if path is not None),
    )


def _resources(
    connection: Connection, params: m.ChatQueryContextParams
) -> tuple[m.McpResourceContext, ...]:
    """Return the resources of MCP servers that match the query."""
    if not connection.uses_mcp:
        return ()
    from eca_server.context.resources import matching_resources  # noqa: PLC0415 - only where needed

    return matching_resources(connection.mcp.running, params.query, params.contexts)
