"""Rows of the rulings on the specification, and of what clients in the field need beyond it.

Letters number the requirements of a ruling. Each row of the clients was observed in the source or
the behaviour of at least one of them: Emacs, VS Code, IntelliJ, Neovim, Desktop, the CLI, and the
web page that three of these share. See `row.rows` for the notation.
"""

from __future__ import annotations

from typing import Final

from eca_protocol.testing.requirements.row import rows

ROWS: Final = rows(
    """
# Rulings: base
W-1 both Frames are written with one header, Content-Length, and UTF-8 without BOM.
W-2a both A response has `result` or `error`, never both; null is a valid result.
W-2b both Ids are integers or strings, also 0 and negative ones, and are returned unchanged.
W-2c both A request with a pending id is refused with -32600; the first one gets its response.
W-2d both A notification is written without an id, a request with one.
W-3a both Missing params, null, an empty object and an empty array have the same meaning.
W-3b both Null in an optional field means that the field is missing.
W-3c server A member that may be empty may also be missing or null.
W-3d server Only a wrong type or the absence of a necessary member is refused with -32602.
W-3e both Unknown keys are ignored, with any spelling.
W-3f server An incomplete context is skipped; in a prompt, with a note.
W-3g server since:current Keys that clients in the field misspell are read.
W-3h server A capability that is an object counts as true.
W-4a server A request without an id runs and is not answered.
W-4b server A notification with an id runs and is answered with null.
W-4c both An unknown notification is ignored, with or without the prefix `$/`.
W-4d both An unknown request is refused with -32601.
W-5a both Bodies are UTF-8; UTF-16 is never guessed.
W-5b both An unpaired surrogate is read as U+FFFD.
W-5c both Integers up to 4,300 digits are exact; longer ones are refused with -32700.
W-5d both NaN and Infinity are refused with -32700 by readers, with a local error by writers.
W-5e both The last one of duplicate keys wins.
W-5f both ECP's strict mode refuses duplicate keys.
W-5g both Values have at most 128 levels of nesting, for readers and writers.
W-5h both Both JSON engines accept and refuse the same values.
W-6a server A text content has at most 4 KiB.
W-6b server Tool outputs and diffs are truncated at the tool's limit.
W-6c server The pieces of a split echo join to the exact text.
W-6d both A write contains whole frames, at most 64 KiB unless one frame is larger.
W-6e server A client's profile may reduce the size of writes and add a pause after responses.

# Rulings: lifecycle
W-10a server The result of `initialize` has a string as `chatWelcomeMessage`.
W-10b server No message is written before the response to `initialize`.
W-10c server Requests before that response wait for it.
W-10d server After that response, requests are served with or without `initialized`.
W-10e server Unsolicited notifications wait for `initialized`.
W-11a server The first `config/updated` has all seven members of `chat`.
W-11b server Each `select*` is a string from its list; without a key, the simulator.
W-11c server Then the native server ECA is announced.
W-11d server Then MCP servers are announced as they become available.
W-11e server `$/progress` announces the start and the finish of one task around it.
W-11f server The finish of that task does not wait for MCP servers.
W-11g server Later updates have only changed members; only `selectVariant` (W-11h) may be null.
W-11h server since:current `selectVariant` is a variant of the selected model, or null if none is in
    force.
W-12a server An option or a flag forces one of four revisions by name.
W-12b server The capabilities doc, edit and fix select the draft.
W-12c server Capabilities that only current clients announce select CURRENT.
W-12d server All other clients get 2025-10; 2025-09 is used only if forced.
W-13a server `shutdown` cancels running work and answers pending requests within 2 s.
W-13b server `shutdown` ends children and commits before its response.
W-13c server `shutdown` fails only if a child process or an unsaved chat remains.
W-13d server The exit code is 0 after `shutdown` and `exit`.
W-13e server The exit code is 0 after the end of input, with clean-up.
W-13f server The exit code is 1 after `exit` alone.
W-13g server The exit code is 1 when the output is closed.
W-13h server SIGTERM gives 143 and SIGINT 130; both give 0 after the response to `shutdown`.
W-13i server A fatal framing error is answered with id null, and the exit code is 1.
W-13j server The end of input inside a body gives the exit code 1.
W-13k server In each of these cases the process ends within 3 s.
W-13l server In each of these cases all children end within 3 s.
W-14a server The server ends within 5 s after a parent process that was seen alive has exited.
W-14b server A missing or never seen parent process is not watched.
W-14c server The end of input always ends the server.
W-15a server Folder URIs are decoded: escapes, localhost and drives.
W-15b server An unusable folder is reported to the user and is not a root.
W-15c server Only `workspaceFolders` gives roots.
W-15d both `$/showMessage` is a notification, also where its heading says request.
W-16a client Our client announces the capabilities of CURRENT unless a revision is forced.
W-16b client It decides at the first update: `variants` means CURRENT, else 2025-10.
W-16c client It speaks 2025-09 and the draft only if forced.

# Rulings: chat
W-20a server A turn starts with a running progress with a non-empty text.
W-20b server Then the exact text of the prompt is echoed once, with an id.
W-20c server Then the prompt is answered, before the model's first content.
W-20d server A turn ends with usage and a finished progress with an empty text.
W-20e server The chat accepts the next prompt before `finished` is written.
W-21a server A prompt is answered at once with chat, model and status.
W-21b server Models are named provider/model.
W-21c server Any chat id is accepted: the client's, a deleted one, none.
W-21d server An error of the user or the provider gives status `prompting` and a readable text.
W-21e server `model` is then the requested model, else the selected one.
W-21f server A failing prompt is queued and has an echo and one `finished`.
W-21g server CURRENT answers with status `error` if the turn cannot start.
W-22a server A prompt to a busy chat is answered at once and queued.
W-22b server The progress and the echo of a queued prompt come when its turn starts.
W-22c server A stop ends the running turn and empties the queue.
W-22d server Prompts that a stop drops are repeated in a system text.
W-22e server Each started turn ends with exactly one `finished`.
W-22f server A stop of an idle or unknown chat ends no turn.
W-22g server since:current A stop of an idle or unknown chat is answered by `chat/statusChanged`
    idle.
W-23a server A stop works in each state of the model's answer.
W-23b server A stop works in each state of a tool call, within 1 s.
W-23c server A stop works during a call to an MCP server.
W-23d server A stop closes open calls and reasonings and sends one `finished` and no usage.
W-23e server `finished` comes within 0.5 s after the stop.
W-23f server The connection to the model's provider is closed.
W-23g server After that `finished` no content of the turn is written.
W-24a server After a delete only its response is written for the chat.
W-24b server The running turn of a deleted chat ends, and its connection is closed.
W-24c server Clients that need it get `finished` before the response to the delete.
W-24d server CURRENT gets `chat/deleted`.
W-24e server A delete without id or with an unknown id has the same response.
W-24f server A reused id of a deleted chat has no history and zero usage.
W-25a server The title takes one additional request, without tools, that contains the word title.
W-25b server The chat's own system prompt does not contain that word.
W-25c server `chat.title: false` disables titles.
W-25d server A title may follow `finished`, but not a stop or a delete.
W-26a server Each type of content has its role.
W-26b server Every started reasoning is finished, also after a stop.
W-26c server A citation is a `url` content and a link in the text.
W-26d server A system text is a paragraph of its own.
W-27a server until:2025-10 `sessionTokens` is the sum of the chat's turns, without the request for
    the title.
W-27b server A cost has two or more decimals and no sign, or is absent.
W-27c server `limit` has both numbers; in CURRENT `output` may be missing.
W-27d server `messageCost` is written together with `lastMessageCost`.
W-27e server `usage` comes before `finished`.
W-27f server since:current `sessionTokens` is the context used by the last request, except that for
    the title.
W-27g server since:current Each request of a turn is followed by usage.
W-28a server The behaviour is that of the prompt, else of selection, options, configuration.
W-28b server A selection does not affect running turns and is not sent back.
W-28c server `agent`, `chatAgent` and `selectedAgentChanged` are read like those of behavior.
W-28d server since:current The built-in agents are listed as `code` and `plan`; `agent` and `build`
    mean `code`.

# Rulings: tools
W-30a server A call is prepared, announced by `toolCallRun`, and ended once.
W-30b server Prepare pieces are deltas; id, name and server are never empty.
W-30c server The arguments of `toolCallRun` are an object, {} if unreadable.
W-30d server A call that the configuration denies or withholds is rejected with user-config.
W-30e server An unknown tool or unreadable arguments end in `toolCalled` with an error.
W-30f server A call that the user rejects is rejected with user-choice.
W-30g server A stop rejects waiting calls and ends running ones with an error.
W-30h server Pieces of two calls are never interleaved.
W-31a server After a rejection by the configuration the model gets a new request.
W-31b server until:2025-10 After a rejection by the user the model gets a new request.
W-31c server since:current The user's rejection ends the turn; the next prompt includes it for the
    model.

# Rulings: queries, contexts, editor
W-32a both Arguments are an object of any JSON values in every content of a call.

# Rulings: tools
W-32b server Only the reasons user-choice and user-config are written.

# Rulings: queries, contexts, editor
W-32c client Every spelling of a reason is read.

# Rulings: tools
W-33a server The server of native tools is ECA in the list and eca in contents of calls.
W-33b server The list is sent again when the disabled tools change.
W-33c server The prefix `eca_` is written up to 2025-10, and to models in every edition.
W-33d server Contents of CURRENT have tool names without the prefix.
W-33e server Configuration matches every spelling of a tool's name.
W-33f server Parameters have upstream's names.
W-34a server A decision on a call that does not wait is ignored and forgotten.
W-34b server A decision that arrives together with its `toolCallRun` counts.
W-35a server A file change is equal on `toolCallRun`, `toolCallRunning` and `toolCalled`.
W-35b server The tool `task` of server `eca` is reserved for the task list.
W-36a server A server with a URL has the URL as command and no arguments.
W-36b server A server that needs a login is failed, and the user gets the link.
W-36c server In CURRENT a server that needs a login has the status requires-auth.
W-36d server A start or stop with an unknown name warns the user.
W-36e server A stopped, failed or disabled server can be started.
W-36f server A start of a running server and a stop of a stopped one send the status again.
W-37 server The model's name for an MCP tool contains server and tool, is legal and unique.
W-38a server Truncated output says so, with the number of bytes left out.
W-38b server A refused edit is `toolCalled` with an error and its reason.

# Rulings: queries, contexts, editor
W-40a server A blank query returns at most 200 contexts, roots first.
W-40b server Commands match by name or description.
W-40c server Up to 2025-10 every command that is not an MCP prompt has type native.
W-40d server `required` of a command's argument is always written.
W-40e server A result has `chatId` only if the query had one.
W-41a server A directory is sent as the text of its files, up to a limit, and its tree.
W-41b server A path in `contexts` is consent to read it; a mention is not.
W-41c server The cursor is passed unchanged.
W-41d server `linesRange` is 1-based and includes its end.
W-41e server A context of an unknown type is skipped with a note.
W-42a server Zero-based ranges are read as such from the clients that send them.
W-42b server Severities and codes beyond the specification are read.
W-42c server Positions sent to the model are 1-based.
W-42d server The editor gets only requests it supports, each with a deadline.
W-42e server An invalid result of the editor counts as a no.
W-43a server since:current A flag follows a prompt, a tool call or a reasoning, by its id.
W-43b server since:current A flag has a `contentId` of its own, by which it is removed.
W-43c server since:current Adding or removing a flag clears and replays the chat.
W-43d server since:current A replayed chat looks the same as before.
W-44a server since:current The `selection` of an opened chat has null for an unavailable model.
W-44b server since:current `chat/open` has `meta` only if a window was requested.
W-44c server since:current The output of an unknown job is no lines and status null.
W-44d server since:current `toolCallPrepare` has a summary if one is known.
W-44e server since:current A command's details name its parts and the effect of saving an approval
    for each.

# Rulings: draft
W-50a server since:2025-06 until:2025-06 Frames and lifecycle are those of October; the result of
    `initialize` is `{}`.
W-50b server since:2025-06 until:2025-06 Only messages of the draft are written, and prompts are
    answered at once.
W-50c server since:2025-06 until:2025-06 Texts are deltas, and a last one closes every turn.
W-50d server since:2025-06 until:2025-06 Code fences in a text are its code blocks.
W-50e server since:2025-06 until:2025-06 Only a turn that cannot start is a connection-error.
W-51a server since:2025-06 until:2025-06 The draft's contexts are read; the undefined type is
    skipped with a note.
W-51b server since:2025-06 until:2025-06 Options of any type and the draft's requests are read.
W-51c server since:2025-06 until:2025-06 Unmapped model names mean the default model.
W-52 server since:2025-06 until:2025-06 A change that needs approval waits a limited time for
    October's decision.

# Rulings: reading others
W-60a client observed Null is read where upstream sends it.
W-60b client observed Members that upstream leaves out may be missing.
W-60c client observed Values beyond the specification are read and preserved.
W-60d client observed Names from before and after October are read.
W-60e client observed Errors without a code, or with a string as code, are read.
W-60f client observed Usage after the end and a second end are ignored.
W-60g client observed A title may come at any time.

# Clients in the field
CLIENT-1 server observed The result of `initialize` has a string as welcome message.
CLIENT-2 server observed The first update has a model, a behaviour and an agent to select.
CLIENT-3 server observed `behavior` and `agent` have the same meaning; `agent` wins.
CLIENT-4 server observed The only header is `Content-Length`, so spelled, with one space after `:`.
CLIENT-5 server observed Each read of a client that buffers nothing contains only whole frames.
CLIENT-6 server observed A response has the key `result` or the key `error`, never both.
CLIENT-7 server observed A notification has no key `id`.
CLIENT-8 server observed The id 0 is valid, and each id is returned with its type.
CLIENT-9 server observed Missing params, null, {} and [] have the same meaning.
CLIENT-10 server observed Unknown and misspelled keys are ignored.
CLIENT-11 server observed A prompt may name any chat, or none.
CLIENT-12 server observed A prompt gets a result at once, also if its turn fails.
CLIENT-13 server observed Every request is answered: some clients block until then.
CLIENT-14 server observed Every turn ends with exactly one `finished`.
CLIENT-15 server observed A running progress has a text.
CLIENT-16 server observed `toolCallPrepare` and `reasonStarted` come before other contents of their
    id.
CLIENT-17 server observed The pieces of a call's arguments join to the complete arguments.
CLIENT-18 server observed The arguments of a call are an object.
CLIENT-19 server observed Costs are strings, counts are integers, names are strings.
CLIENT-20 server observed No message makes a client raise an exception and lose later messages.
CLIENT-21 server observed A file change has its path, its diff and the numbers of its lines.
CLIENT-22 server observed Only the task list is a tool named `task`.
CLIENT-23 server observed Unchanged members are left out of an update, never null.
CLIENT-24 server observed `shutdown` is answered with null after all work has ended.
CLIENT-25 server observed `exit` ends the server with any params, before or after a signal.
CLIENT-26 server observed The editor gets only requests it supports; an invalid result counts as a
    no.
CLIENT-27 server observed A decision on a call that does not wait is ignored for good.
CLIENT-28 server observed One file starts the server from any directory and prints its version.
CLIENT-29 server observed A task is started and finished after `initialized`.
CLIENT-30 server observed The output contains only frames.
CLIENT-31 server observed The echo has the exact text of the prompt, once, first, with an id.
CLIENT-32 server observed After a delete no message follows for the chat; Emacs gets `finished`
    first.
CLIENT-33 server observed Contents belong to chats that the user has opened.
CLIENT-34 server observed Bodies are UTF-8 and measured in bytes; odd bodies of clients are read.
"""
)
