"""Rows of every field and literal value of the specification's interfaces.

The data is an inventory: for each section, the interfaces and their fields, written `name:type`,
or `name?:type` if optional. An anonymous object is named by its path. `|` separates alternatives,
`'x'` is a literal, and a leading `*` marks additions of October 2025. An alias has alternatives
instead of fields. `interfaces_current` contains later additions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from eca_protocol.revisions import EVER, Revision, Window
from eca_protocol.testing.requirements import interfaces_current as current
from eca_protocol.testing.requirements.row import (
    SINCE_2025_10,
    SINCE_CURRENT,
    Requirement,
    Side,
)

_TOOL_CALL = "origin:ToolCallOrigin id:string name:string *server:string"
_DETAILS = "summary?:string details?:ToolCallDetails"

_DATA: Final[dict[str, dict[str, str]]] = {
    "Initialize": {
        "InitializeParams": (
            "processId:integer|null clientInfo?:object initializationOptions?:object "
            "capabilities:ClientCapabilities workspaceFolders:WorkspaceFolder[]"
        ),
        "InitializeParams.clientInfo": "name:string version?:string",
        "InitializeParams.initializationOptions": "chatBehavior?:ChatBehavior",
        "WorkspaceFolder": "uri:string name:string",
        "ClientCapabilities": "codeAssistant?:object",
        "ClientCapabilities.codeAssistant": "chat?:boolean editor?:object",
        "ClientCapabilities.codeAssistant.editor": "diagnostics?:boolean",
        "InitializeResponse": "",
    },
    "Initialized": {"InitializedParams": ""},
    "Chat Prompt": {
        "ChatPromptParams": (
            "chatId?:string message:string model?:ChatModel behavior?:ChatBehavior "
            "contexts?:ChatContext[]"
        ),
        "FileContext": "type:'file' path:string linesRange?:LinesRange",
        "LinesRange": "start:number end:number",
        "DirectoryContext": "type:'directory' path:string",
        "WebContext": "type:'web' url:string",
        "RepoMapContext": "type:'repoMap'",
        "CursorContext": "type:'cursor' path:string position:object",
        "CursorContext.position": "start:object end:object",
        "CursorContext.position.start": "line:number character:number",
        "CursorContext.position.end": "line:number character:number",
        "McpResourceContext": (
            "type:'mcpResource' uri:string name:string description:string mimeType:string "
            "server:string"
        ),
        "ChatPromptResponse": "chatId:string model:ChatModel status:'prompting'|'login'",
    },
    "Chat Content Received": {
        "ChatContentReceivedParams": (
            "chatId:string content:ChatContent role:'user'|'system'|'assistant'"
        ),
        "ChatTextContent": "type:'text' text:string",
        "ChatProgressContent": "type:'progress' state:'running'|'finished' text:string",
        "ChatReasonStartedContent": "type:'reasonStarted' id:string",
        "ChatReasonTextContent": "type:'reasonText' id:string text:string",
        "ChatReasonFinishedContent": "type:'reasonFinished' id:string totalTimeMs:number",
        "ChatURLContent": "type:'url' title:string url:string",
        "ChatUsageContent": (
            "type:'usage' sessionTokens:number lastMessageCost?:string sessionCost?:string "
            "limit?:object"
        ),
        "ChatUsageContent.limit": "context:number output:number",
        "ChatToolCallPrepareContent": (
            f"type:'toolCallPrepare' {_TOOL_CALL} argumentsText:string {_DETAILS}"
        ),
        "ChatToolCallRunContent": (
            f"type:'toolCallRun' {_TOOL_CALL} arguments:map manualApproval:boolean {_DETAILS}"
        ),
        "ChatToolCallRunningContent": (
            f"type:'toolCallRunning' {_TOOL_CALL} arguments:map {_DETAILS}"
        ),
        "ChatToolCalledContent": (
            f"type:'toolCalled' {_TOOL_CALL} arguments:map error:boolean outputs:object[] "
            f"totalTimeMs:number {_DETAILS}"
        ),
        "ChatToolCalledContent.outputs": "type:'text' text:string",
        "ChatToolCallRejectedContent": (
            f"type:'toolCallRejected' {_TOOL_CALL} arguments:map "
            f"reason:'user-choice'|'user-config' {_DETAILS}"
        ),
        "FileChangeDetails": (
            "type:'fileChange' path:string diff:string linesAdded:number linesRemoved:number"
        ),
        "ChatMetadataContent": "*type:'metadata' *title:string",
    },
    "Chat approve tool call": {
        "ChatToolCallApproveParams": "chatId:string *save?:'session' toolCallId:string",
    },
    "Chat reject tool call": {"ChatToolCallRejectParams": "chatId:string toolCallId:string"},
    "Chat Query Context": {
        "ChatQueryContextParams": "chatId?:string query:string contexts:ChatContext[]",
        "ChatQueryContextResponse": "chatId?:string contexts:ChatContext[]",
    },
    "Chat Query Commands": {
        "ChatQueryCommandsParams": "chatId?:string query:string",
        "ChatQueryCommandsResponse": "chatId?:string commands:ChatCommand[]",
        "ChatCommand": (
            "name:string description:string type:'mcp-prompt'|'native' arguments:object[]"
        ),
        "ChatCommand.arguments": "name:string description?:string required:boolean",
    },
    "Chat stop prompt": {"ChatPromptStopParams": "chatId:string"},
    "Chat delete": {"ChatDeleteParams": "chatId?:string", "ChatDeleteResponse": ""},
    "Chat selected behavior changed": {"ChatSelectedBehaviorChanged": "behavior:ChatBehavior"},
    "Editor diagnostics": {
        "EditorGetDiagnosticsParams": "uri?:string",
        "EditorGetDiagnosticsResponse": "diagnostics:EditorDiagnostic[]",
        "EditorDiagnostic": (
            "uri:string severity:'error'|'warning'|'info'|'hint' source:string range:object "
            "code?:string message:string"
        ),
        "EditorDiagnostic.range": "start:object end:object",
        "EditorDiagnostic.range.start": "line:number character:number",
        "EditorDiagnostic.range.end": "line:number character:number",
    },
    "Config updated": {
        "ConfigUpdatedParams": "chat?:object",
        "ConfigUpdatedParams.chat": (
            "models?:ChatModel[] behaviors?:ChatBehavior[] selectModel?:ChatModel "
            "selectBehavior?:ChatBehavior welcomeMessage?:string"
        ),
    },
    "Tool updated": {
        "EcaServerUpdatedParams": "type:'native' name:'ECA' status:'running' tools:ServerTool[]",
        "MCPServerUpdatedParams": (
            "type:'mcp' name:string command:string args:string[] "
            "status:'running'|'starting'|'stopped'|'failed'|'disabled' tools?:ServerTool[]"
        ),
        "ServerTool": "name:string description:string parameters:any disabled?:boolean",
    },
    "Stop MCP server": {"MCPStopServerParams": "name:string"},
    "Start MCP server": {"MCPStartServerParams": "name:string"},
    "showMessage": {"ShowMessageParams": "type:MessageType message:string"},
}

_ALIASES: Final[dict[str, dict[str, str]]] = {
    "Initialize": {"ChatBehavior": "'agent'|'plan'"},
    "Chat Prompt": {
        "ChatModel": "string",
        "ChatContext": (
            "FileContext|DirectoryContext|WebContext|RepoMapContext|CursorContext"
            "|McpResourceContext"
        ),
    },
    "Chat Content Received": {
        "ChatContent": (
            "ChatTextContent|ChatURLContent|ChatProgressContent|ChatUsageContent"
            "|ChatReasonStartedContent|ChatReasonTextContent|ChatReasonFinishedContent"
            "|ChatToolCallPrepareContent|ChatToolCallRunContent|ChatToolCallRunningContent"
            "|ChatToolCalledContent|ChatToolCallRejectedContent|*ChatMetadataContent"
        ),
        "ToolCallOrigin": "'mcp'|'native'",
        "ToolCallDetails": "FileChangeDetails",
    },
    "Tool updated": {
        "ToolServerUpdatedParams": "EcaServerUpdatedParams|MCPServerUpdatedParams",
    },
    "showMessage": {"MessageType": "'error'|'warning'|'info'"},
}


def interfaces_of(revision: Revision) -> dict[str, tuple[str, ...]]:
    """Return the fields of each interface of an edition, in the notation of the data."""
    interfaces = {
        name: known
        for group in _DATA.values()
        for name, fields in group.items()
        if (known := _known(fields.split(), revision)) or not fields
    }
    if SINCE_CURRENT.holds(revision):
        for group in current.INTERFACES_DATA.values():
            for interface, changes in group.items():
                interfaces[interface] = _changed(interfaces.get(interface, ()), changes.split())
    return interfaces


def aliases_of(revision: Revision) -> dict[str, tuple[str, ...]]:
    """Return the alternatives of each alias of an edition, in the notation of the data."""
    aliases = {
        name: _known(alternatives.split("|"), revision)
        for group in _ALIASES.values()
        for name, alternatives in group.items()
    }
    if SINCE_CURRENT.holds(revision):
        for group in current.ALIASES_DATA.values():
            for alias, added in group.items():
                aliases[alias] = (*aliases.get(alias, ()), *added.split("|"))
    return aliases


def _known(spelled: list[str], revision: Revision) -> tuple[str, ...]:
    is_october = SINCE_2025_10.holds(revision)
    return tuple(each for each in spelled if is_october or not each.startswith("*"))


def _changed(fields: tuple[str, ...], changes: list[str]) -> tuple[str, ...]:
    by_name = {_name(field): field for field in fields}
    for change in changes:
        if change.startswith("-"):
            del by_name[change.removeprefix("-")]
        else:
            by_name[_name(change)] = change
    return tuple(by_name.values())


def _name(spelled: str) -> str:
    return spelled.partition(":")[0].strip("*?")


_FIELD: Final = re.compile(r"(\*?)(\w+)(\??):(.+)")
_RULED: Final = {
    "FIELD:ChatToolCalledContent.arguments": "W-32",
    "FIELD:EditorDiagnostic.code": "W-42",
    "FIELD:MCPServerUpdatedParams.command": "W-60",
    "FIELD:MCPServerUpdatedParams.args": "W-60",
}
_BOTH: Final[Side] = "both"


def _requirement(id_: str, section: str, statement: str, window: Window) -> Requirement:
    return Requirement(
        id=id_,
        section=section,
        statement=statement,
        side=_BOTH,
        window=window,
        ruling=_RULED.get(id_),
    )


def _rows() -> Iterator[Requirement]:
    rows = {
        row.id: row
        for row in (
            *_rows_of(current.INTERFACES_DATA, current.ALIASES_DATA, SINCE_CURRENT),
            *_rows_of(_DATA, _ALIASES, EVER),
        )
    }
    yield from rows.values()


def _rows_of(
    interfaces: dict[str, dict[str, str]], aliases: dict[str, dict[str, str]], window: Window
) -> Iterator[Requirement]:
    for section, group in interfaces.items():
        for interface, fields in group.items():
            for spelling in fields.split():
                if not spelling.startswith("-"):
                    yield from _field_rows(section, interface, spelling, window)
    for section, group in aliases.items():
        for alias, alternatives in group.items():
            for alternative in alternatives.split("|"):
                name = alternative.strip("*'")
                yield _requirement(
                    f"VALUE:{alias}={name}",
                    section,
                    f"{alias} may be {name}.",
                    SINCE_2025_10 if alternative.startswith("*") else window,
                )


def _field_rows(
    section: str, interface: str, spelling: str, window: Window
) -> Iterator[Requirement]:
    match = _FIELD.fullmatch(spelling)
    assert match, f"{interface}: expected `name:type`, got {spelling!r}"
    star, name, optional, type_ = match.groups()
    window = SINCE_2025_10 if star else window
    statement = f"{interface} has {'an optional' if optional else 'a'} {name}: {type_}."
    yield _requirement(f"FIELD:{interface}.{name}", section, statement, window)
    for literal in re.findall(r"'([^']+)'", type_):
        yield _requirement(
            f"VALUE:{interface}.{name}={literal}",
            section,
            f"{name} of {interface} may be {literal}.",
            window,
        )


ROWS = tuple(_rows())
