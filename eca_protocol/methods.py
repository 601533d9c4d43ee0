"""The method table: each method of each edition, its sender, params and result.

A row's type says who sends the method, with which params, and for which result, so that mypy checks
`client.request(CHAT_LIST, ChatListParams())` and `CHAT_LIST.handled_by(function)`. Dispatch, codec,
schema, strategies and documents derive from the table. `$/cancelRequest` is not in it: the endpoint
handles cancellation for every JSON-RPC protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import UnionType
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from eca_protocol import messages as m
from eca_protocol.endpoint import Direction, Method, Table
from eca_protocol.revisions import EVER, Revision, Window

__all__ = ["ECA", "ClientNotification", "ClientRequest", "ServerNotification", "ServerRequest"]

P = TypeVar("P")
R = TypeVar("R")

# A chapter of messages is imported when its types are first needed.
_Type: TypeAlias = type[P] | UnionType | None
_Types: TypeAlias = Callable[[], tuple[type[P] | None, type[R] | None]]


class _Request(Method, Generic[P, R]):
    _direction: ClassVar[Direction]

    def __init__(self, name: str, types: _Types[P, R], window: Window = EVER) -> None:
        super().__init__(
            name=name, kind="request", direction=self._direction, types=types, window=window
        )

    def handled_by(
        self, handler: Callable[[P], R | Awaitable[R]]
    ) -> tuple[str, Callable[[Any], Any]]:
        """Return an item of a peer's `handlers`; the types of the handler are checked."""
        return self.name, handler


class _Notification(Method, Generic[P]):
    _direction: ClassVar[Direction]

    def __init__(self, name: str, params: Callable[[], _Type[P]], window: Window = EVER) -> None:
        super().__init__(
            name=name,
            kind="notification",
            direction=self._direction,
            types=lambda: (params(), None),
            window=window,
        )

    def handled_by(self, handler: Callable[[P], None]) -> tuple[str, Callable[[Any], Any]]:
        """Return an item of a peer's `handlers`; the types of the handler are checked."""
        return self.name, handler


def handlers(*rows: tuple[str, Callable[[Any], Any]]) -> dict[str, Callable[[Any], Any]]:
    """Return the handlers of a peer, each made by `handled_by`."""
    return dict(rows)


class ClientRequest(_Request[P, R]):
    """A request of the client, with params `P` and the result `R`."""

    _direction = "client_to_server"


class ServerRequest(_Request[P, R]):
    """A request of the server, with params `P` and the result `R`."""

    _direction = "server_to_client"


class ClientNotification(_Notification[P]):
    """A notification of the client, with params `P`."""

    _direction = "client_to_server"


class ServerNotification(_Notification[P]):
    """A notification of the server, with params `P`."""

    _direction = "server_to_client"


_CURRENT: Final = Window(since=Revision.CURRENT)
_PROGRESS: Final = Window(since=Revision.CURRENT, ruling="W-11")

