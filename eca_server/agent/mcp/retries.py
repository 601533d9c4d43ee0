"""The retry policy for HTTP requests: unsent ones, temporary refusals, and lists."""

from __future__ import annotations

import random
from typing import Final

from eca_protocol.errors import HTTPError
from eca_server.agent.mcp.http_endpoint import Refusal

_LISTS: Final = frozenset(
    {
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "server/discover",
    }
)
_BUSY: Final = frozenset({429, 503})
_PATIENCE: Final = 10.0  # the longest accepted `Retry-After`, in seconds


def may_become_reachable(error: HTTPError) -> bool:
    """Return whether a later attempt may reach the server, on this network or a different one.

    A network that requires a login shows certificates of its own.
    """
    return error.never_connected or error.kind in ("tls", "proxy")


def may_be_resent(method: str) -> bool:
    """Return whether a message may reach the server twice: it does not run a tool."""
    return method != "tools/call"


def pause_before_retry(
    outcome: Refusal | HTTPError, method: str, wait: float | None
) -> float | None:
    """Return the seconds until a request may be sent again; None: it may not.

    Args:
        outcome: the refusal or the error in place of an answer.
        method: the method of the request.
        wait: the default pause in seconds; None: no retries are left.
    """
    if wait is None:
        return None
    if isinstance(outcome, HTTPError):
        is_safe = outcome.never_connected or (method in _LISTS and outcome.kind == "broken")
        return wait if is_safe else None
    if outcome.status in _BUSY and outcome.retry_after is not None:
        return outcome.retry_after if outcome.retry_after <= _PATIENCE else None
    if method in _LISTS and outcome.status >= 500:
        return wait * random.uniform(0.5, 1.0)
    return None
