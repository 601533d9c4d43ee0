"""What can go wrong between an evaluator and an agent, as one exception with a kind."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from eca_protocol.errors import ECAError

__all__ = ["AgentFault", "FaultKind"]

FaultKind: TypeAlias = Literal["timeout", "transport_error", "protocol_error", "agent_error"]
"""As reports spell them in `exit_reason`."""

_LONGEST = 8192  # characters of an agent's words that an error carries


class AgentFault(ECAError):
    """The agent gave no result.

    Attributes:
        kind: `timeout`; `transport_error` (it crashed, refused, is gone); `protocol_error` (it
            broke a rule of the wire, which the text names); `agent_error` (it answered with an
            error of its own).
        code: of an `agent_error`, the JSON-RPC code.
        data: of an `agent_error`, what it sent beside.
    """

    def __init__(
        self, kind: FaultKind, message: str, *, code: int | None = None, data: Any = None
    ) -> None:
        if len(message) > _LONGEST:
            left = len(message) - _LONGEST
            message = f"{message[:_LONGEST]}... (cut, {left} characters left out)"
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.code = code
        self.data = data
