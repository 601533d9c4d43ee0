"""The method table: each method of each edition, its sender, params and result.

Dispatch, codec, schema, strategies and documents derive from it. `$/cancelRequest` is not in it:
the endpoint handles cancellation for every JSON-RPC protocol.
"""

from __future__ import annotations

from eca_protocol.endpoint import Deferred, Direction, Method, Table
from eca_protocol.revisions import EVER, Revision, Window

__all__ = ["ECA"]

_CURRENT = Window(since=Revision.CURRENT)
_PROGRESS = Window(since=Revision.CURRENT, ruling="W-11")


def _request(
    name: str,
    params: str | None,
    result: str | None,
    window: Window = EVER,
    *,
    direction: Direction = "client_to_server",
) -> Method:
    """Return the row of a request; `params` and `result` are names in `messages`."""
    return Method(
        name=name,
        kind="request",
        direction=direction,
        params=_message(params),
        result=_message(result),
        window=window,
    )


def _server_request(name: str, params: str, result: str, window: Window = EVER) -> Method:
    """Return the row of a request that the server sends."""
    return _request(name, params, result, window, direction="server_to_client")


def _notification(
    name: str,
    params: str | None,
    window: Window = EVER,
    *,
    direction: Direction = "client_to_server",
) -> Method:
    return Method(
        name=name,
        kind="notification",
        direction=direction,
        params=_message(params),
        window=window,
    )


def _server_notification(name: str, params: str, window: Window = EVER) -> Method:
    """Return the row of a notification that the server sends."""
    return _notification(name, params, window, direction="server_to_client")


def _message(name: str | None) -> Deferred | None:
    return None if name is None else Deferred("eca_protocol.messages", name)


