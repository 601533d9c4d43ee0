"""The draft's counterparts of the other editions' methods, contents and contexts.

They contain each method, content and context of the
method table, and no others. The codec writes the `draft` of a row. A row without `draft` is never
written on a draft connection; a client's request for it is answered as in October.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import attrs


@attrs.frozen
class Counterpart:
    """A row: the draft's name, or None; and the differences or the reason of the absence."""

    draft: str | None
    note: str


def _absent(note: str, *names: str) -> Iterator[tuple[str, Counterpart]]:
    return ((name, Counterpart(None, note)) for name in names)


METHODS: Final[Mapping[str, Counterpart]] = MappingProxyType(
    {
        "initialize": Counterpart(
            "initialize",
            "Options are of any type; the answer is empty, so there is no welcome message.",
        ),
        "initialized": Counterpart("initialized", "The same; no unsolicited message follows it."),
        "shutdown": Counterpart("shutdown", "The same."),
        "exit": Counterpart("exit", "The same."),
        "chat/prompt": Counterpart(
            "chat/prompt",
            "Behaviour, agent, variant and trust are the server's defaults; an answer with an "
            "error is connection-error, any other success.",
        ),
        "chat/contentReceived": Counterpart(
            "chat/contentReceived", "See the contents; those of subagents are omitted."
        ),
        "chat/promptStop": Counterpart(
            "chat/promptStop", "October's, since the draft cannot stop a turn (W-50)."
        ),
        "chat/toolCallApprove": Counterpart(
            "chat/toolCallApprove",
            "October's (W-52); any id means the chat's only waiting call.",
        ),
        "chat/toolCallReject": Counterpart(
            "chat/toolCallReject",
            "Like the approval; without a decision the call is rejected after a while (W-52).",
        ),
        **dict(
            _absent(
                "The draft has literals for models and no behaviours; the offered models are "
                "stored to resolve the literals (W-51).",
                "config/updated",
            )
        ),
        **dict(
            _absent(
                "A draft client has no place to show it.",
                "$/showMessage",
                "$/progress",
            )
        ),
        **dict(
            _absent(
                "The draft shows no tools, servers, providers or jobs.",
                "tool/serverUpdated",
                "tool/serverRemoved",
                "providers/updated",
                "jobs/updated",
            )
        ),
        **dict(
            _absent(
                "The draft has chats only by their id and their contents.",
                "chat/cleared",
                "chat/deleted",
                "chat/opened",
                "chat/statusChanged",
            )
        ),
        **dict(
            _absent(
                "The draft's server sends no requests: the capabilities for them are not read.",
                "chat/askQuestion",
                "editor/getDefinition",
                "editor/getDiagnostics",
                "editor/getReferences",
            )
        ),
        **dict(
            _absent(
                "Newer than the draft: answered as in October; never sent by our client.",
                "chat/addFlag",
                "chat/clear",
                "chat/delete",
                "chat/fork",
                "chat/history",
                "chat/inlinePrompt",
                "chat/list",
                "chat/open",
                "chat/promptSteer",
                "chat/promptSteerRemove",
                "chat/queryCommands",
                "chat/queryContext",
                "chat/queryFiles",
                "chat/removeFlag",
                "chat/rollback",
                "chat/selectedAgentChanged",
                "chat/selectedBehaviorChanged",
                "chat/selectedModelChanged",
                "chat/update",
                "jobs/kill",
                "jobs/list",
                "jobs/readOutput",
                "mcp/addServer",
                "mcp/connectServer",
                "mcp/disableServer",
                "mcp/enableServer",
                "mcp/logoutServer",
                "mcp/removeServer",
                "mcp/startServer",
                "mcp/stopServer",
                "mcp/updateServer",
                "providers/list",
                "providers/login",
                "providers/loginInput",
                "providers/logout",
                "rewrite/prompt",
                "workspace/didChangeWorkspaceFolders",
            )
        ),
        **dict(
            _absent(
                "The draft has a heading for completion without any text.",
                "completion/inline",
            )
        ),
        **dict(
            _absent("Belongs to a request that is newer than the draft.", "rewrite/contentReceived")
        ),
    }
)
"""By the method's name."""

CONTENTS: Final[Mapping[str, Counterpart]] = MappingProxyType(
    {
        "text": Counterpart(
            "text",
            "A piece of the model's or the server's text, with the code blocks that end in it. "
            "The user's message is not echoed.",
        ),
        "progress": Counterpart(
            "text", "The end of a turn is its closing text; the start is omitted."
        ),
        "usage": Counterpart(
            "text", "`metadata.tokensUsed` of the closing text; costs and limits are omitted."
        ),
        "toolCallRun": Counterpart(
            "fileChange", "Only for a call that waits for approval, of any tool."
        ),
        "toolCalled": Counterpart(
            "fileChange",
            "For a call that has changed a file and was not announced; the failure of an announced "
            "call is a text. Outputs are omitted.",
        ),
        "toolCallRejected": Counterpart("text", "Only for an announced call."),
        **dict(
            _absent(
                "A call is announced when it waits for approval or when it is done.",
                "toolCallPrepare",
                "toolCallRunning",
            )
        ),
        **dict(_absent("The link is in the text, too (W-26).", "url")),
        **dict(
            _absent(
                "The draft does not show what the model thinks.",
                "reasonStarted",
                "reasonText",
                "reasonFinished",
            )
        ),
        **dict(
            _absent(
                "The draft has no counterpart.",
                "metadata",
                "image",
                "flag",
                "hookActionStarted",
                "hookActionFinished",
            )
        ),
    }
)
"""By the content's type, from the server to the client."""

CONTEXTS: Final[Mapping[str, Counterpart]] = MappingProxyType(
    {
        "file": Counterpart("file", "`linesRange` is its `selection`."),
        "web": Counterpart("web", "The same."),
        "cursor": Counterpart(
            "file", "The `cursor` of that file's context; the selection is lost."
        ),
        "text": Counterpart("code", "`label` is its `description`."),
        **dict(
            _absent(
                "Our client refuses to send it to a draft server.",
                "directory",
                "repoMap",
                "mcpResource",
                "image",
            )
        ),
    }
)
"""By the context's type, from the client to the server."""

DRAFT_ONLY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "capabilities.codeAssistant.doc, edit, fix": (
            "Never defined: they identify a draft client (W-12) and have no other effect."
        ),
        "ChatModel": (
            "`auto` and literals without a model of that name mean the default model (W-51)."
        ),
        "TerminalContext": "Named and never defined: skipped with a note (W-51).",
        "ChatPromptResponse.resultMessage": (
            "For people. Our client adds it to the error of a prompt that cannot start."
        ),
        "TextContent.codeBlocks": "Part of the text, where our client reads them.",
        "FileChangeContent": (
            "For our client a tool call `file_change` with file and changes as its arguments."
        ),
        "Completion, Documentation": "Headings without a method.",
    }
)
"""The names that only the draft has, and their treatment."""
