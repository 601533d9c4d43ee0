"""The messages of the protocol as attrs models, one module per chapter of the specification.

A class has the name of the specification's interface. Attributes are snake_case, keys on the wire
camelCase. Lists are tuples; user data (arguments, schemas, options) is not changed.

A chapter is imported at the first use of one of its names, since a program's start needs few.
"""
# ruff: noqa: F403 - the chapters' `__all__` define the imported names

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from eca_protocol.messages import (
        chat,
        completion,
        configuration,
        content,
        contexts,
        details,
        editor,
        general,
        history,
        jobs,
        lifecycle,
        mcp,
        providers,
        queries,
        rewrite,
        tools,
        workspace,
    )
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
    from eca_protocol.messages.marks import UnknownValue
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
_CHAPTER_OF = {name: chapter for chapter, names in _NAMES.items() for name in names.split()}

__all__ = ["UnknownValue", "dumps", "loads"]
if TYPE_CHECKING:
    __all__ += chat.__all__
    __all__ += completion.__all__
    __all__ += configuration.__all__
    __all__ += content.__all__
    __all__ += contexts.__all__
    __all__ += details.__all__
    __all__ += editor.__all__
    __all__ += general.__all__
    __all__ += history.__all__
    __all__ += jobs.__all__
    __all__ += lifecycle.__all__
    __all__ += mcp.__all__
    __all__ += providers.__all__
    __all__ += queries.__all__
    __all__ += rewrite.__all__
    __all__ += tools.__all__
    __all__ += workspace.__all__
else:
    __all__ += [name for name in _CHAPTER_OF if name not in __all__]


if not TYPE_CHECKING:  # a type checker would take any name

    def __getattr__(name: str) -> Any:
        chapter = _CHAPTER_OF.get(name)
        if chapter is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{chapter}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
