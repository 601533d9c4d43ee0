"""Rows outside of the chapters: messages to the user, and the client as a whole."""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import row

_message = partial(row, section="showMessage")
_overview = partial(row, section="ECA Protocol")

ROWS = (
    _message("GEN-1", "server", "`$/showMessage` has a message for the user and its severity."),
    _message("GEN-2", "client", "`$/showMessage` reaches the client's user.", ruling="W-15"),
    _overview("GEN-3", "client", "Every message that a client can send has a typed method."),
    _overview("GEN-4", "client", "Every request of the server has a handler."),
    _overview("GEN-5", "client", "Every notification of the server has an event."),
)
