"""Secrets that a client gave for an MCP server: one entry of the logins for each server's name.

The configuration has a reference in their place, `${kept:SERVER:ID}`. An id stands for one secret
and is never given to another: a name may mean another server in another workspace, and a change of
the configuration that fails must leave what was there before as good as it was.

Everything here touches the disk, and may wait for the system's keyring: call it in a worker thread.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping

from eca_server.credentials.logins import Logins
from eca_server.secret import Secret

__all__ = ["drop_secrets", "find_secret", "is_of_server", "keep_secrets"]


def keep_secrets(logins: Logins, server: str, secrets: Mapping[str, str]) -> None:
    """Keep secrets of a server beside those it has.

    Args:
        logins: where.
        server: its name.
        secrets: by their ids.

    Raises:
        LoginsFault: they cannot be kept; what was kept before is unchanged.
    """
    _unlock(logins)
    logins.store(_entry(server), Secret(json.dumps({**_kept(logins, server), **secrets})))


def drop_secrets(logins: Logins, server: str, *, but: Container[str]) -> None:
    """Forget the secrets of a server that nothing refers to any more.

    Args:
        logins: where they are kept.
        server: its name.
        but: the ids of those that are still needed.

    Raises:
        LoginsFault: they cannot be removed.
    """
    _unlock(logins)
    kept = _kept(logins, server)
    left = {each: secret for each, secret in kept.items() if each in but}
    if left and left != kept:
        logins.store(_entry(server), Secret(json.dumps(left)))
    elif not left and _entry(server) in logins.read().keys:
        logins.remove(_entry(server))


def find_secret(logins: Logins, reference: str) -> str | None:
    """What stands for `SERVER:ID`; None: nothing is kept for it, or it is in a locked keyring."""
    server, _, found = reference.rpartition(":")
    return _kept(logins, server).get(found)


def is_of_server(entry: str) -> bool:
    """Whether an entry of the logins holds secrets of a server, and is no login."""
    return entry.startswith(_entry(""))


def _entry(server: str) -> str:
    return f"mcp-server:{server}"


def _unlock(logins: Logins) -> None:
    if logins.is_locked:
        logins.unlock()


def _kept(logins: Logins, server: str) -> dict[str, str]:
    key = logins.read().keys.get(_entry(server))
    try:
        found = json.loads(key.reveal()) if key is not None else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
