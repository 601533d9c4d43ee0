"""Rows of the contexts a prompt may carry; their fields are rows of `interfaces`."""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import row

_context = partial(row, section="Chat Prompt")

ROWS = (
    _context("CTX-1", "server", "A file context is the text of the file."),
    _context(
        "CTX-2",
        "server",
        "With `linesRange` it is only those lines, without it the whole file.",
        ruling="W-41",
    ),
    _context(
        "CTX-3",
        "server",
        "A directory context is what is in that directory.",
        ruling="W-41",
    ),
    _context("CTX-4", "server", "A web context is the text behind its URL."),
    _context(
        "CTX-5",
        "server",
        "The repository map is deprecated: read, and served by the server itself.",
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
    _context("CTX-8", "both", "Contexts of one prompt may be of different types."),
)
