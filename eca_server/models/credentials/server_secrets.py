"""Secrets of MCP servers: one entry in the logins for each server name.

The configuration refers to a secret by `${kept:SERVER:ID}`. An id is never reused for a different
secret: a name may mean different servers in different workspaces, and a failed change of the
configuration must leave the earlier references valid.

Everything here touches the disk, and may wait for the system's keyring: call it in a worker thread.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping

from eca_server.models.credentials.logins import Logins
from eca_server.secret import Secret


def store_secrets(logins: Logins, server: str, secrets: Mapping[str, str]) -> None:
    """Store secrets of a server in addition to its earlier ones.

    Raises:
        LoginsError: they cannot be stored; earlier secrets are unchanged.
    """
    _unlock(logins)
    logins.store(_entry(server), Secret(json.dumps({**_stored(logins, server), **secrets})))


def drop_secrets(logins: Logins, server: str, *, but: Container[str]) -> None:
    """Remove the secrets of a server that are not referred to any more.

    `but`: the ids to retain.

    Raises:
        LoginsError: they cannot be removed.
    """
    _unlock(logins)
    stored = _stored(logins, server)
    needed = {each: secret for each, secret in stored.items() if each in but}
    if needed and needed != stored:
        logins.store(_entry(server), Secret(json.dumps(needed)))
    elif not needed and _entry(server) in logins.read().keys:
        logins.remove(_entry(server))


def find_secret(logins: Logins, reference: str) -> str | None:
    """Return the secret for `SERVER:ID`; None: it is not stored, or the keyring is locked."""
    server, _, secret_id = reference.rpartition(":")
    return _stored(logins, server).get(secret_id)


def is_server_entry(entry: str) -> bool:
    """Return whether an entry of the logins holds secrets of a server and is no login."""
    return entry.startswith(_entry(""))


def _entry(server: str) -> str:
    return f"mcp-server:{server}"


def _unlock(logins: Logins) -> None:
    if logins.is_locked:
        logins.unlock()


def _stored(logins: Logins, server: str) -> dict[str, str]:
    key = logins.read().keys.get(_entry(server))
    try:
        stored = json.loads(key.reveal()) if key is not None else {}
    except ValueError:
        return {}
    return stored if isinstance(stored, dict) else {}
