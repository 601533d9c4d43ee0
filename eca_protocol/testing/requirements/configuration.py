"""Rows of configuration: the client's settings and the tool servers."""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import row

_config = partial(row, section="Config updated")
_tool = partial(row, section="Tool updated")
_stop = partial(row, section="Stop MCP server")
_start = partial(row, section="Start MCP server")

ROWS = (
    _config("CONF-1", "server", "`config/updated` lists the models and the behaviours."),
    _config(
        "CONF-2",
        "server",
        "The first update also has the selected model and behaviour.",
        ruling="W-11",
    ),
    _config(
        "CONF-3",
        "server",
        "A change of configuration or keys is announced when it happens.",
        ruling="W-11",
    ),
    _config("CONF-4", "client", "A missing or null member has not changed."),
    _config("CONF-5", "client", "A `select*` member replaces the client's selection."),
    _config("CONF-6", "server", "`welcomeMessage` is the first text of a new chat."),
    _tool(
        "CONF-7",
        "server",
        "`tool/serverUpdated` announces the native tools with the server name ECA.",
    ),
    _tool("CONF-8", "server", "The native server is always running."),
    _tool("CONF-9", "server", "Each change of an MCP server's status is announced."),
    _tool("CONF-10", "server", "A running MCP server is announced with its tools."),
    _tool(
        "CONF-11",
        "server",
        "A tool is announced with its schema and with `disabled`.",
    ),
    _stop("CONF-12", "server", "`mcp/stopServer` ends that server's process."),
    _stop("CONF-13", "server", "The stop of a server is announced."),
    _stop("CONF-14", "client", "An MCP server is stopped by name."),
    _start("CONF-15", "server", "`mcp/startServer` starts a stopped server."),
    _start("CONF-16", "server", "The start of a server and its outcome are announced."),
    _start("CONF-17", "client", "An MCP server is started by name."),
)
