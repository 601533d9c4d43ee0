"""THE method table: every method of every edition, who sends it, and what it carries.

Dispatch, codec, schema, strategies and documents derive from it. `$/cancelRequest` is not here:
it belongs to every JSON-RPC conversation and is the endpoint's own.
"""

from __future__ import annotations

from eca_protocol.endpoint import Deferred, Direction, Method, Table
from eca_protocol.revisions import EVER, Revision, Window

__all__ = ["ECA"]

_CURRENT = Window(since=Revision.CURRENT)
_STARTING = Window(since=Revision.CURRENT, ruling="W-11")


def _request(
    name: str,
    params: str | None,
    result: str | None,
    window: Window = EVER,
    *,
    direction: Direction = "client_to_server",
) -> Method:
    """A request; the types are called as in `messages`, which is loaded when one is needed."""
    return Method(
        name=name,
        kind="request",
        direction=direction,
        params=_message(params),
        result=_message(result),
        window=window,
    )


def _question(name: str, params: str, result: str, window: Window = EVER) -> Method:
    """A request of the server's."""
    return _request(name, params, result, window, direction="server_to_client")


def _notice(
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


def _news(name: str, params: str, window: Window = EVER) -> Method:
    """A notification of the server's."""
    return _notice(name, params, window, direction="server_to_client")


def _message(name: str | None) -> Deferred | None:
    return None if name is None else Deferred("eca_protocol.messages", name)


ECA = Table(
    [
        _request("initialize", "InitializeParams", "InitializeResponse"),
        _notice("initialized", "InitializedParams"),
        _request("shutdown", None, None),
        _notice("exit", None),
        _request("chat/prompt", "ChatPromptParams", "ChatPromptResponse"),
        _request("chat/inlinePrompt", "ChatInlinePromptParams", "ChatPromptResponse", _CURRENT),
        _news("chat/contentReceived", "ChatContentReceivedParams"),
        _notice("chat/toolCallApprove", "ChatToolCallApproveParams"),
        _notice("chat/toolCallReject", "ChatToolCallRejectParams"),
        _request("chat/queryContext", "ChatQueryContextParams", "ChatQueryContextResponse"),
        _request("chat/queryFiles", "ChatQueryFilesParams", "ChatQueryFilesResponse", _CURRENT),
        _request("chat/queryCommands", "ChatQueryCommandsParams", "ChatQueryCommandsResponse"),
        _notice("chat/promptStop", "ChatPromptStopParams"),
        _notice("chat/promptSteer", "ChatPromptSteerParams", _CURRENT),
        _notice("chat/promptSteerRemove", "ChatPromptSteerRemoveParams", _CURRENT),
        _request("chat/rollback", "ChatRollbackParams", "ChatRollbackResponse", _CURRENT),
        _request("chat/clear", "ChatClearParams", "ChatClearResponse", _CURRENT),
        _request("chat/addFlag", "ChatAddFlagParams", "ChatAddFlagResponse", _CURRENT),
        _request("chat/removeFlag", "ChatRemoveFlagParams", "ChatRemoveFlagResponse", _CURRENT),
        _request("chat/fork", "ChatForkParams", "ChatForkResponse", _CURRENT),
        _news("chat/cleared", "ChatClearedParams", _CURRENT),
        _news("chat/opened", "ChatOpenedParams", _CURRENT),
        _news("chat/statusChanged", "ChatStatusChangedParams", _CURRENT),
        _news("chat/deleted", "ChatDeletedParams", _CURRENT),
        _request("chat/delete", "ChatDeleteParams", "ChatDeleteResponse"),
        _request("chat/update", "ChatUpdateParams", "ChatUpdateResponse", _CURRENT),
        _request("chat/list", "ChatListParams", "ChatListResponse", _CURRENT),
        _request("chat/open", "ChatOpenParams", "ChatOpenResponse", _CURRENT),
        _request("chat/history", "ChatHistoryParams", "ChatHistoryResponse", _CURRENT),
        _notice("chat/selectedBehaviorChanged", "ChatSelectedBehaviorChanged"),
        _notice("chat/selectedAgentChanged", "ChatSelectedAgentChanged", _CURRENT),
        _notice("chat/selectedModelChanged", "ChatSelectedModelChanged", _CURRENT),
        _question(
            "editor/getDiagnostics", "EditorGetDiagnosticsParams", "EditorGetDiagnosticsResponse"
        ),
        _question(
            "editor/getDefinition",
            "EditorGetDefinitionParams",
            "EditorGetDefinitionResponse",
            _CURRENT,
        ),
        _question(
            "editor/getReferences",
            "EditorGetReferencesParams",
            "EditorGetReferencesResponse",
            _CURRENT,
        ),
        _question("chat/askQuestion", "ChatAskQuestionParams", "ChatAskQuestionResponse", _CURRENT),
        _request(
            "completion/inline", "CompletionInlineParams", "CompletionInlineResponse", _CURRENT
        ),
        _request("rewrite/prompt", "RewritePromptParams", "RewritePromptResponse", _CURRENT),
        _news("rewrite/contentReceived", "RewriteContentReceivedParams", _CURRENT),
        _news("config/updated", "ConfigUpdatedParams"),
        _notice(
            "workspace/didChangeWorkspaceFolders",
            "WorkspaceDidChangeWorkspaceFoldersParams",
            _CURRENT,
        ),
        _news("tool/serverUpdated", "ToolServerUpdatedParams"),
        _news("tool/serverRemoved", "ToolServerRemovedParams", _CURRENT),
        _notice("mcp/stopServer", "MCPStopServerParams"),
        _notice("mcp/startServer", "MCPStartServerParams"),
        _notice("mcp/connectServer", "MCPConnectServerParams", _CURRENT),
        _notice("mcp/logoutServer", "MCPLogoutServerParams", _CURRENT),
        _notice("mcp/disableServer", "MCPDisableServerParams", _CURRENT),
        _notice("mcp/enableServer", "MCPEnableServerParams", _CURRENT),
        _request("mcp/updateServer", "MCPUpdateServerParams", "MCPUpdateServerResult", _CURRENT),
        _request("mcp/addServer", "MCPAddServerParams", "MCPAddServerResult", _CURRENT),
        _request("mcp/removeServer", "MCPRemoveServerParams", "MCPRemoveServerResult", _CURRENT),
        _request("providers/list", "ProvidersListParams", "ProvidersListResult", _CURRENT),
        _request("providers/login", "ProvidersLoginParams", "ProvidersLoginResult", _CURRENT),
        _request(
            "providers/loginInput", "ProvidersLoginInputParams", "ProvidersLoginResult", _CURRENT
        ),
        _request("providers/logout", "ProvidersLogoutParams", "ProvidersLogoutResult", _CURRENT),
        _news("providers/updated", "ProviderStatus", _CURRENT),
        _request("jobs/list", "JobsListParams", "JobsListResult", _CURRENT),
        _request("jobs/kill", "JobsKillParams", "JobsKillResult", _CURRENT),
        _request("jobs/readOutput", "JobsReadOutputParams", "JobsReadOutputResult", _CURRENT),
        _news("jobs/updated", "JobsUpdatedParams", _CURRENT),
        _news("$/progress", "ProgressParams", _STARTING),
        _news("$/showMessage", "ShowMessageParams"),
    ]
)
