"""Rulings W-1 to W-28: base, lifecycle, chat. Letters number the requirements of a ruling."""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import SINCE_CURRENT, UNTIL_2025_10, row

_base = partial(row, section="Rulings: base")
_life = partial(row, section="Rulings: lifecycle")
_chat = partial(row, section="Rulings: chat")

ROWS = (
    _base(
        "W-1", "both", "Frames are written with one header, Content-Length, and UTF-8 without BOM."
    ),
    _base(
        "W-2a", "both", "A response has `result` or `error`, never both; null is a valid result."
    ),
    _base(
        "W-2b",
        "both",
        "Ids are integers or strings, also 0 and negative ones, and are returned unchanged.",
    ),
    _base(
        "W-2c",
        "both",
        "A request with a pending id is refused with -32600; the first one gets its response.",
    ),
    _base("W-2d", "both", "A notification is written without an id, a request with one."),
    _base(
        "W-3a",
        "both",
        "Missing params, null, an empty object and an empty array have the same meaning.",
    ),
    _base("W-3b", "both", "Null in an optional field means that the field is missing."),
    _base("W-3c", "server", "A member that may be empty may also be missing or null."),
    _base(
        "W-3d",
        "server",
        "Only a wrong type or the absence of a necessary member is refused with -32602.",
    ),
    _base("W-3e", "both", "Unknown keys are ignored, with any spelling."),
    _base("W-3f", "server", "An incomplete context is skipped; in a prompt, with a note."),
    _base(
        "W-3g",
        "server",
        "Keys that clients in the field misspell are read.",
        window=SINCE_CURRENT,
    ),
    _base("W-3h", "server", "A capability that is an object counts as true."),
    _base("W-4a", "server", "A request without an id runs and is not answered."),
    _base("W-4b", "server", "A notification with an id runs and is answered with null."),
    _base("W-4c", "both", "An unknown notification is ignored, with or without the prefix `$/`."),
    _base("W-4d", "both", "An unknown request is refused with -32601."),
    _base("W-5a", "both", "Bodies are UTF-8; UTF-16 is never guessed."),
    _base("W-5b", "both", "An unpaired surrogate is read as U+FFFD."),
    _base(
        "W-5c",
        "both",
        "Integers up to 4,300 digits are exact; longer ones are refused with -32700.",
    ),
    _base(
        "W-5d",
        "both",
        "NaN and Infinity are refused with -32700 by readers, with a local error by writers.",
    ),
    _base("W-5e", "both", "The last one of duplicate keys wins."),
    _base("W-5f", "both", "ECP's strict mode refuses duplicate keys."),
    _base("W-5g", "both", "Values have at most 128 levels of nesting, for readers and writers."),
    _base("W-5h", "both", "Both JSON engines accept and refuse the same values."),
    _base("W-6a", "server", "A text content has at most 4 KiB."),
    _base("W-6b", "server", "Tool outputs and diffs are truncated at the tool's limit."),
    _base("W-6c", "server", "The pieces of a split echo join to the exact text."),
    _base(
        "W-6d", "both", "A write contains whole frames, at most 64 KiB unless one frame is larger."
    ),
    _base(
        "W-6e",
        "server",
        "A client's profile may reduce the size of writes and add a pause after responses.",
    ),
    _life("W-10a", "server", "The result of `initialize` has a string as `chatWelcomeMessage`."),
    _life("W-10b", "server", "No message is written before the response to `initialize`."),
    _life("W-10c", "server", "Requests before that response wait for it."),
    _life(
        "W-10d", "server", "After that response, requests are served with or without `initialized`."
    ),
    _life("W-10e", "server", "Unsolicited notifications wait for `initialized`."),
    _life("W-11a", "server", "The first `config/updated` has all seven members of `chat`."),
    _life(
        "W-11b", "server", "Each `select*` is a string from its list; without a key, the simulator."
    ),
    _life("W-11c", "server", "Then the native server ECA is announced."),
    _life("W-11d", "server", "Then MCP servers are announced as they become available."),
    _life(
        "W-11e", "server", "`$/progress` announces the start and the finish of one task around it."
    ),
    _life("W-11f", "server", "The finish of that task does not wait for MCP servers."),
    _life(
        "W-11g",
        "server",
        "Later updates have only changed members; only `selectVariant` (W-11h) may be null.",
    ),
    _life(
        "W-11h",
        "server",
        "`selectVariant` is a variant of the selected model, or null if none is in force.",
        window=SINCE_CURRENT,
    ),
    _life(
        "W-12a",
        "server",
        "An option or a flag forces one of four revisions by name.",
    ),
    _life("W-12b", "server", "The capabilities doc, edit and fix select the draft."),
    _life("W-12c", "server", "Capabilities that only current clients announce select CURRENT."),
    _life("W-12d", "server", "All other clients get 2025-10; 2025-09 is used only if forced."),
    _life(
        "W-13a",
        "server",
        "`shutdown` cancels running work and answers pending requests within 2 s.",
    ),
    _life("W-13b", "server", "`shutdown` ends children and commits before its response."),
    _life(
        "W-13c", "server", "`shutdown` fails only if a child process or an unsaved chat remains."
    ),
    _life("W-13d", "server", "The exit code is 0 after `shutdown` and `exit`."),
    _life("W-13e", "server", "The exit code is 0 after the end of input, with clean-up."),
    _life("W-13f", "server", "The exit code is 1 after `exit` alone."),
    _life("W-13g", "server", "The exit code is 1 when the output is closed."),
    _life(
        "W-13h",
        "server",
        "SIGTERM gives 143 and SIGINT 130; both give 0 after the response to `shutdown`.",
    ),
    _life(
        "W-13i", "server", "A fatal framing error is answered with id null, and the exit code is 1."
    ),
    _life("W-13j", "server", "The end of input inside a body gives the exit code 1."),
    _life("W-13k", "server", "In each of these cases the process ends within 3 s."),
    _life("W-13l", "server", "In each of these cases all children end within 3 s."),
    _life(
        "W-14a",
        "server",
        "The server ends within 5 s after a parent process that was seen alive has exited.",
    ),
    _life("W-14b", "server", "A missing or never seen parent process is not watched."),
    _life("W-14c", "server", "The end of input always ends the server."),
    _life("W-15a", "server", "Folder URIs are decoded: escapes, localhost and drives."),
    _life("W-15b", "server", "An unusable folder is reported to the user and is not a root."),
    _life("W-15c", "server", "Only `workspaceFolders` gives roots."),
    _life(
        "W-15d", "both", "`$/showMessage` is a notification, also where its heading says request."
    ),
    _life(
        "W-16a",
        "client",
        "Our client announces the capabilities of CURRENT unless a revision is forced.",
    ),
    _life(
        "W-16b",
        "client",
        "It decides at the first update: `variants` means CURRENT, else 2025-10.",
    ),
    _life("W-16c", "client", "It speaks 2025-09 and the draft only if forced."),
    _chat("W-20a", "server", "A turn starts with a running progress with a non-empty text."),
    _chat("W-20b", "server", "Then the exact text of the prompt is echoed once, with an id."),
    _chat("W-20c", "server", "Then the prompt is answered, before the model's first content."),
    _chat("W-20d", "server", "A turn ends with usage and a finished progress with an empty text."),
    _chat("W-20e", "server", "The chat accepts the next prompt before `finished` is written."),
    _chat("W-21a", "server", "A prompt is answered at once with chat, model and status."),
    _chat("W-21b", "server", "Models are named provider/model."),
    _chat("W-21c", "server", "Any chat id is accepted: the client's, a deleted one, none."),
    _chat(
        "W-21d",
        "server",
        "An error of the user or the provider gives status `prompting` and a readable text.",
    ),
    _chat("W-21e", "server", "`model` is then the requested model, else the selected one."),
    _chat("W-21f", "server", "A failing prompt is queued and has an echo and one `finished`."),
    _chat("W-21g", "server", "CURRENT answers with status `error` if the turn cannot start."),
    _chat("W-22a", "server", "A prompt to a busy chat is answered at once and queued."),
    _chat(
        "W-22b", "server", "The progress and the echo of a queued prompt come when its turn starts."
    ),
    _chat("W-22c", "server", "A stop ends the running turn and empties the queue."),
    _chat("W-22d", "server", "Prompts that a stop drops are repeated in a system text."),
    _chat("W-22e", "server", "Each started turn ends with exactly one `finished`."),
    _chat("W-22f", "server", "A stop of an idle or unknown chat ends no turn."),
    _chat(
        "W-22g",
        "server",
        "A stop of an idle or unknown chat is answered by `chat/statusChanged` idle.",
        window=SINCE_CURRENT,
    ),
    _chat("W-23a", "server", "A stop works in each state of the model's answer."),
    _chat("W-23b", "server", "A stop works in each state of a tool call, within 1 s."),
    _chat("W-23c", "server", "A stop works during a call to an MCP server."),
    _chat(
        "W-23d",
        "server",
        "A stop closes open calls and reasonings and sends one `finished` and no usage.",
    ),
    _chat("W-23e", "server", "`finished` comes within 0.5 s after the stop."),
    _chat("W-23f", "server", "The connection to the model's provider is closed."),
    _chat("W-23g", "server", "After that `finished` no content of the turn is written."),
    _chat("W-24a", "server", "After a delete only its response is written for the chat."),
    _chat(
        "W-24b", "server", "The running turn of a deleted chat ends, and its connection is closed."
    ),
    _chat(
        "W-24c", "server", "Clients that need it get `finished` before the response to the delete."
    ),
    _chat("W-24d", "server", "CURRENT gets `chat/deleted`."),
    _chat("W-24e", "server", "A delete without id or with an unknown id has the same response."),
    _chat("W-24f", "server", "A reused id of a deleted chat has no history and zero usage."),
    _chat(
        "W-25a",
        "server",
        "The title takes one additional request, without tools, that contains the word title.",
    ),
    _chat("W-25b", "server", "The chat's own system prompt does not contain that word."),
    _chat("W-25c", "server", "`chat.title: false` disables titles."),
    _chat("W-25d", "server", "A title may follow `finished`, but not a stop or a delete."),
    _chat("W-26a", "server", "Each type of content has its role."),
    _chat("W-26b", "server", "Every started reasoning is finished, also after a stop."),
    _chat("W-26c", "server", "A citation is a `url` content and a link in the text."),
    _chat("W-26d", "server", "A system text is a paragraph of its own."),
    _chat(
        "W-27a",
        "server",
        "`sessionTokens` is the sum of the chat's turns, without the request for the title.",
        window=UNTIL_2025_10,
    ),
    _chat("W-27b", "server", "A cost has two or more decimals and no sign, or is absent."),
    _chat("W-27c", "server", "`limit` has both numbers; in CURRENT `output` may be missing."),
    _chat("W-27d", "server", "`messageCost` is written together with `lastMessageCost`."),
    _chat("W-27e", "server", "`usage` comes before `finished`."),
    _chat(
        "W-27f",
        "server",
        "`sessionTokens` is the context used by the last request, except that for the title.",
        window=SINCE_CURRENT,
    ),
    _chat("W-27g", "server", "Each request of a turn is followed by usage.", window=SINCE_CURRENT),
    _chat(
        "W-28a",
        "server",
        "The behaviour is that of the prompt, else of selection, options, configuration.",
    ),
    _chat("W-28b", "server", "A selection does not affect running turns and is not sent back."),
    _chat(
        "W-28c",
        "server",
        "`agent`, `chatAgent` and `selectedAgentChanged` are read like those of behavior.",
    ),
    row(
        "W-28d",
        "server",
        "The built-in agents are listed as `code` and `plan`; `agent` and `build` mean `code`.",
        section="Rulings: chat",
        window=SINCE_CURRENT,
    ),
)
