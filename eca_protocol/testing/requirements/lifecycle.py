"""Rows of the lifecycle: the handshake, what follows it, and the two steps of leaving."""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import row

_flow = partial(row, section="Lifecycle Messages")
_initialize = partial(row, section="Initialize")
_initialized = partial(row, section="Initialized")
_shutdown = partial(row, section="Shutdown")
_exit = partial(row, section="Exit")

ROWS = (
    _initialize("LIFE-1", "client", "`initialize` is the first request that is sent."),
    _initialize("LIFE-2", "server", "A request before `initialize` is refused with -32002."),
    _initialize("LIFE-3", "server", "`initialize` is answered with an object.", ruling="W-10"),
    _initialize("LIFE-4", "server", "A second `initialize` is refused with -32600."),
    _initialize("LIFE-5", "client", "`processId` is always written, null if there is no parent."),
    _initialize(
        "LIFE-6", "server", "A server whose parent process is gone ends itself.", ruling="W-14"
    ),
    _initialize("LIFE-7", "client", "The client says its name, its version and what it can do."),
    _initialize(
        "LIFE-8", "server", "`chatBehavior` of the options is the first behaviour.", ruling="W-28"
    ),
    _initialize(
        "LIFE-9",
        "server",
        "Only what the client's capabilities announce is asked of it.",
        ruling="W-42",
    ),
    _initialize("LIFE-10", "server", "`workspaceFolders` are the roots.", ruling="W-15"),
    _initialize("LIFE-11", "client", "A client with one project sends its root as one folder."),
    _initialized("LIFE-12", "client", "`initialized` follows the answer to `initialize`."),
    _initialized("LIFE-13", "server", "Notifications start after `initialized`.", ruling="W-10"),
    _flow(
        "LIFE-14",
        "server",
        "After `initialized` one `config/updated` tells models, behaviours and their defaults.",
        ruling="W-11",
    ),
    _flow("LIFE-15", "server", "Then `tool/serverUpdated` shows the native tools.", ruling="W-11"),
    _flow(
        "LIFE-16",
        "server",
        "What models can do and cost is looked up after `initialized`, and nothing waits for it.",
        level="should",
    ),
    _flow("LIFE-17", "server", "MCP servers start after the first update."),
    _shutdown("LIFE-18", "server", "`shutdown` has no params and is answered null."),
    _shutdown(
        "LIFE-19",
        "server",
        "What is pending is brought to its end before the answer.",
        ruling="W-13",
    ),
    _shutdown("LIFE-20", "server", "MCP server processes end before the answer."),
    _shutdown(
        "LIFE-21",
        "server",
        "A shutdown that failed is answered with an error: a code and a text.",
        ruling="W-13",
    ),
    _shutdown("LIFE-22", "server", "After `shutdown` every further request is refused."),
    _exit("LIFE-23", "client", "`exit` is sent after `shutdown` was answered.", level="should"),
    _exit("LIFE-24", "server", "`exit` has no params and ends the process.", ruling="W-13"),
    _exit("LIFE-25", "server", "Everything the server held is released when it has ended."),
)
