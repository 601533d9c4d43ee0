"""THE method table: every method of the specification, who sends it, and what it carries.

Dispatch, codec, schema, strategies and documents derive from it. `$/cancelRequest` is not here:
it belongs to every JSON-RPC conversation and is the endpoint's own.
"""

from __future__ import annotations

from typing import Any, Literal

from eca_protocol.endpoint import Method, Table
from eca_protocol.messages.chat import (
    ChatDeleteParams,
    ChatDeleteResponse,
    ChatPromptParams,
    ChatPromptResponse,
    ChatPromptStopParams,
    ChatQueryCommandsParams,
    ChatQueryCommandsResponse,
    ChatQueryContextParams,
    ChatQueryContextResponse,
    ChatSelectedAgentChanged,
    ChatSelectedBehaviorChanged,
    ChatToolCallApproveParams,
    ChatToolCallRejectParams,
)
from eca_protocol.messages.configuration import ConfigUpdatedParams
from eca_protocol.messages.content import ChatContentReceivedParams
from eca_protocol.messages.editor import EditorGetDiagnosticsParams, EditorGetDiagnosticsResponse
from eca_protocol.messages.general import ProgressParams, ShowMessageParams
from eca_protocol.messages.lifecycle import InitializedParams, InitializeParams, InitializeResponse
from eca_protocol.messages.tools import (
    MCPStartServerParams,
    MCPStopServerParams,
    ToolServerUpdatedParams,
)
from eca_protocol.revisions import EVER, Revision, Window

__all__ = ["ECA"]


def _client_request(name: str, params: Any, result: Any) -> Method:
    return Method(
        name=name, kind="request", direction="client_to_server", params=params, result=result
    )


def _notification(
    direction: Literal["client_to_server", "server_to_client"],
    name: str,
    params: Any,
    window: Window = EVER,
) -> Method:
    return Method(name=name, kind="notification", direction=direction, params=params, window=window)


ECA = Table(
    [
        _client_request("initialize", InitializeParams, InitializeResponse),
        _notification("client_to_server", "initialized", InitializedParams),
        _client_request("shutdown", None, None),
        _notification("client_to_server", "exit", None),
        _client_request("chat/prompt", ChatPromptParams, ChatPromptResponse),
        _notification("server_to_client", "chat/contentReceived", ChatContentReceivedParams),
        _notification("client_to_server", "chat/toolCallApprove", ChatToolCallApproveParams),
        _notification("client_to_server", "chat/toolCallReject", ChatToolCallRejectParams),
        _client_request("chat/queryContext", ChatQueryContextParams, ChatQueryContextResponse),
        _client_request("chat/queryCommands", ChatQueryCommandsParams, ChatQueryCommandsResponse),
        _notification("client_to_server", "chat/promptStop", ChatPromptStopParams),
        _client_request("chat/delete", ChatDeleteParams, ChatDeleteResponse),
        _notification(
            "client_to_server", "chat/selectedBehaviorChanged", ChatSelectedBehaviorChanged
        ),
        _notification(
            "client_to_server",
            "chat/selectedAgentChanged",
            ChatSelectedAgentChanged,
            Window(since=Revision.CURRENT),
        ),
        Method(
            name="editor/getDiagnostics",
            kind="request",
            direction="server_to_client",
            params=EditorGetDiagnosticsParams,
            result=EditorGetDiagnosticsResponse,
        ),
        _notification("server_to_client", "config/updated", ConfigUpdatedParams),
        _notification("server_to_client", "tool/serverUpdated", ToolServerUpdatedParams),
        _notification("client_to_server", "mcp/stopServer", MCPStopServerParams),
        _notification("client_to_server", "mcp/startServer", MCPStartServerParams),
        _notification("server_to_client", "$/showMessage", ShowMessageParams),
        _notification(
            "server_to_client",
            "$/progress",
            ProgressParams,
            Window(since=Revision.CURRENT, ruling="W-11"),
        ),
    ]
)
