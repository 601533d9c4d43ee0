"""Queries for contexts, files and commands while the user types (ruling W-40)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.peer import Handler
from eca_server.agent.commands import matching_commands
from eca_server.agent.commands.custom import CommandFiles
from eca_server.agent.context.queries import query_contexts
from eca_server.config.tool_settings import paths_of
from eca_server.connection.features.composition import Feature
from eca_server.connection.features.folders import Folders
from eca_server.connection.features.settings import Settings


class Queries(Feature):
    """The queries of a connection."""

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of queries."""
        return methods.handlers(
            methods.CHAT_QUERY_CONTEXT.handled_by(self._query_context),
            methods.CHAT_QUERY_FILES.handled_by(self._query_files),
            methods.CHAT_QUERY_COMMANDS.handled_by(self._query_commands),
        )

    def _query_context(
        self, params: m.ChatQueryContextParams
    ) -> m.ChatQueryContextResponse | Awaitable[m.ChatQueryContextResponse]:
        if params.chat_id and not params.query:
            self.parts.repeat_announcements(params.chat_id)
        resources = self._resources(params)
        if not self.session.roots and not params.query.strip():
            return m.ChatQueryContextResponse(chat_id=params.chat_id, contexts=resources)
        index, workspace = self.folders.index, self.folders.workspace
        return query_contexts(params, index=index, workspace=workspace, resources=resources)

    async def _query_files(self, params: m.ChatQueryFilesParams) -> m.ChatQueryFilesResponse:
        query = m.ChatQueryContextParams(query=params.query)
        index, workspace = self.folders.index, self.folders.workspace
        matches = await query_contexts(query, index=index, workspace=workspace)
        return m.ChatQueryFilesResponse(chat_id=params.chat_id, files=matches.contexts)

    async def _query_commands(
        self, params: m.ChatQueryCommandsParams
    ) -> m.ChatQueryCommandsResponse:
        servers = self.servers()
        commands = await matching_commands(
            params.query,
            command_files(self.folders, self.settings),
            self.folders.skill_files,
            None if servers is None else servers.manager,
        )
        return m.ChatQueryCommandsResponse(chat_id=params.chat_id, commands=commands)

    def _resources(self, params: m.ChatQueryContextParams) -> tuple[m.McpResourceContext, ...]:
        servers = self.servers()
        if servers is None:
            return ()
        from eca_server.agent.context.resources import matching_resources  # noqa: PLC0415 - only where needed

        return matching_resources(servers.manager.running, params.query, params.contexts)


def command_files(folders: Folders, settings: Settings) -> CommandFiles:
    """Return the files of the user's own commands."""
    return CommandFiles(
        workspace=folders.workspace,
        user_directory=settings.user_directory,
        configured=paths_of(settings.config.commands),
    )