INITIALIZE = ClientRequest("initialize", lambda: (m.InitializeParams, m.InitializeResponse))
INITIALIZED = ClientNotification("initialized", lambda: m.InitializedParams)
SHUTDOWN: ClientRequest[None, None] = ClientRequest("shutdown", lambda: (None, None))
EXIT: ClientNotification[None] = ClientNotification("exit", lambda: None)
CHAT_PROMPT = ClientRequest("chat/prompt", lambda: (m.ChatPromptParams, m.ChatPromptResponse))
CHAT_INLINE_PROMPT = ClientRequest(
    "chat/inlinePrompt", lambda: (m.ChatInlinePromptParams, m.ChatPromptResponse), _CURRENT
)
CHAT_CONTENT_RECEIVED = ServerNotification(
    "chat/contentReceived", lambda: m.ChatContentReceivedParams
)
CHAT_TOOL_CALL_APPROVE = ClientNotification(
    "chat/toolCallApprove", lambda: m.ChatToolCallApproveParams
)
CHAT_TOOL_CALL_REJECT = ClientNotification(
    "chat/toolCallReject", lambda: m.ChatToolCallRejectParams
)
CHAT_QUERY_CONTEXT = ClientRequest(
    "chat/queryContext", lambda: (m.ChatQueryContextParams, m.ChatQueryContextResponse)
)
CHAT_QUERY_FILES = ClientRequest(
    "chat/queryFiles", lambda: (m.ChatQueryFilesParams, m.ChatQueryFilesResponse), _CURRENT
)
CHAT_QUERY_COMMANDS = ClientRequest(
    "chat/queryCommands", lambda: (m.ChatQueryCommandsParams, m.ChatQueryCommandsResponse)
)
CHAT_PROMPT_STOP = ClientNotification("chat/promptStop", lambda: m.ChatPromptStopParams)
CHAT_PROMPT_STEER = ClientNotification(
    "chat/promptSteer", lambda: m.ChatPromptSteerParams, _CURRENT
)
CHAT_PROMPT_STEER_REMOVE = ClientNotification(
    "chat/promptSteerRemove", lambda: m.ChatPromptSteerRemoveParams, _CURRENT
)
CHAT_ROLLBACK = ClientRequest(
    "chat/rollback", lambda: (m.ChatRollbackParams, m.ChatRollbackResponse), _CURRENT
)
CHAT_CLEAR = ClientRequest("chat/clear", lambda: (m.ChatClearParams, m.ChatClearResponse), _CURRENT)
CHAT_ADD_FLAG = ClientRequest(
    "chat/addFlag", lambda: (m.ChatAddFlagParams, m.ChatAddFlagResponse), _CURRENT
)
CHAT_REMOVE_FLAG = ClientRequest(
    "chat/removeFlag", lambda: (m.ChatRemoveFlagParams, m.ChatRemoveFlagResponse), _CURRENT
)
CHAT_FORK = ClientRequest("chat/fork", lambda: (m.ChatForkParams, m.ChatForkResponse), _CURRENT)
CHAT_CLEARED = ServerNotification("chat/cleared", lambda: m.ChatClearedParams, _CURRENT)
CHAT_OPENED = ServerNotification("chat/opened", lambda: m.ChatOpenedParams, _CURRENT)
CHAT_STATUS_CHANGED = ServerNotification(
    "chat/statusChanged", lambda: m.ChatStatusChangedParams, _CURRENT
)
CHAT_DELETED = ServerNotification("chat/deleted", lambda: m.ChatDeletedParams, _CURRENT)
CHAT_DELETE = ClientRequest("chat/delete", lambda: (m.ChatDeleteParams, m.ChatDeleteResponse))
CHAT_UPDATE = ClientRequest(
    "chat/update", lambda: (m.ChatUpdateParams, m.ChatUpdateResponse), _CURRENT
)
CHAT_LIST = ClientRequest("chat/list", lambda: (m.ChatListParams, m.ChatListResponse), _CURRENT)
CHAT_OPEN = ClientRequest("chat/open", lambda: (m.ChatOpenParams, m.ChatOpenResponse), _CURRENT)
CHAT_HISTORY = ClientRequest(
    "chat/history", lambda: (m.ChatHistoryParams, m.ChatHistoryResponse), _CURRENT
)
CHAT_SELECTED_BEHAVIOR_CHANGED = ClientNotification(
    "chat/selectedBehaviorChanged", lambda: m.ChatSelectedBehaviorChanged
)
CHAT_SELECTED_AGENT_CHANGED = ClientNotification(
    "chat/selectedAgentChanged", lambda: m.ChatSelectedAgentChanged, _CURRENT
)
CHAT_SELECTED_MODEL_CHANGED = ClientNotification(
    "chat/selectedModelChanged", lambda: m.ChatSelectedModelChanged, _CURRENT
)
EDITOR_GET_DIAGNOSTICS = ServerRequest(
    "editor/getDiagnostics", lambda: (m.EditorGetDiagnosticsParams, m.EditorGetDiagnosticsResponse)
)
EDITOR_GET_DEFINITION = ServerRequest(
    "editor/getDefinition",
    lambda: (m.EditorGetDefinitionParams, m.EditorGetDefinitionResponse),
    _CURRENT,
)
EDITOR_GET_REFERENCES = ServerRequest(
    "editor/getReferences",
    lambda: (m.EditorGetReferencesParams, m.EditorGetReferencesResponse),
    _CURRENT,
)
CHAT_ASK_QUESTION = ServerRequest(
    "chat/askQuestion", lambda: (m.ChatAskQuestionParams, m.ChatAskQuestionResponse), _CURRENT
)
COMPLETION_INLINE = ClientRequest(
    "completion/inline", lambda: (m.CompletionInlineParams, m.CompletionInlineResponse), _CURRENT
)
REWRITE_PROMPT = ClientRequest(
    "rewrite/prompt", lambda: (m.RewritePromptParams, m.RewritePromptResponse), _CURRENT
)
REWRITE_CONTENT_RECEIVED = ServerNotification(
    "rewrite/contentReceived", lambda: m.RewriteContentReceivedParams, _CURRENT
)
CONFIG_UPDATED = ServerNotification("config/updated", lambda: m.ConfigUpdatedParams)
WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS = ClientNotification(
    "workspace/didChangeWorkspaceFolders",
    lambda: m.WorkspaceDidChangeWorkspaceFoldersParams,
    _CURRENT,
)
TOOL_SERVER_UPDATED: ServerNotification[m.ToolServerUpdatedParams] = ServerNotification(
    "tool/serverUpdated", lambda: m.ToolServerUpdatedParams
)
TOOL_SERVER_REMOVED = ServerNotification(
    "tool/serverRemoved", lambda: m.ToolServerRemovedParams, _CURRENT
)
MCP_STOP_SERVER = ClientNotification("mcp/stopServer", lambda: m.MCPStopServerParams)
MCP_START_SERVER = ClientNotification("mcp/startServer", lambda: m.MCPStartServerParams)
MCP_CONNECT_SERVER = ClientNotification(
    "mcp/connectServer", lambda: m.MCPConnectServerParams, _CURRENT
)
MCP_LOGOUT_SERVER = ClientNotification(
    "mcp/logoutServer", lambda: m.MCPLogoutServerParams, _CURRENT
)
MCP_DISABLE_SERVER = ClientNotification(
    "mcp/disableServer", lambda: m.MCPDisableServerParams, _CURRENT
)
MCP_ENABLE_SERVER = ClientNotification(
    "mcp/enableServer", lambda: m.MCPEnableServerParams, _CURRENT
)
MCP_UPDATE_SERVER = ClientRequest(
    "mcp/updateServer", lambda: (m.MCPUpdateServerParams, m.MCPUpdateServerResult), _CURRENT
)
MCP_ADD_SERVER = ClientRequest(
    "mcp/addServer", lambda: (m.MCPAddServerParams, m.MCPAddServerResult), _CURRENT
)
MCP_REMOVE_SERVER = ClientRequest(
    "mcp/removeServer", lambda: (m.MCPRemoveServerParams, m.MCPRemoveServerResult), _CURRENT
)
PROVIDERS_LIST = ClientRequest(
    "providers/list", lambda: (m.ProvidersListParams, m.ProvidersListResult), _CURRENT
)
PROVIDERS_LOGIN = ClientRequest(
    "providers/login", lambda: (m.ProvidersLoginParams, m.ProvidersLoginResult), _CURRENT
)
PROVIDERS_LOGIN_INPUT = ClientRequest(
    "providers/loginInput", lambda: (m.ProvidersLoginInputParams, m.ProvidersLoginResult), _CURRENT
)
PROVIDERS_LOGOUT = ClientRequest(
    "providers/logout", lambda: (m.ProvidersLogoutParams, m.ProvidersLogoutResult), _CURRENT
)
PROVIDERS_UPDATED = ServerNotification("providers/updated", lambda: m.ProviderStatus, _CURRENT)
JOBS_LIST = ClientRequest("jobs/list", lambda: (m.JobsListParams, m.JobsListResult), _CURRENT)
JOBS_KILL = ClientRequest("jobs/kill", lambda: (m.JobsKillParams, m.JobsKillResult), _CURRENT)
JOBS_READ_OUTPUT = ClientRequest(
    "jobs/readOutput", lambda: (m.JobsReadOutputParams, m.JobsReadOutputResult), _CURRENT
)
JOBS_UPDATED = ServerNotification("jobs/updated", lambda: m.JobsUpdatedParams, _CURRENT)
PROGRESS = ServerNotification("$/progress", lambda: m.ProgressParams, _PROGRESS)
SHOW_MESSAGE = ServerNotification("$/showMessage", lambda: m.ShowMessageParams)

ECA: Final = Table(row for row in tuple(globals().values()) if isinstance(row, Method))
