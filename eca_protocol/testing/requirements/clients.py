"""Rows that clients in the field need, beyond the specification.

Each row was observed in the source or the behaviour of at least one client: Emacs, VS Code,
IntelliJ, Neovim, Desktop, the CLI, and the web page that three of these share.
"""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import row

_client = partial(row, side="server", section="Clients in the field", level="observed")

ROWS = (
    _client("CLIENT-1", statement="The result of `initialize` has a string as welcome message."),
    _client(
        "CLIENT-2", statement="The first update has a model, a behaviour and an agent to select."
    ),
    _client("CLIENT-3", statement="`behavior` and `agent` have the same meaning; `agent` wins."),
    _client(
        "CLIENT-4",
        statement="The only header is `Content-Length`, so spelled, with one space after `:`.",
    ),
    _client(
        "CLIENT-5",
        statement="Each read of a client that buffers nothing contains only whole frames.",
    ),
    _client(
        "CLIENT-6", statement="A response has the key `result` or the key `error`, never both."
    ),
    _client("CLIENT-7", statement="A notification has no key `id`."),
    _client("CLIENT-8", statement="The id 0 is valid, and each id is returned with its type."),
    _client("CLIENT-9", statement="Missing params, null, {} and [] have the same meaning."),
    _client("CLIENT-10", statement="Unknown and misspelled keys are ignored."),
    _client("CLIENT-11", statement="A prompt may name any chat, or none."),
    _client("CLIENT-12", statement="A prompt gets a result at once, also if its turn fails."),
    _client("CLIENT-13", statement="Every request is answered: some clients block until then."),
    _client("CLIENT-14", statement="Every turn ends with exactly one `finished`."),
    _client("CLIENT-15", statement="A running progress has a text."),
    _client(
        "CLIENT-16",
        statement="`toolCallPrepare` and `reasonStarted` come before other contents of their id.",
    ),
    _client(
        "CLIENT-17", statement="The pieces of a call's arguments join to the complete arguments."
    ),
    _client("CLIENT-18", statement="The arguments of a call are an object."),
    _client("CLIENT-19", statement="Costs are strings, counts are integers, names are strings."),
    _client(
        "CLIENT-20",
        statement="No message makes a client raise an exception and lose later messages.",
    ),
    _client(
        "CLIENT-21", statement="A file change has its path, its diff and the numbers of its lines."
    ),
    _client("CLIENT-22", statement="Only the task list is a tool named `task`."),
    _client("CLIENT-23", statement="Unchanged members are left out of an update, never null."),
    _client("CLIENT-24", statement="`shutdown` is answered with null after all work has ended."),
    _client(
        "CLIENT-25", statement="`exit` ends the server with any params, before or after a signal."
    ),
    _client(
        "CLIENT-26",
        statement="The editor gets only requests it supports; an invalid result counts as a no.",
    ),
    _client("CLIENT-27", statement="A decision on a call that does not wait is ignored for good."),
    _client(
        "CLIENT-28",
        statement="One file starts the server from any directory and prints its version.",
    ),
    _client("CLIENT-29", statement="A task is started and finished after `initialized`."),
    _client("CLIENT-30", statement="The output contains only frames."),
    _client(
        "CLIENT-31", statement="The echo has the exact text of the prompt, once, first, with an id."
    ),
    _client(
        "CLIENT-32",
        statement="After a delete no message follows for the chat; Emacs gets `finished` first.",
    ),
    _client("CLIENT-33", statement="Contents belong to chats that the user has opened."),
    _client(
        "CLIENT-34",
        statement="Bodies are UTF-8 and measured in bytes; odd bodies of clients are read.",
    ),
)
