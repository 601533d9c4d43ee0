"""Rows of configuration: what the client may choose from, and the tool servers."""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import row

_config = partial(row, section="Config updated")
_tool = partial(row, section="Tool updated")
_stop = partial(row, section="Stop MCP server")
_start = partial(row, section="Start MCP server")

ROWS = (
    _config("CONF-1", "server", "`config/updated` lists the models and the behaviours."),
    _config("CONF-2", "server", "At the start it also says which are selected.", ruling="W-11"),
    _config(
        "CONF-3",
        "server",
        "A change of configuration or of keys is told as it happens.",
        ruling="W-11",
    ),
    _config("CONF-4", "client", "What is missing or null has not changed."),
    _config("CONF-5", "client", "A select* that is present replaces the client's choice."),
    _config("CONF-6", "server", "`welcomeMessage` is what a new chat shows first."),
    _tool("CONF-7", "server", "`tool/serverUpdated` shows the native tools as server ECA."),
    _tool("CONF-8", "server", "The native server is always running."),
    _tool("CONF-9", "server", "Each status of an MCP server is told as it changes."),
    _tool("CONF-10", "server", "A running MCP server is shown with its tools."),
    _tool(
        "CONF-11",
        "server",
        "A tool is shown with its schema and whether it is disabled.",
    ),
    _stop("CONF-12", "server", "`mcp/stopServer` ends that server's process."),
    _stop("CONF-13", "server", "That it has stopped is told."),
    _stop("CONF-14", "client", "An MCP server is stopped by name."),
    _start("CONF-15", "server", "`mcp/startServer` starts a stopped server."),
    _start("CONF-16", "server", "That it starts, and how that ends, is told."),
    _start("CONF-17", "client", "An MCP server is started by name."),
)
