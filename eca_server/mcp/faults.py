"""What can go wrong with an MCP server, as one exception whose text a user can read."""

from __future__ import annotations

from typing import Literal, TypeAlias

from eca_protocol.errors import ECAError

__all__ = ["FaultKind", "MCPFault"]

FaultKind: TypeAlias = Literal["start", "protocol", "closed", "timeout", "login", "refused"]


class MCPFault(ECAError):
    """A server could not be started, reached or understood, or did not answer.

    Attributes:
        kind: `start` (it never ran), `protocol` (it said what nobody understands), `closed` (it
            is gone), `timeout`, `login` (it wants a login first), `refused` (it answered with an
            error: of the request, not of the server).
        url: where the user can log in, if that is known.
    """

    def __init__(self, message: str, *, kind: FaultKind = "protocol", url: str | None = None):
        super().__init__(message)
        self.message = message
        self.kind: FaultKind = kind
        self.url = url