ECA = Table(
    [
        _request("initialize", "InitializeParams", "InitializeResponse"),
        _notification("initialized", "InitializedParams"),
        _request("shutdown", None, None),
        _notification("exit", None),
        _request("chat/prompt", "ChatPromptParams", "ChatPromptResponse"),
        _request("chat/inlinePrompt", "ChatInlinePromptParams", "ChatPromptResponse", _CURRENT),
        _server_notification("chat/contentReceived", "ChatContentReceivedParams"),
        _notification("chat/toolCallApprove", "ChatToolCallApproveParams"),
        _notification("chat/toolCallReject", "ChatToolCallRejectParams"),
        _request("chat/queryContext", "ChatQueryContextParams", "ChatQueryContextResponse"),
        _request("chat/queryFiles", "ChatQueryFilesParams", "ChatQueryFilesResponse", _CURRENT),
        _request("chat/queryCommands", "ChatQueryCommandsParams", "ChatQueryCommandsResponse"),
        _notification("chat/promptStop", "ChatPromptStopParams"),
        _notification("chat/promptSteer", "ChatPromptSteerParams", _CURRENT),
        _notification("chat/promptSteerRemove", "ChatPromptSteerRemoveParams", _CURRENT),
        _request("chat/rollback", "ChatRollbackParams", "ChatRollbackResponse", _CURRENT),
        _request("chat/clear", "ChatClearParams", "ChatClearResponse", _CURRENT),
        _request("chat/addFlag", "ChatAddFlagParams", "ChatAddFlagResponse", _CURRENT),
        _request("chat/removeFlag", "ChatRemoveFlagParams", "ChatRemoveFlagResponse", _CURRENT),
        _request("chat/fork", "ChatForkParams", "ChatForkResponse", _CURRENT),
        _server_notification("chat/cleared", "ChatClearedParams", _CURRENT),
        _server_notification("chat/opened", "ChatOpenedParams", _CURRENT),
        _server_notification("chat/statusChanged", "ChatStatusChangedParams", _CURRENT),
        _server_notification("chat/deleted", "ChatDeletedParams", _CURRENT),
        _request("chat/delete", "ChatDeleteParams", "ChatDeleteResponse"),
        _request("chat/update", "ChatUpdateParams", "ChatUpdateResponse", _CURRENT),
        _request("chat/list", "ChatListParams", "ChatListResponse", _CURRENT),
        _request("chat/open", "ChatOpenParams", "ChatOpenResponse", _CURRENT),
        _request("chat/history", "ChatHistoryParams", "ChatHistoryResponse", _CURRENT),
        _notification("chat/selectedBehaviorChanged", "ChatSelectedBehaviorChanged"),
        _notification("chat/selectedAgentChanged", "ChatSelectedAgentChanged", _CURRENT),
        _notification("chat/selectedModelChanged", "ChatSelectedModelChanged", _CURRENT),
        _server_request(
            "editor/getDiagnostics", "EditorGetDiagnosticsParams", "EditorGetDiagnosticsResponse"
        ),
        _server_request(
            "editor/getDefinition",
            "EditorGetDefinitionParams",
            "EditorGetDefinitionResponse",
            _CURRENT,
        ),
        _server_request(
            "editor/getReferences",
            "EditorGetReferencesParams",
            "EditorGetReferencesResponse",
            _CURRENT,
        ),
        _server_request(
            "chat/askQuestion", "ChatAskQuestionParams", "ChatAskQuestionResponse", _CURRENT
        ),
        _request(
            "completion/inline", "CompletionInlineParams", "CompletionInlineResponse", _CURRENT
        ),
        _request("rewrite/prompt", "RewritePromptParams", "RewritePromptResponse", _CURRENT),
        _server_notification("rewrite/contentReceived", "RewriteContentReceivedParams", _CURRENT),
        _server_notification("config/updated", "ConfigUpdatedParams"),
        _notification(
            "workspace/didChangeWorkspaceFolders",
            "WorkspaceDidChangeWorkspaceFoldersParams",
            _CURRENT,
        ),
        _server_notification("tool/serverUpdated", "ToolServerUpdatedParams"),
        _server_notification("tool/serverRemoved", "ToolServerRemovedParams", _CURRENT),
        _notification("mcp/stopServer", "MCPStopServerParams"),
        _notification("mcp/startServer", "MCPStartServerParams"),
        _notification("mcp/connectServer", "MCPConnectServerParams", _CURRENT),
        _notification("mcp/logoutServer", "MCPLogoutServerParams", _CURRENT),
        _notification("mcp/disableServer", "MCPDisableServerParams", _CURRENT),
        _notification("mcp/enableServer", "MCPEnableServerParams", _CURRENT),
        _request("mcp/updateServer", "MCPUpdateServerParams", "MCPUpdateServerResult", _CURRENT),
        _request("mcp/addServer", "MCPAddServerParams", "MCPAddServerResult", _CURRENT),
        _request("mcp/removeServer", "MCPRemoveServerParams", "MCPRemoveServerResult", _CURRENT),
        _request("providers/list", "ProvidersListParams", "ProvidersListResult", _CURRENT),
        _request("providers/login", "ProvidersLoginParams", "ProvidersLoginResult", _CURRENT),
        _request(
            "providers/loginInput", "ProvidersLoginInputParams", "ProvidersLoginResult", _CURRENT
        ),
        _request("providers/logout", "ProvidersLogoutParams", "ProvidersLogoutResult", _CURRENT),
        _server_notification("providers/updated", "ProviderStatus", _CURRENT),
        _request("jobs/list", "JobsListParams", "JobsListResult", _CURRENT),
        _request("jobs/kill", "JobsKillParams", "JobsKillResult", _CURRENT),
        _request("jobs/readOutput", "JobsReadOutputParams", "JobsReadOutputResult", _CURRENT),
        _server_notification("jobs/updated", "JobsUpdatedParams", _CURRENT),
        _server_notification("$/progress", "ProgressParams", _PROGRESS),
        _server_notification("$/showMessage", "ShowMessageParams"),
    ]
)
