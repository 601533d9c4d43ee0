"""The error of an MCP server, with a text for the user."""

from __future__ import annotations

from typing import Literal, TypeAlias

from eca_protocol.errors import ECAError
from eca_server.printable import printable_lines

MCPErrorKind: TypeAlias = Literal[
    "start", "unreachable", "protocol", "closed", "timeout", "login", "refused"
]


class MCPError(ECAError):
    """A server could not be started, reached or understood, or did not answer.

    Attributes:
        kind: `start` (it never ran), `unreachable` (no connection was possible), `protocol`
            (a protocol error of the server), `closed` (it has ended), `timeout`, `login` (it
            requires a login), `refused` (it answered this request with an error).
        url: the login page, if it is known.
    """

    def __init__(self, message: str, *, kind: MCPErrorKind = "protocol", url: str | None = None):
        message = printable_lines(message)  # it may quote the server
        super().__init__(message)
        self.message = message
        self.kind: MCPErrorKind = kind
        self.url = url
