"""Typed methods for all but chats, named as in the method table.

MCP servers, providers, jobs, completion, rewriting, workspace folders. All but start and stop of
an MCP server exist only in CURRENT: with an older server requests raise LocalProtocolError, and
notifications are not sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eca_protocol import messages as m
from eca_protocol.client.caller import Caller

__all__ = ["ServerCalls"]


class ServerCalls(Caller):
    """A client's messages outside of chats; see `Caller` for their exceptions."""

    def workspace_did_change_workspace_folders(
        self, *, added: Sequence[m.WorkspaceFolder] = (), removed: Sequence[m.WorkspaceFolder] = ()
    ) -> None:
        """Announce a change of the project's roots."""
        event = m.WorkspaceFoldersChangeEvent(added=tuple(added), removed=tuple(removed))
        self._notify(
            "workspace/didChangeWorkspaceFolders",
            m.WorkspaceDidChangeWorkspaceFoldersParams(event=event),
        )

    def mcp_start_server(self, name: str) -> None:
        """Start a stopped MCP server."""
        self._notify("mcp/startServer", m.MCPStartServerParams(name=name))

    def mcp_stop_server(self, name: str) -> None:
        """Stop an MCP server."""
        self._notify("mcp/stopServer", m.MCPStopServerParams(name=name))

    def mcp_connect_server(self, name: str) -> None:
        """Log in to an MCP server whose status is `requires-auth`."""
        self._notify("mcp/connectServer", m.MCPConnectServerParams(name=name))

    def mcp_logout_server(self, name: str) -> None:
        """Delete the login to an MCP server."""
        self._notify("mcp/logoutServer", m.MCPLogoutServerParams(name=name))

    def mcp_enable_server(self, name: str) -> None:
        """Enable an MCP server."""
        self._notify("mcp/enableServer", m.MCPEnableServerParams(name=name))

    def mcp_disable_server(self, name: str) -> None:
        """Stop and disable an MCP server."""
        self._notify("mcp/disableServer", m.MCPDisableServerParams(name=name))

    async def mcp_add_server(self, params: m.MCPAddServerParams) -> m.MCPAddServerResult:
        """Add an MCP server; its status comes as events."""
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
        """Change the command or URL of an MCP server; None changes nothing."""
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
        """Stop and remove an MCP server."""
        params = m.MCPRemoveServerParams(name=name)
        result: m.MCPRemoveServerResult = await self._request("mcp/removeServer", params)
        return result

    async def providers_list(self) -> tuple[m.ProviderStatus, ...]:
        """Return the providers of models, with their logins and models."""
        result: m.ProvidersListResult = await self._request(
            "providers/list", m.ProvidersListParams()
        )
        return result.providers

    async def providers_login(
        self, provider: str, *, method: str | None = None
    ) -> m.ProvidersLoginResult:
        """Begin a login; the answer contains the next step."""
        params = m.ProvidersLoginParams(provider=provider, method=method)
        result: m.ProvidersLoginResult = await self._request("providers/login", params)
        return result

    async def providers_login_input(
        self, provider: str, data: Mapping[str, str]
    ) -> m.ProvidersLoginResult:
        """Send the user's input, by the keys of the login's fields."""
        params = m.ProvidersLoginInputParams(provider=provider, data=data)
        result: m.ProvidersLoginResult = await self._request("providers/loginInput", params)
        return result

    async def providers_logout(self, provider: str) -> None:
        """Delete the login to a provider."""
        await self._request("providers/logout", m.ProvidersLogoutParams(provider=provider))

    async def jobs_list(self) -> tuple[m.JobSummary, ...]:
        """Return the background jobs."""
        result: m.JobsListResult = await self._request("jobs/list", m.JobsListParams())
        return result.jobs

    async def jobs_kill(self, job_id: str) -> bool:
        """End a job; return False if it was not running."""
        result: m.JobsKillResult = await self._request("jobs/kill", m.JobsKillParams(job_id=job_id))
        return result.killed

    async def jobs_read_output(self, job_id: str) -> m.JobsReadOutputResult:
        """Return a job's output so far."""
        params = m.JobsReadOutputParams(job_id=job_id)
        result: m.JobsReadOutputResult = await self._request("jobs/readOutput", params)
        return result

    async def completion_inline(
        self, doc_text: str, position: m.Position, *, doc_version: int = 0
    ) -> tuple[m.CompletionInlineItem, ...]:
        """Return completions at `position` (counted from 1) of a document."""
        params = m.CompletionInlineParams(
            doc_text=doc_text, doc_version=doc_version, position=position
        )
        result: m.CompletionInlineResponse = await self._request("completion/inline", params)
        return result.items

    async def rewrite_prompt(self, params: m.RewritePromptParams) -> m.RewritePromptResponse:
        """Rewrite a part of a file; the new text comes as events with `params.id`."""
        result: m.RewritePromptResponse = await self._request("rewrite/prompt", params)
        return result
