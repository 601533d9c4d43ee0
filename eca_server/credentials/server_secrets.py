"""Secrets that a client gave for an MCP server: one entry of the logins for each server.

The configuration has a reference in their place, `${kept:SERVER:headers/Authorization}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from eca_server.credentials.logins import Logins
from eca_server.secret import Secret

__all__ = ["drop_secrets", "find_secret", "keep_secrets"]


def keep_secrets(logins: Logins, server: str, secrets: Mapping[str, str]) -> None:
    """Keep secrets of a server beside those it has; for a worker thread.

    Args:
        logins: where.
        server: its name.
        secrets: by their place in its settings (`headers/Authorization`).

    Raises:
        LoginsFault: they cannot be kept.
    """
    kept = {**_kept(logins, server), **secrets}
    logins.store(_entry(server), Secret(json.dumps(kept)))


def drop_secrets(logins: Logins, server: str) -> None:
    """Forget all secrets of a server; for a worker thread.

    Raises:
        LoginsFault: they cannot be removed.
    """
    if _entry(server) in logins.read().keys:
        logins.remove(_entry(server))


def find_secret(logins: Logins, reference: str) -> str | None:
    """What stands for `SERVER:headers/NAME`; None: nothing is kept for it."""
    server, _, place = reference.rpartition(":")
    return _kept(logins, server).get(place)


def _entry(server: str) -> str:
    return f"mcp-server:{server}"


def _kept(logins: Logins, server: str) -> dict[str, str]:
    key = logins.read().keys.get(_entry(server))
    try:
        found = json.loads(key.reveal()) if key is not None else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
