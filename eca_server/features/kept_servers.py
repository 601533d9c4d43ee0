"""What the user decides about MCP servers, kept in our own layer of the configuration.

The rules it keeps: a decision stands in the part of a workspace if only the workspace knows the
server, else in that of everywhere; what is secret is kept with the logins, and a reference stands
in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import trio

from eca_protocol.errors import INVALID_PARAMS, RPCError
from eca_server.config.mcp_settings import is_secret
from eca_server.config.own_layer import OwnLayer, Parts
from eca_server.credentials.server_secrets import drop_secrets, keep_secrets
from eca_server.features.configuration import put_in_force
from eca_server.features.connection import Connection

__all__ = ["ServerSettings", "add_server", "change_server", "remove_server"]

ServerSettings: TypeAlias = dict[str, Any]
"""Settings of a server as the configuration has them: JSON."""

_REFERENCE: Final = re.compile(r"\$\{|\$[A-Z_]")


async def add_server(
    connection: Connection, name: str, settings: ServerSettings, *, root: Path | None
) -> None:
    """Keep the settings of a new server, whole.

    Args:
        connection: whose configuration they become a part of.
        name: the server's.
        settings: changed so that secrets are references.
        root: the workspace root in which alone there is such a server.

    Raises:
        RPCError: no other configuration counts than the client's own.
        ECAError: it cannot be kept.
    """

    def add(parts: Parts) -> None:
        for each in _roots(connection):
            _servers(parts.of(each)).pop(name, None)  # it would win over that of everywhere
        _servers(parts.of(root))[name] = settings

    await _keep_secrets(connection, name, settings)
    await _keep(connection, add)


async def change_server(connection: Connection, name: str, settings: ServerSettings) -> None:
    """Keep other settings of a server; those that are not named stay. Raises as `add_server`."""

    def change(parts: Parts) -> None:
        servers = _servers(parts.of(_where(connection, name, parts)))
        servers[name] = {**(servers.get(name) or {}), **settings}

    await _keep_secrets(connection, name, settings)
    await _keep(connection, change)


async def remove_server(connection: Connection, name: str) -> None:
    """Let there be no such server, whoever has configured it. Raises as `add_server`."""
    is_theirs = any(_is_named(value, name) for value in _theirs(connection).values())

    def remove(parts: Parts) -> None:
        where = _where(connection, name, parts)
        for part in (parts.everywhere, *(parts.of(root) for root in _roots(connection))):
            _servers(part).pop(name, None)
        if is_theirs:
            _servers(parts.of(where))[name] = None

    await _keep(connection, remove)
    await trio.to_thread.run_sync(drop_secrets, connection.logins, name)


async def _keep(connection: Connection, change: Callable[[Parts], None]) -> None:
    """Change our layer, and let the configuration count that comes of it."""
    if connection.loaded.is_pure:
        raise RPCError(
            INVALID_PARAMS, "initializationOptions.pureConfig: no other configuration counts"
        )
    layer = OwnLayer(connection.options.environ)
    await trio.to_thread.run_sync(layer.change, change)
    load = partial(connection.load, before=connection.loaded)
    put_in_force(connection, await trio.to_thread.run_sync(load))


def _where(connection: Connection, name: str, parts: Parts) -> Path | None:
    """The root to whose part a server belongs; None: to that of everywhere."""
    for root in reversed(_roots(connection)):
        if name in _servers(parts.of(root)):
            return root
    if name in _servers(parts.everywhere):
        return None
    files = {str(root / ".eca" / "config.json"): root for root in _roots(connection)}
    named = [source for source, value in _theirs(connection).items() if _is_named(value, name)]
    return files[named[-1]] if named and files.keys() >= set(named) else None


def _theirs(connection: Connection) -> Mapping[str, object]:
    """What all sources say but our own."""
    ours = str(OwnLayer(connection.options.environ).path)
    return {name: value for name, value in connection.loaded.values.items() if name != ours}


def _is_named(value: object, server: str) -> bool:
    servers = value.get("mcpServers") if isinstance(value, Mapping) else None
    return isinstance(servers, Mapping) and servers.get(server) is not None


def _servers(part: dict[str, Any]) -> dict[str, Any]:
    servers: dict[str, Any] = part.setdefault("mcpServers", {})
    return servers


def _roots(connection: Connection) -> list[Path]:
    return [root.path for root in connection.session.roots]


async def _keep_secrets(connection: Connection, server: str, settings: ServerSettings) -> None:
    """Keep what is secret with the logins. What holds a reference (`$TOKEN`) is none."""
    found: dict[str, str] = {}

    def kept(place: str, value: str | None) -> str | None:
        if value is None or _REFERENCE.search(value):
            return value
        found[place] = value
        return f"${{kept:{server}:{place}}}"

    for key, hides in (("env", is_secret), ("headers", bool)):
        if settings.get(key):
            settings[key] = {
                name: kept(f"{key}/{name}", value) if hides(name) else value
                for name, value in settings[key].items()
            }
    if settings.get("clientSecret"):
        settings["clientSecret"] = kept("clientSecret", settings["clientSecret"])
    if found:
        keep = partial(keep_secrets, connection.logins, server, found)
        await trio.to_thread.run_sync(keep)
