"""The error of a request to an agent: one exception with a kind; and excerpts for its message.

Excerpts are cut between words: half a key would escape the masking.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

from eca_protocol.errors import ECAError

AgentErrorKind: TypeAlias = Literal["timeout", "transport_error", "protocol_error", "agent_error"]
"""The kinds of errors, as spelled in a report's `exit_reason`."""

_LONGEST = 8192  # characters of an error's message


class AgentError(ECAError):
    """A request to an agent without a result.

    Attributes:
        kind: `timeout`; `transport_error` (the agent crashed, refused or is gone);
            `protocol_error` (the agent broke a rule of the protocol, which the message names);
            `agent_error` (the agent answered with an error).
        code: the JSON-RPC code of an `agent_error`.
        data: the JSON-RPC data of an `agent_error`.
    """

    def __init__(
        self, kind: AgentErrorKind, message: str, *, code: int | None = None, data: Any = None
    ) -> None:
        if len(message) > _LONGEST:
            end = message.rfind(" ", _LONGEST - 512, _LONGEST)  # half a key is not recognized
            end = _LONGEST if end < 0 else end
            message = f"{message[:end]}... (cut, {len(message) - end} characters left out)"
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.code = code
        self.data = data


def answered_error(method: str, message: str, code: int, data: Any) -> AgentError:
    """Make the error of a request that the agent answered with an error."""
    return AgentError("agent_error", f"{method}: {message} ({code})", code=code, data=data)


def first_words(text: str | bytes, longest: int) -> str:
    """Return a text, or its first words and `...` if it has more than `longest` characters."""
    if isinstance(text, bytes):
        text = text[: 4 * (longest + 1)].decode("utf-8", "replace")
    if len(text) <= longest:
        return text
    return re.sub(r"\S*\Z", "", text[:longest], count=1) + "..."


def last_words(text: str, longest: int) -> str:
    """Return a text, or its last words if it has more than `longest` characters."""
    if len(text) <= longest:
        return text
    return re.sub(r"\A\S+\s+(?=\S)", "", text[-longest:])
