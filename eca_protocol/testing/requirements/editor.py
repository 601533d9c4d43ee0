"""Rows of what the server asks of the editor."""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import row

_diagnostics = partial(row, section="Editor diagnostics")

ROWS = (
    _diagnostics("EDIT-1", "server", "`editor/getDiagnostics` asks for one uri's faults."),
    _diagnostics(
        "EDIT-2",
        "server",
        "Without uri it asks for those of all workspaces.",
        ruling="W-42",
    ),
    _diagnostics("EDIT-3", "client", "`editor/getDiagnostics` is answered by a handler."),
    _diagnostics("EDIT-4", "client", "A uri that is missing reaches the handler as none."),
    _diagnostics("EDIT-5", "both", "Positions in a diagnostic count from 1.", ruling="W-42"),
)
