"""Beside chats: one typed method for each message, named as in the table.

MCP servers, providers, jobs, completion, rewriting, workspace folders. All but start and stop of
an MCP server are CURRENT's: to an older server requests are a LocalProtocolError, and
notifications are not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eca_protocol import messages as m
from eca_protocol.client.caller import Caller

__all__ = ["ServerCalls"]


class ServerCalls(Caller):
    """What a client asks of a server outside of chats; see `Caller` for what is raised."""

    def workspace_did_change_workspace_folders(
        self, *, added: Sequence[m.WorkspaceFolder] = (), removed: Sequence[m.WorkspaceFolder] = ()
    ) -> None:
        """Tell that the project has other roots now."""
        event = m.WorkspaceFoldersChangeEvent(added=tuple(added), removed=tuple(removed))
        self._notify(
            "workspace/didChangeWorkspaceFolders",
            m.WorkspaceDidChangeWorkspaceFoldersParams(event=event),
        )

    def mcp_start_server(self, name: str) -> None:
        """Start an MCP server that is stopped."""
        self._notify("mcp/startServer", m.MCPStartServerParams(name=name))

    def mcp_stop_server(self, name: str) -> None:
        """Stop an MCP server."""
        self._notify("mcp/stopServer", m.MCPStopServerParams(name=name))

    def mcp_connect_server(self, name: str) -> None:
        """Log in to an MCP server whose status is `requires-auth`."""
        self._notify("mcp/connectServer", m.MCPConnectServerParams(name=name))

    def mcp_logout_server(self, name: str) -> None:
        """Forget the login to an MCP server."""
        self._notify("mcp/logoutServer", m.MCPLogoutServerParams(name=name))

    def mcp_enable_server(self, name: str) -> None:
        """Let an MCP server run again."""
        self._notify("mcp/enableServer", m.MCPEnableServerParams(name=name))

    def mcp_disable_server(self, name: str) -> None:
        """Stop an MCP server and keep it from starting."""
        self._notify("mcp/disableServer", m.MCPDisableServerParams(name=name))

    async def mcp_add_server(self, params: m.MCPAddServerParams) -> m.MCPAddServerResult:
        """Add an MCP server; what becomes of it comes as events."""
        result: m.MCPAddServerResult = await self._request("mcp/addServer", params)
        return result

    async def mcp_update_server(
        self,
        name: str,
        *,
        command: str | None = None,
        args: Sequence[str] | None = None,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Change how an MCP server is reached; what is None stays as it is."""
        params = m.MCPUpdateServerParams(
            name=name,
            command=command,
            args=None if args is None else tuple(args),
            url=url,
            env=env,
            headers=headers,
        )
        await self._request("mcp/updateServer", params)

    async def mcp_remove_server(self, name: str) -> m.MCPRemoveServerResult:
        """Stop an MCP server and forget it."""
        params = m.MCPRemoveServerParams(name=name)
        result: m.MCPRemoveServerResult = await self._request("mcp/removeServer", params)
        return result

    async def providers_list(self) -> tuple[m.ProviderStatus, ...]:
        """The providers of models, with their logins and models."""
        result: m.ProvidersListResult = await self._request(
            "providers/list", m.ProvidersListParams()
        )
        return result.providers

    async def providers_login(
        self, provider: str, *, method: str | None = None
    ) -> m.ProvidersLoginResult:
        """Begin to log in; the answer says what to do next."""
        params = m.ProvidersLoginParams(provider=provider, method=method)
        result: m.ProvidersLoginResult = await self._request("providers/login", params)
        return result

    async def providers_login_input(
        self, provider: str, data: Mapping[str, str]
    ) -> m.ProvidersLoginResult:
        """Give what the user typed in, by the keys of the fields that were asked for."""
        params = m.ProvidersLoginInputParams(provider=provider, data=data)
        result: m.ProvidersLoginResult = await self._request("providers/loginInput", params)
        return result

    async def providers_logout(self, provider: str) -> None:
        """Forget the login to a provider."""
        await self._request("providers/logout", m.ProvidersLogoutParams(provider=provider))

    async def jobs_list(self) -> tuple[m.JobSummary, ...]:
        """What runs in the background of the chats."""
        result: m.JobsListResult = await self._request("jobs/list", m.JobsListParams())
        return result.jobs

    async def jobs_kill(self, job_id: str) -> bool:
        """End a job; False if there was nothing to end."""
        result: m.JobsKillResult = await self._request("jobs/kill", m.JobsKillParams(job_id=job_id))
        return result.killed

    async def jobs_read_output(self, job_id: str) -> m.JobsReadOutputResult:
        """What a job has written so far."""
        params = m.JobsReadOutputParams(job_id=job_id)
        result: m.JobsReadOutputResult = await self._request("jobs/readOutput", params)
        return result

    async def completion_inline(
        self, doc_text: str, position: m.Position, *, doc_version: int = 0
    ) -> tuple[m.CompletionInlineItem, ...]:
        """What could stand at `position` (counted from 1) of a document."""
        params = m.CompletionInlineParams(
            doc_text=doc_text, doc_version=doc_version, position=position
        )
        result: m.CompletionInlineResponse = await self._request("completion/inline", params)
        return result.items

    async def rewrite_prompt(self, params: m.RewritePromptParams) -> m.RewritePromptResponse:
        """Have a piece of a file rewritten; the new text comes as events with `params.id`."""
        result: m.RewritePromptResponse = await self._request("rewrite/prompt", params)
        return result
