"""Rows of the contexts of prompts; `interfaces` has the rows of their fields."""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import row

_context = partial(row, section="Chat Prompt")

ROWS = (
    _context("CTX-1", "server", "A file context is sent as the text of the file."),
    _context(
        "CTX-2",
        "server",
        "`linesRange` limits a file context to those lines.",
        ruling="W-41",
    ),
    _context(
        "CTX-3",
        "server",
        "A directory context is sent as the contents of the directory.",
        ruling="W-41",
    ),
    _context("CTX-4", "server", "A web context is sent as the text at its URL."),
    _context(
        "CTX-5",
        "server",
        "The deprecated repository map is accepted and provided by the server.",
        level="should",
    ),
    _context(
        "CTX-6",
        "server",
        "A cursor context is a position or, if its ends differ, a selection.",
        ruling="W-41",
    ),
    _context(
        "CTX-7",
        "server",
        "A resource context is read from the MCP server that it names.",
    ),
    _context("CTX-8", "both", "The contexts of one prompt may have different types."),
)
