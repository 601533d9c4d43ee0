"""Additions and changes of CURRENT since October 2025, in the notation of `interfaces`.

An older interface lists only new and changed fields; `-name` removes a field.
"""

from __future__ import annotations

from typing import Final

_POSITION: Final = "line:number character:number"
_PAGE: Final = "chatId:string limit?:number before?:string after?:string"
_LOCATIONS: Final = (
    "status:'success'|'starting'|'no-server'|'error' locations?:EditorLocation[] message?:string"
)

INTERFACES_DATA: Final[dict[str, dict[str, str]]] = {
    "CURRENT: lifecycle": {
        "InitializeParams": "processId?:integer|null",
        "InitializeParams.initializationOptions": "-chatBehavior chatAgent?:string",
        "ClientCapabilities.codeAssistant": "rewrite?:boolean chatCapabilities?:object",
        "ClientCapabilities.codeAssistant.editor": "definition?:boolean references?:boolean",
        "ClientCapabilities.codeAssistant.chatCapabilities": "askQuestion?:boolean",
        "InitializeResponse": "chatWelcomeMessage?:string globalConfigPath?:string",
        "ProgressParams": "type:'start'|'finish' taskId:string title:string",
    },
    "CURRENT: chat": {
        "ChatPromptParams": "-behavior agent?:string variant?:string trust?:boolean",
        "ChatInlinePromptParams": (
            "chatId:string sourceChatId?:string message:string model?:ChatModel agent?:string "
            "contexts?:ChatContext[] variant?:string trust?:boolean"
        ),
        "ImageContext": "type:'image' mediaType:string base64:string",
        "TextContext": "type:'text' label:string content:string",
        "ChatPromptResponse": "status:'prompting'|'login'|'error'",
        "ChatContentReceivedParams": "parentChatId?:string",
        "ChatTextContent": "contentId?:string",
        "ChatProgressContent": "text?:string",
        "ChatHookActionStartedContent": (
            "type:'hookActionStarted' id:string name:string actionType:'shell'"
        ),
        "ChatHookActionFinishedContent": (
            "type:'hookActionFinished' id:string name:string actionType:'shell' status:number "
            "output?:string error?:string toolCallId?:string"
        ),
        "ChatImageContent": "type:'image' mediaType:string base64:string",
        "ChatUsageContent": "autoCompactPercentage?:number contextBreakdown?:object",
        "ChatUsageContent.limit": "output?:number",
        "ChatUsageContent.contextBreakdown": (
            "categories:object[] usedTokens:number freeTokens?:number contextLimit?:number "
            "freeColor?:string freeEmoji?:string"
        ),
        "ChatUsageContent.contextBreakdown.categories": (
            "name:string tokens:number color:string emoji:string"
        ),
        "ChatToolCallRejectedContent": (
            "reason:'userChoiceDeny'|'userConfigDeny'|'hookRejected'|'userPromptStop'"
            "|'userStop'|'user'|'interrupted'"
        ),
        "JsonOutputsDetails": "type:'jsonOutputs' jsons:string[]",
        "SubagentDetails": (
            "type:'subagent' subagentChatId?:string model:string variant?:string "
            "agentName:string maxSteps?:number step:number"
        ),
        "TaskDetails": (
            "type:'task' tasks:TaskItem[] inProgressTaskIds:number[] summary:object "
            "activeSummary?:string"
        ),
        "TaskDetails.summary": "done:number inProgress:number pending:number total:number",
        "TaskItem": (
            "id:number subject:string description:string status:'pending'|'in-progress'|'done' "
            "priority:'high'|'medium'|'low' isBlocked:boolean blockedBy?:number[]"
        ),
        "ShellCommandDetails": (
            "type:'shellCommand' commands:ShellCommandBreakdown[] background?:boolean"
        ),
        "ShellCommandBreakdown": (
            "command:string args:string[] approvalKey?:string remembered?:boolean"
        ),
        "ChatFlagContent": "type:'flag' text:string contentId:string",
        "ChatQueryFilesParams": "chatId?:string query:string",
        "ChatQueryFilesResponse": "chatId?:string files:ChatContext[]",
        "ChatCommand": "type:'mcpPrompt'|'native'|'customPrompt'|'skill'",
        "ChatCommand.arguments": "required?:boolean",
        "ChatPromptSteerParams": "chatId:string message:string",
        "ChatPromptSteerRemoveParams": "chatId:string",
        "ChatRollbackParams": "chatId:string contentId:string include:ChatRollbackInclude[]",
        "ChatRollbackResponse": "",
        "ChatClearParams": "chatId:string messages?:boolean",
        "ChatClearResponse": "",
        "ChatAddFlagParams": "chatId:string contentId:string text:string",
        "ChatAddFlagResponse": "",
        "ChatRemoveFlagParams": "chatId:string contentId:string",
        "ChatRemoveFlagResponse": "",
        "ChatForkParams": "chatId:string contentId:string",
        "ChatForkResponse": "chatId?:string",
        "ChatClearedParams": "chatId:string messages:boolean",
        "ChatOpenedParams": "chatId:string title?:string",
        "ChatStatusChangedParams": "chatId:string status:ChatStatus",
        "ChatDeletedParams": "chatId:string",
        "ChatUpdateParams": "chatId:string title?:string trust?:boolean",
        "ChatUpdateResponse": "",
        "ChatListParams": "limit?:number sortBy?:'updatedAt'|'createdAt'",
        "ChatListResponse": "chats:ChatSummary[]",
        "ChatSummary": (
            "id:string title?:string status:ChatStatus createdAt?:number updatedAt?:number "
            "model?:ChatModel messageCount:number kind?:ChatKind"
        ),
        "ChatOpenParams": _PAGE,
        "ChatOpenResponse": (
            "found:boolean chatId?:string title?:string selection?:object meta?:ChatHistoryMeta"
        ),
        "ChatOpenResponse.selection": (
            "model:ChatModel|null agent:string variant:string|null variants:string[] trust:boolean"
        ),
        "ChatHistoryParams": _PAGE,
        "ChatHistoryResponse": "contents?:ChatContentReceivedParams[] meta?:ChatHistoryMeta",
        "ChatHistoryMeta": (
            "total:number returned:number beforeCursor:string|null afterCursor:string|null "
            "compactionCursor:string|null"
        ),
        "ChatSelectedAgentChanged": "chatId?:string agent:string",
        "ChatSelectedModelChanged": "chatId?:string model:ChatModel variant?:string",
    },
    "CURRENT: editor": {
        "EditorGetDefinitionParams": "uri:string position:object",
        "EditorGetDefinitionParams.position": _POSITION,
        "EditorGetDefinitionResponse": _LOCATIONS,
        "EditorGetReferencesParams": "uri:string position:object includeDeclaration?:boolean",
        "EditorGetReferencesParams.position": _POSITION,
        "EditorGetReferencesResponse": _LOCATIONS,
        "EditorLocation": "uri:string range:Range",
        "Range": "start:object end:object",
        "Range.start": _POSITION,
        "Range.end": _POSITION,
        "ChatAskQuestionParams": (
            "chatId:string question:string options?:ChatAskQuestionOption[] toolCallId?:string "
            "allowFreeform:boolean"
        ),
        "ChatAskQuestionOption": "label:string description?:string",
        "ChatAskQuestionResponse": "answer:string|null cancelled:boolean",
    },
    "CURRENT: completion and rewrite": {
        "CompletionInlineParams": "docText:string docVersion:number position:object",
        "CompletionInlineParams.position": _POSITION,
        "CompletionInlineResponse": "items:CompletionInlineItem[]",
        "CompletionInlineItem": "text:string docVersion:number range:Range",
        "RewritePromptParams": "id:string text:string prompt:string path?:string range:Range",
        "RewritePromptResponse": "status:'prompting' model:ChatModel",
        "RewriteContentReceivedParams": "rewriteId:string content:RewriteContent",
        "RewriteStartedContent": "type:'started'",
        "RewriteReasoningContent": "type:'reasoning'",
        "RewriteTextContent": "type:'text' text:string",
        "RewriteReplaceContent": "type:'replace' text:string",
        "RewriteErrorContent": "type:'error' message:string",
        "RewriteFinishedContent": "type:'finished' totalTimeMs:number",
    },
    "CURRENT: configuration": {
        "ConfigUpdatedParams": "chatId?:string",
        "ConfigUpdatedParams.chat": (
            "-behaviors -selectBehavior agents?:string[] selectAgent?:string variants?:string[] "
            "selectVariant?:string|null selectTrust?:boolean"
        ),
        "WorkspaceDidChangeWorkspaceFoldersParams": "event:object",
        "WorkspaceDidChangeWorkspaceFoldersParams.event": (
            "added:WorkspaceFolder[] removed:WorkspaceFolder[]"
        ),
    },
    "CURRENT: tools": {
        "MCPServerUpdatedParams": (
            "command?:string args?:string[] url?:string "
            "status:'running'|'starting'|'stopped'|'failed'|'disabled'|'requires-auth' "
            "disabled:boolean hasAuth:boolean prompts?:ServerPrompt[] resources?:ServerResource[]"
        ),
        "ServerPrompt": "name:string description:string arguments?:PromptArgument[]",
        "PromptArgument": "name:string description:string required:boolean",
        "ServerResource": "uri:string name:string description:string mimeType:string",
        "ToolServerRemovedParams": "name:string",
        "MCPConnectServerParams": "name:string",
        "MCPLogoutServerParams": "name:string",
        "MCPDisableServerParams": "name:string",
        "MCPEnableServerParams": "name:string",
        "MCPUpdateServerParams": (
            "name:string command?:string args?:string[] url?:string env?:map headers?:map"
        ),
        "MCPUpdateServerResult": "",
        "MCPAddServerParams": (
            "name:string command?:string args?:string[] env?:map url?:string headers?:map "
            "clientId?:string clientSecret?:string oauthPort?:number authScope?:string "
            "disabled?:boolean scope?:'global'|'workspace' workspaceUri?:string"
        ),
        "MCPAddServerResult": "server?:MCPServerUpdatedParams",
        "MCPRemoveServerParams": "name:string",
        "MCPRemoveServerResult": "name?:string removed?:boolean",
    },
    "CURRENT: providers": {
        "ProvidersListParams": "",
        "ProvidersListResult": "providers:ProviderStatus[]",
        "ProviderStatus": (
            "id:string label?:string configured:boolean auth:ProviderAuth login?:object "
            "models:ProviderModel[] settings?:map"
        ),
        "ProviderStatus.login": "methods:LoginMethod[]",
        "ProviderAuth": (
            "status:'authenticated'|'expiring'|'expired'|'unauthenticated'|'local'|'not-running' "
            "type?:'oauth'|'api-key' source?:'config'|'login'|'env' mode?:string "
            "expiresAt?:number envVar?:string"
        ),
        "LoginMethod": "key:string label:string",
        "ProviderModel": "id:string capabilities:object cost?:object settings?:map",
        "ProviderModel.capabilities": (
            "reason:boolean vision:boolean tools:boolean webSearch:boolean"
        ),
        "ProviderModel.cost": "input:number output:number",
        "ProvidersLoginParams": "provider:string method?:string",
        "ProvidersLoginResult": (
            "action:'choose-method'|'authorize'|'device-code'|'input'|'done' "
            "methods?:LoginMethod[] url?:string code?:string message?:string fields?:InputField[]"
        ),
        "InputField": "key:string label:string type:'secret'|'text'",
        "ProvidersLoginInputParams": "provider:string data:map",
        "ProvidersLogoutParams": "provider:string",
        "ProvidersLogoutResult": "",
    },
    "CURRENT: jobs": {
        "JobsListParams": "",
        "JobsListResult": "jobs:JobSummary[]",
        "JobSummary": (
            "id:string type:string status:JobStatus label:string summary:string|null "
            "startedAt:string elapsed:string exitCode:number|null chatId:string chatLabel:string"
        ),
        "JobsUpdatedParams": "jobs:JobSummary[]",
        "JobsKillParams": "jobId:string",
        "JobsKillResult": "killed:boolean",
        "JobsReadOutputParams": "jobId:string",
        "JobsReadOutputResult": "lines:OutputLine[] status:JobStatus|null exitCode:number|null",
        "OutputLine": "text:string stream:'stdout'|'stderr'",
    },
}
"""The fields of each interface, by section."""

ALIASES_DATA: Final[dict[str, dict[str, str]]] = {
    "CURRENT: chat": {
        "ChatContext": "ImageContext|TextContext",
        "ChatContent": (
            "ChatImageContent|ChatHookActionStartedContent|ChatHookActionFinishedContent"
            "|ChatFlagContent"
        ),
        "ToolCallOrigin": "'server'|'unknown'",
        "ToolCallDetails": "JsonOutputsDetails|SubagentDetails|TaskDetails|ShellCommandDetails",
        "ChatRollbackInclude": "'messages'|'tools'",
        "ChatKind": "'inline'",
        "ChatStatus": "'idle'|'running'|'stopping'|'login'",
    },
    "CURRENT: completion and rewrite": {
        "RewriteContent": (
            "RewriteStartedContent|RewriteReasoningContent|RewriteTextContent"
            "|RewriteReplaceContent|RewriteErrorContent|RewriteFinishedContent"
        ),
    },
    "CURRENT: jobs": {"JobStatus": "'running'|'completed'|'failed'|'killed'"},
}
"""The added alternatives of each alias, by section."""
