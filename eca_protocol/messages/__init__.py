"""The messages of the protocol as attrs models, one module per chapter of the specification.

A class has the name of the specification's interface. Attributes are snake_case, keys on the wire
camelCase. Lists are tuples; user data (arguments, schemas, options) is not changed.

A chapter is imported at the first use of one of its names, because few are needed at a start.
"""
# ruff: noqa: F403 - type checkers see a chapter's public names

from __future__ import annotations

from typing import TYPE_CHECKING

from eca_protocol.lazy import export

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from eca_protocol.messages.chat import *
    from eca_protocol.messages.completion import *
    from eca_protocol.messages.configuration import *
    from eca_protocol.messages.content import *
    from eca_protocol.messages.contexts import *
    from eca_protocol.messages.details import *
    from eca_protocol.messages.editor import *
    from eca_protocol.messages.general import *
    from eca_protocol.messages.history import *
    from eca_protocol.messages.jobs import *
    from eca_protocol.messages.lifecycle import *
    from eca_protocol.messages.marks import UnknownValue as UnknownValue
    from eca_protocol.messages.mcp import *
    from eca_protocol.messages.providers import *
    from eca_protocol.messages.queries import *
    from eca_protocol.messages.rewrite import *
    from eca_protocol.messages.tools import *
    from eca_protocol.messages.workspace import *

    dumps: Callable[..., str]
    loads: Callable[..., Any]

_NAMES = {
    "chat": (
        "ChatDeleteParams ChatDeleteResponse ChatInlinePromptParams ChatPromptParams "
        "ChatPromptResponse ChatPromptStatus ChatPromptSteerParams ChatPromptSteerRemoveParams "
        "ChatPromptStopParams ChatSelectedAgentChanged ChatSelectedBehaviorChanged "
        "ChatSelectedModelChanged ChatToolCallApproveParams ChatToolCallRejectParams "
        "ToolCallApprovalSave"
    ),
    "completion": "CompletionInlineItem CompletionInlineParams CompletionInlineResponse",
    "configuration": "ChatConfig ConfigUpdatedParams",
    "content": (
        "ChatContent ChatContentReceivedParams ChatFlagContent ChatHookActionFinishedContent "
        "ChatHookActionStartedContent ChatImageContent ChatMetadataContent ChatProgressContent "
        "ChatReasonFinishedContent ChatReasonStartedContent ChatReasonTextContent ChatRole "
        "ChatTextContent ChatToolCallPrepareContent ChatToolCallRejectedContent "
        "ChatToolCallRunContent ChatToolCallRunningContent ChatToolCalledContent ChatURLContent "
        "ChatUsageContent ContextBreakdown ContextCategory HookActionType ProgressState "
        "ToolCallOrigin ToolCallRejectedReason UnknownContent UsageLimit"
    ),
    "contexts": (
        "ChatContext CursorContext DirectoryContext FileContext ImageContext LinesRange "
        "McpResourceContext RepoMapContext TextContext UnknownContext WebContext"
    ),
    "details": (
        "FileChangeDetails JsonOutputsDetails ShellCommandBreakdown ShellCommandDetails "
        "SubagentDetails TaskDetails TaskItem TaskPriority TaskStatus TaskSummary ToolCallDetails "
        "ToolCallOutput ToolCallTextOutput UnknownToolCallDetails UnknownToolCallOutput"
    ),
    "editor": (
        "ChatAskQuestionOption ChatAskQuestionParams ChatAskQuestionResponse DiagnosticSeverity "
        "EditorDiagnostic EditorGetDefinitionParams EditorGetDefinitionResponse "
        "EditorGetDiagnosticsParams EditorGetDiagnosticsResponse EditorGetReferencesParams "
        "EditorGetReferencesResponse EditorLocation NavigationStatus Position Range"
    ),
    "general": "MessageType ProgressParams ProgressType ShowMessageParams",
    "history": (
        "ChatAddFlagParams ChatAddFlagResponse ChatClearParams ChatClearResponse "
        "ChatClearedParams ChatDeletedParams ChatForkParams ChatForkResponse ChatHistoryMeta "
        "ChatHistoryParams ChatHistoryResponse ChatKind ChatListParams ChatListResponse "
        "ChatListSorting ChatOpenParams ChatOpenResponse ChatOpenedParams ChatRemoveFlagParams "
        "ChatRemoveFlagResponse ChatRollbackInclude ChatRollbackParams ChatRollbackResponse "
        "ChatSelection ChatStatus ChatStatusChangedParams ChatSummary ChatUpdateParams "
        "ChatUpdateResponse"
    ),
    "jobs": (
        "JobStatus JobSummary JobsKillParams JobsKillResult JobsListParams JobsListResult "
        "JobsReadOutputParams JobsReadOutputResult JobsUpdatedParams OutputLine OutputStream"
    ),
    "lifecycle": (
        "ChatBehavior ChatCapabilities ChatModel ClientCapabilities ClientInfo "
        "CodeAssistantCapabilities EditorCapabilities InitializationOptions InitializeParams "
        "InitializeResponse InitializedParams WorkspaceFolder"
    ),
    "mcp": (
        "MCPAddServerParams MCPAddServerResult MCPConnectServerParams MCPDisableServerParams "
        "MCPEnableServerParams MCPLogoutServerParams MCPRemoveServerParams "
        "MCPRemoveServerResult MCPScope MCPStartServerParams MCPStopServerParams "
        "MCPUpdateServerParams MCPUpdateServerResult"
    ),
    "providers": (
        "InputField InputFieldType LoginAction LoginMethod LoginMethods ModelCapabilities "
        "ModelCost ProviderAuth ProviderAuthSource ProviderAuthStatus ProviderAuthType "
        "ProviderModel ProviderStatus ProvidersListParams ProvidersListResult "
        "ProvidersLoginInputParams ProvidersLoginParams ProvidersLoginResult "
        "ProvidersLogoutParams ProvidersLogoutResult"
    ),
    "queries": (
        "ChatCommand ChatCommandType ChatQueryCommandsParams ChatQueryCommandsResponse "
        "ChatQueryContextParams ChatQueryContextResponse ChatQueryFilesParams "
        "ChatQueryFilesResponse CommandArgument"
    ),
    "rewrite": (
        "RewriteContent RewriteContentReceivedParams RewriteErrorContent RewriteFinishedContent "
        "RewritePromptParams RewritePromptResponse RewritePromptStatus RewriteReasoningContent "
        "RewriteReplaceContent RewriteStartedContent RewriteTextContent UnknownRewriteContent"
    ),
    "tools": (
        "EcaServerName EcaServerStatus EcaServerUpdatedParams MCPServerStatus "
        "MCPServerUpdatedParams PromptArgument ServerPrompt ServerResource ServerTool "
        "ToolServerRemovedParams ToolServerUpdatedParams UnknownServerUpdatedParams"
    ),
    "workspace": "WorkspaceDidChangeWorkspaceFoldersParams WorkspaceFoldersChangeEvent",
    "marks": "UnknownValue",
    ".message_texts": "dumps loads",
}
export(globals(), _NAMES)
