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
    _tool("W-30a", "server", "A call is prepared, then announced by run, then ends one way."),
    _tool("W-30b", "server", "Prepare pieces are deltas; id, name and server are never empty."),
    _tool("W-30c", "server", "The arguments of run are an object, empty if unreadable."),
    _tool("W-30d", "server", "What configuration denies or withholds is rejected: user-config."),
    _tool("W-30e", "server", "An unknown tool or unreadable arguments are called with an error."),
    _tool("W-30f", "server", "The user's no is rejected: user-choice."),
    _tool("W-30g", "server", "A stop rejects what waits and ends with an error what runs."),
    _tool("W-30h", "server", "Pieces of two calls are never mixed."),
    _tool("W-31a", "server", "After a rejection by the configuration the model is asked again."),
    _tool(
        "W-31b",
        "server",
        "After a rejection by the user the model is asked again.",
        window=Window(until=Revision.R2025_10),
    ),
    _tool(
        "W-31c",
        "server",
        "The user's rejection ends the turn; the next prompt tells the model of it.",
        window=SINCE_CURRENT,
    ),
    _query("W-32a", "both", "Arguments are an object of any values in every content of a call."),
    _tool("W-32b", "server", "We write two reasons: user-choice, user-config."),
    _query("W-32c", "client", "Every spelling of a reason is read."),
    _tool("W-33a", "server", "Native tools: server ECA when listed, eca in a call's contents."),
    _tool("W-33b", "server", "The list is sent again when what is disabled changes."),
    _tool("W-33c", "server", "The prefix eca_ is written up to 2025-10 and to every model."),
    _tool("W-33d", "server", "CURRENT's contents have the names without prefix."),
    _tool("W-33e", "server", "Configuration matches a tool in each spelling of its name."),
    _tool("W-33f", "server", "Parameters have the names upstream gave them."),
    _tool("W-34a", "server", "A decision on a call that does not wait is ignored and forgotten."),
    _tool("W-34b", "server", "A decision in the same instant as its run counts."),
    _tool("W-35a", "server", "A file change is told alike on run, running and called."),
    _tool(
        "W-35b",
        "server",
        "The tool `task` of server `eca` is not used for anything else.",
    ),
    _tool("W-36a", "server", "A server by URL has the URL as command and no arguments."),
    _tool("W-36b", "server", "One that needs a login is failed, and the user gets the link."),
    _tool("W-36c", "server", "CURRENT says requires-auth for it."),
    _tool("W-36d", "server", "Start or stop of an unknown name warns the user."),
    _tool("W-36e", "server", "What is stopped, failed or disabled can be started."),
    _tool("W-36f", "server", "Start and stop of what is so already tell the status again."),
    _tool("W-37", "server", "An MCP tool's name for the model holds server and tool, legal, once."),
    _tool("W-38a", "server", "What was cut says so in words, with the bytes left out."),
    _tool("W-38b", "server", "A refused edit is called with an error that says why."),
    _query("W-40a", "server", "A blank query gives up to 200, the roots first."),
    _query("W-40b", "server", "Commands match by name or by description."),
    _query("W-40c", "server", "Up to 2025-10 what is no MCP prompt is native."),
    _query("W-40d", "server", "`required` of an argument is always written."),
    _query("W-40e", "server", "An answer has `chatId` only if the query had."),
    _query("W-41a", "server", "A directory is its files' text, capped, and a tree."),
    _query("W-41b", "server", "A path in contexts is consent, a mention is none."),
    _query("W-41c", "server", "The cursor is passed on as it came."),
    _query("W-41d", "server", "`linesRange` counts from 1 and includes its end."),
    _query("W-41e", "server", "An unknown type is skipped with a note."),
    _query("W-42a", "server", "Zero-based ranges are read as such from who sends them."),
    _query("W-42b", "server", "Severities and codes beyond the text are read."),
    _query("W-42c", "server", "The model sees positions from 1."),
    _query("W-42d", "server", "The editor is asked only what it can, with a deadline."),
    _query("W-42e", "server", "An answer that makes no sense is a no."),
    _current("W-43a", "server", "A flag follows a prompt, a tool call or a thought, by its id."),
    _current("W-43b", "server", "A flag has a `contentId` of its own, by which it is removed."),
    _current("W-43c", "server", "A flag added or removed clears and replays the chat."),
    _current("W-43d", "server", "A chat that is shown again looks as it looked."),
    _current("W-44a", "server", "An opened chat's `selection` has null for a model that is gone."),
    _current("W-44b", "server", "`chat/open` has `meta` only for a window that was asked for."),
    _current("W-44c", "server", "The output of an unknown job is no lines and a null status."),
    _current("W-44d", "server", "`toolCallPrepare` has a summary where one is known."),
    _current(
        "W-44e",
        "server",
        "A command's details name its parts and what a saved approval would remember of each.",
    ),
    _draft("W-50a", "server", "Frames and lifecycle are October's; `initialize` answers `{}`."),
    _draft("W-50b", "server", "Only the draft's messages are written, prompts answered at once."),
    _draft("W-50c", "server", "Texts are deltas; a last one closes the turn, however it ended."),
    _draft("W-50d", "server", "Fences in a text are its code blocks."),
    _draft("W-50e", "server", "Only a turn that cannot start is a connection-error."),
    _draft("W-51a", "server", "The draft's contexts are read; the undefined one is noted."),
    _draft("W-51b", "server", "Options of any type and the draft's requests are read."),
    _draft("W-51c", "server", "Model names without a mapping mean the default model."),
    _draft("W-52", "server", "A change that would ask waits, bounded, for October's answer."),
    _others("W-60a", "client", "Nulls are read where upstream sends them."),
    _others("W-60b", "client", "Members that upstream leaves out may be missing."),
    _others("W-60c", "client", "Values beyond the text are read and kept."),
    _others("W-60d", "client", "Names from before and after October are read."),
    _others("W-60e", "client", "Errors without a code, or with a text as code, are read."),
    _others("W-60f", "client", "Usage after the end, or a second end, does no harm."),
    _others("W-60g", "client", "A title may come at any time."),
)
