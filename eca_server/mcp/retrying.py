"""When a request over HTTP may be made again: it was never sent, refused for now, or only asks."""

from __future__ import annotations

import random
from typing import Final

from eca_protocol.errors import HTTPError
from eca_server.mcp.http_endpoint import Refusal

__all__ = ["may_come_twice", "pause_before_retry"]

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
_PATIENCE: Final = 10.0  # the longest `Retry-After` that is waited for


def may_come_twice(method: str) -> bool:
    """Whether a message does no harm where a server gets it twice: it does not run a tool."""
    return method != "tools/call"


def pause_before_retry(
    outcome: Refusal | HTTPError, method: str, wait: float | None
) -> float | None:
    """Seconds until a request may be sent again; None: it may not.

    Args:
        outcome: what came in place of an answer.
        method: of the request.
        wait: seconds, if nobody says how long; None: it was sent often enough.
    """
    if wait is None:
        return None
    if isinstance(outcome, HTTPError):
        is_safe = outcome.kind == "connect" or (method in _LISTS and outcome.kind == "broken")
        return wait if is_safe else None
    if outcome.status in _BUSY and outcome.retry_after is not None:
        return outcome.retry_after if outcome.retry_after <= _PATIENCE else None
    if method in _LISTS and outcome.status >= 500:
        return wait * random.uniform(0.5, 1.0)
    return None
