"""Rulings W-30 to W-60: tools, queries, contexts, the editor, the draft, reading others."""

from __future__ import annotations

from functools import partial

from eca_protocol.revisions import Revision, Window
from eca_protocol.testing.requirements.row import SINCE_CURRENT, row

_tool = partial(row, section="Rulings: tools")
_query = partial(row, section="Rulings: queries, contexts, editor")
_current = partial(row, section="Rulings: queries, contexts, editor", window=SINCE_CURRENT)
_draft = partial(
    row,
    section="Rulings: draft",
    window=Window(since=Revision.DRAFT, until=Revision.DRAFT),
)
_others = partial(row, section="Rulings: reading others", level="observed")

ROWS = (
    _tool("W-30a", "server", "A call is prepared, announced by `toolCallRun`, and ended once."),
    _tool("W-30b", "server", "Prepare pieces are deltas; id, name and server are never empty."),
    _tool("W-30c", "server", "The arguments of `toolCallRun` are an object, {} if unreadable."),
    _tool(
        "W-30d",
        "server",
        "A call that the configuration denies or withholds is rejected with user-config.",
    ),
    _tool(
        "W-30e",
        "server",
        "An unknown tool or unreadable arguments end in `toolCalled` with an error.",
    ),
    _tool("W-30f", "server", "A call that the user rejects is rejected with user-choice."),
    _tool("W-30g", "server", "A stop rejects waiting calls and ends running ones with an error."),
    _tool("W-30h", "server", "Pieces of two calls are never interleaved."),
    _tool(
        "W-31a", "server", "After a rejection by the configuration the model gets a new request."
    ),
    _tool(
        "W-31b",
        "server",
        "After a rejection by the user the model gets a new request.",
        window=Window(until=Revision.R2025_10),
    ),
    _tool(
        "W-31c",
        "server",
        "The user's rejection ends the turn; the next prompt includes it for the model.",
        window=SINCE_CURRENT,
    ),
    _query(
        "W-32a", "both", "Arguments are an object of any JSON values in every content of a call."
    ),
    _tool("W-32b", "server", "Only the reasons user-choice and user-config are written."),
    _query("W-32c", "client", "Every spelling of a reason is read."),
    _tool(
        "W-33a",
        "server",
        "The server of native tools is ECA in the list and eca in contents of calls.",
    ),
    _tool("W-33b", "server", "The list is sent again when the disabled tools change."),
    _tool(
        "W-33c",
        "server",
        "The prefix `eca_` is written up to 2025-10, and to models in every edition.",
    ),
    _tool("W-33d", "server", "Contents of CURRENT have tool names without the prefix."),
    _tool("W-33e", "server", "Configuration matches every spelling of a tool's name."),
    _tool("W-33f", "server", "Parameters have upstream's names."),
    _tool("W-34a", "server", "A decision on a call that does not wait is ignored and forgotten."),
    _tool("W-34b", "server", "A decision that arrives together with its `toolCallRun` counts."),
    _tool(
        "W-35a",
        "server",
        "A file change is equal on `toolCallRun`, `toolCallRunning` and `toolCalled`.",
    ),
    _tool(
        "W-35b",
        "server",
        "The tool `task` of server `eca` is reserved for the task list.",
    ),
    _tool("W-36a", "server", "A server with a URL has the URL as command and no arguments."),
    _tool("W-36b", "server", "A server that needs a login is failed, and the user gets the link."),
    _tool(
        "W-36c", "server", "In CURRENT a server that needs a login has the status requires-auth."
    ),
    _tool("W-36d", "server", "A start or stop with an unknown name warns the user."),
    _tool("W-36e", "server", "A stopped, failed or disabled server can be started."),
    _tool(
        "W-36f",
        "server",
        "A start of a running server and a stop of a stopped one send the status again.",
    ),
    _tool(
        "W-37",
        "server",
        "The model's name for an MCP tool contains server and tool, is legal and unique.",
    ),
    _tool("W-38a", "server", "Truncated output says so, with the number of bytes left out."),
    _tool("W-38b", "server", "A refused edit is `toolCalled` with an error and its reason."),
    _query("W-40a", "server", "A blank query returns at most 200 contexts, roots first."),
    _query("W-40b", "server", "Commands match by name or description."),
    _query(
        "W-40c", "server", "Up to 2025-10 every command that is not an MCP prompt has type native."
    ),
    _query("W-40d", "server", "`required` of a command's argument is always written."),
    _query("W-40e", "server", "A result has `chatId` only if the query had one."),
    _query(
        "W-41a",
        "server",
        "A directory is sent as the text of its files, up to a limit, and its tree.",
    ),
    _query("W-41b", "server", "A path in `contexts` is consent to read it; a mention is not."),
    _query("W-41c", "server", "The cursor is passed unchanged."),
    _query("W-41d", "server", "`linesRange` is 1-based and includes its end."),
    _query("W-41e", "server", "A context of an unknown type is skipped with a note."),
    _query(
        "W-42a", "server", "Zero-based ranges are read as such from the clients that send them."
    ),
    _query("W-42b", "server", "Severities and codes beyond the specification are read."),
    _query("W-42c", "server", "Positions sent to the model are 1-based."),
    _query("W-42d", "server", "The editor gets only requests it supports, each with a deadline."),
    _query("W-42e", "server", "An invalid result of the editor counts as a no."),
    _current("W-43a", "server", "A flag follows a prompt, a tool call or a reasoning, by its id."),
    _current("W-43b", "server", "A flag has a `contentId` of its own, by which it is removed."),
    _current("W-43c", "server", "Adding or removing a flag clears and replays the chat."),
    _current("W-43d", "server", "A replayed chat looks the same as before."),
    _current(
        "W-44a", "server", "The `selection` of an opened chat has null for an unavailable model."
    ),
    _current("W-44b", "server", "`chat/open` has `meta` only if a window was requested."),
    _current("W-44c", "server", "The output of an unknown job is no lines and status null."),
    _current("W-44d", "server", "`toolCallPrepare` has a summary if one is known."),
    _current(
        "W-44e",
        "server",
        "A command's details name its parts and the effect of saving an approval for each.",
    ),
    _draft(
        "W-50a",
        "server",
        "Frames and lifecycle are those of October; the result of `initialize` is `{}`.",
    ),
    _draft(
        "W-50b",
        "server",
        "Only messages of the draft are written, and prompts are answered at once.",
    ),
    _draft("W-50c", "server", "Texts are deltas, and a last one closes every turn."),
    _draft("W-50d", "server", "Code fences in a text are its code blocks."),
    _draft("W-50e", "server", "Only a turn that cannot start is a connection-error."),
    _draft(
        "W-51a",
        "server",
        "The draft's contexts are read; the undefined type is skipped with a note.",
    ),
    _draft("W-51b", "server", "Options of any type and the draft's requests are read."),
    _draft("W-51c", "server", "Unmapped model names mean the default model."),
    _draft(
        "W-52",
        "server",
        "A change that needs approval waits a limited time for October's decision.",
    ),
    _others("W-60a", "client", "Null is read where upstream sends it."),
    _others("W-60b", "client", "Members that upstream leaves out may be missing."),
    _others("W-60c", "client", "Values beyond the specification are read and preserved."),
    _others("W-60d", "client", "Names from before and after October are read."),
    _others("W-60e", "client", "Errors without a code, or with a string as code, are read."),
    _others("W-60f", "client", "Usage after the end and a second end are ignored."),
    _others("W-60g", "client", "A title may come at any time."),
)
