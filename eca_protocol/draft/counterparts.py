"""What the draft has for what the other editions have, and what it has nothing for.

Data for people and for a test that reads it both ways: each method, content and context of the
method table stands here, and nothing else does. What is told by a row with `draft` is what the
codec writes; what has none is never written on a draft connection, and a client that asks for it
all the same is answered as in October.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import attrs

__all__ = ["CONTENTS", "CONTEXTS", "DRAFT_ONLY", "METHODS", "Counterpart"]


@attrs.frozen
class Counterpart:
    """A row: how the draft says it, or None; and what becomes of what it cannot say."""

    draft: str | None
    why: str


def _absent(why: str, *names: str) -> Iterator[tuple[str, Counterpart]]:
    return ((name, Counterpart(None, why)) for name in names)


METHODS: Final[Mapping[str, Counterpart]] = MappingProxyType(
    {
        "initialize": Counterpart(
            "initialize",
            "Options are of any type; the answer is empty, so the welcome message is not told.",
        ),
        "initialized": Counterpart("initialized", "The same; nothing unasked follows it."),
        "shutdown": Counterpart("shutdown", "The same."),
        "exit": Counterpart("exit", "The same."),
        "chat/prompt": Counterpart(
            "chat/prompt",
            "Behaviour, agent, variant and trust are the server's; an error of the answer is "
            "connection-error, everything else success.",
        ),
        "chat/contentReceived": Counterpart(
            "chat/contentReceived", "By content, see there; a subagent's are not told."
        ),
        "chat/promptStop": Counterpart(
            "chat/promptStop", "October's, for the draft cannot stop a turn (W-50)."
        ),
        "chat/toolCallApprove": Counterpart(
            "chat/toolCallApprove",
            "October's (W-52); with any id it means the chat's only call that waits.",
        ),
        "chat/toolCallReject": Counterpart(
            "chat/toolCallReject", "As for the approval; unasked it happens after a while (W-52)."
        ),
        **dict(
            _absent(
                "Models are those of the draft's literals, behaviours it has none; what is offered "
                "is kept to find the model that a literal means (W-51).",
                "config/updated",
            )
        ),
        **dict(
            _absent(
                "A draft client has nowhere to show it.",
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
                "The draft has no requests of the server's: capabilities for them are not read.",
                "chat/askQuestion",
                "editor/getDefinition",
                "editor/getDiagnostics",
                "editor/getReferences",
            )
        ),
        **dict(
            _absent(
                "Came later: answered as in October. Our client sends no draft server any of it.",
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
                "The draft has a heading for completion and says nothing under it.",
                "completion/inline",
            )
        ),
        **dict(_absent("Answers a request that came later.", "rewrite/contentReceived")),
    }
)
"""By the method's name."""

CONTENTS: Final[Mapping[str, Counterpart]] = MappingProxyType(
    {
        "text": Counterpart(
            "text",
            "A piece of the model's or the server's text, with the blocks of code that end in it. "
            "The user's own words are not said again.",
        ),
        "progress": Counterpart(
            "text", "The end of a turn is its closing text; that it runs is not told."
        ),
        "usage": Counterpart(
            "text", "`metadata.tokensUsed` of the closing text; costs and limits are not told."
        ),
        "toolCallRun": Counterpart(
            "fileChange", "Of a call that waits for the user, whatever it does."
        ),
        "toolCalled": Counterpart(
            "fileChange",
            "Of a call that has changed a file and was not shown before; that one which was shown "
            "failed is a text. Outputs are not told.",
        ),
        "toolCallRejected": Counterpart("text", "Of a call that was shown before."),
        **dict(
            _absent(
                "What comes of a call is told when it waits or when it is done.",
                "toolCallPrepare",
                "toolCallRunning",
            )
        ),
        **dict(_absent("The link stands in the text, too (W-26).", "url")),
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
                "The draft has nothing like it.",
                "metadata",
                "image",
                "flag",
                "hookActionStarted",
                "hookActionFinished",
            )
        ),
    }
)
"""By the content's type, as a server tells it."""

CONTEXTS: Final[Mapping[str, Counterpart]] = MappingProxyType(
    {
        "file": Counterpart("file", "`linesRange` is its `selection`."),
        "web": Counterpart("web", "The same."),
        "cursor": Counterpart(
            "file", "The `cursor` of that file's context; what is selected there is lost."
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
"""By the context's type, as a client sends it."""

DRAFT_ONLY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "capabilities.codeAssistant.doc, edit, fix": (
            "Never defined: they tell a draft client (W-12), and lead to nothing else."
        ),
        "ChatModel": (
            "`auto`, or a literal for which there is no model of that name, is the default (W-51)."
        ),
        "TerminalContext": "Named and never defined: left out with a note (W-51).",
        "ChatPromptResponse.resultMessage": (
            "For people. Our client gives it with the error of a prompt that cannot start."
        ),
        "TextContent.codeBlocks": "Stand in the text already: our client reads them there.",
        "FileChangeContent": (
            "A tool call `file_change` to our client, with file and changes as its arguments."
        ),
        "Completion, Documentation": "Headings without a method.",
    }
)
"""What no other edition has, and what becomes of it."""
