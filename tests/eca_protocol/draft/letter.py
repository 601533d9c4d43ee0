"""The draft's text as data, written independently of the models, and a check against it.

`name` is a required member, `name?` an optional one; a list's item is in brackets.
"""

from collections.abc import Mapping
from typing import Any

LETTER: Mapping[str, Any] = {
    "InitializeParams": {
        "processId": "integer|null",
        "clientInfo?": "ClientInfo",
        "initializationOptions?": "any",
        "capabilities": "ClientCapabilities",
        "workspaceFolders": ["WorkspaceFolder"],
    },
    "ClientInfo": {"name": "string", "version?": "string"},
    "ClientCapabilities": {"codeAssistant?": "CodeAssistant"},
    "CodeAssistant": {"chat?": "boolean", "doc?": "boolean", "edit?": "boolean", "fix?": "boolean"},
    "WorkspaceFolder": {"uri": "string", "name": "string"},
    "InitializedResult": {},
    "InitializedParams": {},
    "ChatPromptParams": {
        "chatId?": "string",
        "message": "string",
        "model?": ("gpt-4", "gpt-3.5-turbo", "claude-2", "codellama-34b", "auto"),
        "context?": ["ChatContext"],
    },
    "ChatContext": {"file": "FileContext", "web": "WebContext", "code": "CodeContext"},
    "FileContext": {"path": "string", "selection?": "Lines", "cursor?": "Cursor"},
    "Lines": {"startLine": "integer", "endLine": "integer"},
    "Cursor": {"line": "integer", "character": "integer"},
    "WebContext": {"url": "string"},
    "CodeContext": {"content": "string", "language": "string", "description?": "string"},
    "ChatPromptResponse": {
        "chatId": "string",
        "status": ("success", "connection-error"),
        "resultMessage": "string",
    },
    "ChatContentReceivedParams": {
        "chatId": "string",
        "content": "ChatContent",
        "isComplete": "boolean",
        "metadata?": "Metadata",
    },
    "Metadata": {"tokensUsed?": "integer"},
    "ChatContent": {"text": "TextContent", "fileChange": "FileChangeContent"},
    "TextContent": {"text": "string", "codeBlocks?": ["CodeBlock"]},
    "CodeBlock": {"code": "string", "language?": "string"},
    "FileChangeContent": {
        "description": "string",
        "manualApproval": "boolean",
        "file?": "string",
        "changes?": ["Change"],
    },
    "Change": {"kind": ("create", "change", "delete"), "content?": "string", "range?": "Lines"},
}
UNIONS = {"ChatContext", "ChatContent"}
SCALARS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "integer|null": (int, type(None)),
    "boolean": (bool,),
}
REQUESTS = {
    "initialize": ("InitializeParams", "InitializedResult"),
    "shutdown": (None, None),
    "chat/prompt": ("ChatPromptParams", "ChatPromptResponse"),
}
NOTIFICATIONS = {
    "initialized": "InitializedParams",
    "exit": None,
    "chat/contentReceived": "ChatContentReceivedParams",
}


def assert_is(kind: Any, value: Any, path: str = "") -> None:
    """Fail unless `value` is exactly of the draft's type `kind`."""
    if isinstance(kind, list):
        assert type(value) is list, f"{path}: {value!r}"
        for index, item in enumerate(value):
            assert_is(kind[0], item, f"{path}[{index}]")
    elif isinstance(kind, tuple):
        assert value in kind, f"{path}: {value!r}"
    elif kind is None:
        assert value is None, f"{path}: {value!r}"
    elif kind in SCALARS:
        assert type(value) in SCALARS[kind], f"{path}: {value!r}"
    elif kind in UNIONS:
        assert_is(
            LETTER[kind][value["type"]], {k: v for k, v in value.items() if k != "type"}, path
        )
    elif kind != "any":
        assert type(value) is dict, f"{path}: {value!r}"
        _assert_members(LETTER[kind], value, f"{path}.{kind}")


def _assert_members(members: Mapping[str, Any], value: Mapping[str, Any], path: str) -> None:
    known = {name.removesuffix("?"): (name.endswith("?"), kind) for name, kind in members.items()}
    assert value.keys() <= known.keys(), f"{path}: {value.keys() - known.keys()}"
    for name, (is_optional, kind) in known.items():
        if name in value:
            assert_is(kind, value[name], f"{path}.{name}")
        else:
            assert is_optional, f"{path}: {name} is missing"
