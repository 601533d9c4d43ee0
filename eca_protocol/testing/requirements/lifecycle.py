"""Rows of the lifecycle: handshake, start, shutdown and exit."""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import row

_flow = partial(row, section="Lifecycle Messages")
_initialize = partial(row, section="Initialize")
_initialized = partial(row, section="Initialized")
_shutdown = partial(row, section="Shutdown")
_exit = partial(row, section="Exit")

ROWS = (
    _initialize("LIFE-1", "client", "`initialize` is the first request."),
    _initialize("LIFE-2", "server", "A request before `initialize` is refused with -32002."),
    _initialize("LIFE-3", "server", "`initialize` is answered with an object.", ruling="W-10"),
    _initialize("LIFE-4", "server", "A second `initialize` is refused with -32600."),
    _initialize(
        "LIFE-5",
        "client",
        "`processId` is always written; it is null if there is no parent process.",
    ),
    _initialize(
        "LIFE-6", "server", "The server exits when its parent process has exited.", ruling="W-14"
    ),
    _initialize("LIFE-7", "client", "The client sends its name, its version and its capabilities."),
    _initialize(
        "LIFE-8",
        "server",
        "`chatBehavior` of the initialization options is the first behaviour.",
        ruling="W-28",
    ),
    _initialize(
        "LIFE-9",
        "server",
        "The server sends only requests that the client's capabilities announce.",
        ruling="W-42",
    ),
    _initialize("LIFE-10", "server", "`workspaceFolders` are the workspace roots.", ruling="W-15"),
    _initialize(
        "LIFE-11", "client", "A client with one project sends its root as one workspace folder."
    ),
    _initialized("LIFE-12", "client", "`initialized` follows the response to `initialize`."),
    _initialized("LIFE-13", "server", "Notifications start after `initialized`.", ruling="W-10"),
    _flow(
        "LIFE-14",
        "server",
        "One `config/updated` after `initialized` announces models, behaviours and defaults.",
        ruling="W-11",
    ),
    _flow(
        "LIFE-15", "server", "Then `tool/serverUpdated` announces the native tools.", ruling="W-11"
    ),
    _flow(
        "LIFE-16",
        "server",
        "Capabilities and costs of models load after `initialized` without delaying it.",
        level="should",
    ),
    _flow("LIFE-17", "server", "MCP servers start after the first update."),
    _shutdown("LIFE-18", "server", "`shutdown` has no params, and its result is null."),
    _shutdown(
        "LIFE-19",
        "server",
        "Pending operations finish before the response to `shutdown`.",
        ruling="W-13",
    ),
    _shutdown("LIFE-20", "server", "MCP server processes exit before the response to `shutdown`."),
    _shutdown(
        "LIFE-21",
        "server",
        "A failed shutdown is answered with an error that has a code and a message.",
        ruling="W-13",
    ),
    _shutdown("LIFE-22", "server", "After `shutdown` every further request is refused."),
    _exit("LIFE-23", "client", "`exit` is sent after the response to `shutdown`.", level="should"),
    _exit("LIFE-24", "server", "`exit` has no params and ends the process.", ruling="W-13"),
    _exit("LIFE-25", "server", "The server releases all its resources when it ends."),
)
