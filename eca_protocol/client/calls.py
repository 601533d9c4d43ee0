"""One typed method for every message a client sends; the names are the method table's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eca_protocol import messages as m
from eca_protocol.lifecycle import LifecycleGate
from eca_protocol.peer import Peer, PendingCall

__all__ = ["Calls"]


class Calls:
    """The client's side of the protocol, message by message.

    Requests raise what `PendingCall.result` raises; a message that the lifecycle does not allow
    now is a LocalProtocolError, a notification to a server that is gone a ConnectionClosed.
    `deadline` is in seconds.
    """

    def __init__(self, peer: Peer, *, deadline: float | None) -> None:
        self._peer = peer
        self._gate = LifecycleGate()
        self.deadline = deadline

    def start_request(self, method: str, params: Any) -> PendingCall:
        """Send a request; its answer is `await call.result()`."""
        self._gate.check_sending(method, "request")
        return self._peer.start_call(method, params)

    async def _request(self, method: str, params: Any, deadline: float | None = None) -> Any:
        return await self.start_request(method, params).result(deadline=deadline or self.deadline)

    def _notify(self, method: str, params: Any = None) -> None:
        self._gate.check_sending(method, "notification")
        self._peer.notify(method, params)

    async def initialize(
        self, params: m.InitializeParams, *, deadline: float | None = None
    ) -> m.InitializeResponse:
        """Begin the connection (chapter "Initialize"); `connect` does it."""
        try:
            result = await self._request("initialize", params, deadline)
        except BaseException:
            self._gate.answered("initialize", success=False)
            raise
        self._gate.answered("initialize", success=True)
        return result if isinstance(result, m.InitializeResponse) else m.InitializeResponse()

    def initialized(self) -> None:
        """Tell the server that notifications are welcome; `connect` does it."""
        self._notify("initialized", m.InitializedParams())

    async def shutdown(self, *, deadline: float | None = None) -> None:
        """Let the server clean up; leaving the client does it."""
        await self._request("shutdown", None, deadline)

    def exit(self) -> None:
        """Let the server's process end; leaving the client does it."""
        self._notify("exit")

    async def chat_prompt(
        self,
        message: str,
        *,
        chat_id: str | None = None,
        model: str | None = None,
        behavior: m.ChatBehavior | None = None,
        contexts: Sequence[m.ChatContext] = (),
    ) -> m.ChatPromptResponse:
        """Send a prompt; its contents come as events. `Chat.prompt` pairs both."""
        params = m.ChatPromptParams(
            chat_id=chat_id,
            message=message,
            model=model,
            behavior=behavior,
            contexts=tuple(contexts),
        )
        result: m.ChatPromptResponse = await self._request("chat/prompt", params)
        return result

    def chat_prompt_stop(self, chat_id: str) -> None:
        """End the chat's running turn."""
        self._notify("chat/promptStop", m.ChatPromptStopParams(chat_id=chat_id))

    def chat_tool_call_approve(
        self, chat_id: str, tool_call_id: str, *, save: m.ToolCallApprovalSave | None = None
    ) -> None:
        """Let a waiting tool call run; `save="session"` asks no more for that tool."""
        self._notify(
            "chat/toolCallApprove",
            m.ChatToolCallApproveParams(chat_id=chat_id, tool_call_id=tool_call_id, save=save),
        )

    def chat_tool_call_reject(self, chat_id: str, tool_call_id: str) -> None:
        """Do not let a waiting tool call run."""
        self._notify(
            "chat/toolCallReject",
            m.ChatToolCallRejectParams(chat_id=chat_id, tool_call_id=tool_call_id),
        )

    async def chat_query_context(
        self,
        query: str = "",
        *,
        chat_id: str | None = None,
        contexts: Sequence[m.ChatContext] = (),
    ) -> tuple[m.ChatContext, ...]:
        """The contexts that could be added to a prompt; a blank query asks for all."""
        params = m.ChatQueryContextParams(chat_id=chat_id, query=query, contexts=tuple(contexts))
        result: m.ChatQueryContextResponse = await self._request("chat/queryContext", params)
        return result.contexts

    async def chat_query_commands(
        self, query: str = "", *, chat_id: str | None = None
    ) -> tuple[m.ChatCommand, ...]:
        """The slash commands there are; a blank query asks for all."""
        params = m.ChatQueryCommandsParams(chat_id=chat_id, query=query)
        result: m.ChatQueryCommandsResponse = await self._request("chat/queryCommands", params)
        return result.commands

    async def chat_delete(self, chat_id: str | None = None) -> None:
        """Forget a chat with its messages, tokens and costs."""
        await self._request("chat/delete", m.ChatDeleteParams(chat_id=chat_id))

    def chat_selected_behavior_changed(self, behavior: m.ChatBehavior) -> None:
        """Select the behaviour of the prompts that name none."""
        self._notify(
            "chat/selectedBehaviorChanged", m.ChatSelectedBehaviorChanged(behavior=behavior)
        )

    def chat_selected_agent_changed(self, agent: str) -> None:
        """What newer editions call `chat_selected_behavior_changed`; not written in older ones."""
        self._notify("chat/selectedAgentChanged", m.ChatSelectedAgentChanged(agent=agent))

    def mcp_start_server(self, name: str) -> None:
        """Start an MCP server that is stopped."""
        self._notify("mcp/startServer", m.MCPStartServerParams(name=name))

    def mcp_stop_server(self, name: str) -> None:
        """Stop an MCP server."""
        self._notify("mcp/stopServer", m.MCPStopServerParams(name=name))
