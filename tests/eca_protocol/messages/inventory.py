"""The reader of the inventory of interfaces, with names for its anonymous objects."""

import re
from collections.abc import Iterable, Iterator

NAMED = {
    "InitializeParams.clientInfo": "ClientInfo",
    "InitializeParams.initializationOptions": "InitializationOptions",
    "ClientCapabilities.codeAssistant": "CodeAssistantCapabilities",
    "ClientCapabilities.codeAssistant.editor": "EditorCapabilities",
    "CursorContext.position": "Range",
    "CursorContext.position.start": "Position",
    "CursorContext.position.end": "Position",
    "ChatUsageContent.limit": "UsageLimit",
    "ChatToolCalledContent.outputs": "ToolCallTextOutput",
    "ChatCommand.arguments": "CommandArgument",
    "EditorDiagnostic.range": "Range",
    "EditorDiagnostic.range.start": "Position",
    "EditorDiagnostic.range.end": "Position",
    "ConfigUpdatedParams.chat": "ChatConfig",
    "ClientCapabilities.codeAssistant.chatCapabilities": "ChatCapabilities",
    "ChatUsageContent.contextBreakdown": "ContextBreakdown",
    "ChatUsageContent.contextBreakdown.categories": "ContextCategory",
    "TaskDetails.summary": "TaskSummary",
    "ChatOpenResponse.selection": "ChatSelection",
    "EditorGetDefinitionParams.position": "Position",
    "EditorGetReferencesParams.position": "Position",
    "Range.start": "Position",
    "Range.end": "Position",
    "CompletionInlineParams.position": "Position",
    "WorkspaceDidChangeWorkspaceFoldersParams.event": "WorkspaceFoldersChangeEvent",
    "ProviderStatus.login": "LoginMethods",
    "ProviderModel.capabilities": "ModelCapabilities",
    "ProviderModel.cost": "ModelCost",
}
"""Our names for the specification's anonymous objects."""


def spelled_fields(fields: Iterable[str]) -> Iterator[tuple[str, bool, str]]:
    """Yield the name of each field, True if it is required, and its type."""
    for spelled in fields:
        match = re.fullmatch(r"\*?(\w+)(\??):(.+)", spelled)
        assert match
        yield match[1], not match[2], match[3]
