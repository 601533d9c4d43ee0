"""Rows of the server's requests to the editor."""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import row

_diagnostics = partial(row, section="Editor diagnostics")

ROWS = (
    _diagnostics(
        "EDIT-1", "server", "`editor/getDiagnostics` requests the diagnostics of one uri."
    ),
    _diagnostics(
        "EDIT-2",
        "server",
        "Without uri it requests the diagnostics of all workspaces.",
        ruling="W-42",
    ),
    _diagnostics("EDIT-3", "client", "`editor/getDiagnostics` is answered by a handler."),
    _diagnostics("EDIT-4", "client", "The handler receives None for a missing uri."),
    _diagnostics("EDIT-5", "both", "Positions in a diagnostic count from 1.", ruling="W-42"),
)
