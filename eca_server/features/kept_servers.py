"""What the user decides about MCP servers, kept in our own layer of the configuration.

The rules it keeps: a decision stands in the part of a workspace if only the workspace knows the
server, else in that of everywhere; what is secret is kept with the logins, and a reference stands
in its place. What another server on this machine has decided meanwhile is looked at first.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import trio

from eca_protocol.errors import INVALID_PARAMS, RPCError
from eca_server.config.folders import home_folder
from eca_server.config.interpolation import Surroundings, Unresolved
from eca_server.config.mcp_settings import is_secret
from eca_server.config.own_layer import LayerFault, OwnLayer, Parts
from eca_server.credentials import LoginsError
from eca_server.credentials.server_secrets import drop_secrets, store_secrets
from eca_server.features.configuration import put_in_force
from eca_server.features.connection import Connection
from eca_server.secret import mask

__all__ = ["ServerSettings", "add_server", "change_server", "remove_server"]

_log = logging.getLogger("eca_server")

ServerSettings: TypeAlias = dict[str, Any]
"""Settings of a server as the configuration has them: JSON."""

_KEPT: Final = re.compile(r"\$\{kept:[^{}]*:([^{}:]*)\}")


async def add_server(
    connection: Connection, name: str, settings: ServerSettings, *, root: Path | None
) -> None:
    """Keep the settings of a new server, whole.

    Args:
        connection: whose configuration they become a part of.
        name: the server's.
        settings: its settings.
        root: the workspace root in which alone there is such a server.

    Raises:
        RPCError: no other configuration counts than the client's own, or there is one already.
        ECAError: it cannot be kept.
    """

    def add(parts: Parts) -> None:
        if _ours(connection, name, parts)[-1:] not in ([], [None]):
            raise RPCError(INVALID_PARAMS, f"name: there is an MCP server {name!r} already")
        for each in _roots(connection):
            _servers(parts.of(each)).pop(name, None)  # it would win over that of everywhere
        _servers(parts.of(root))[name] = _with_references(connection, name, settings)

    await _keep(connection, name, add)


async def change_server(connection: Connection, name: str, settings: ServerSettings) -> None:
    """Keep other settings of a server; those that are not named stay. Raises as `add_server`."""

    def change(parts: Parts) -> None:
        ours = _ours(connection, name, parts)
        if ours[-1] is None if ours else not _is_theirs(connection, name):
            raise RPCError(INVALID_PARAMS, f"name: the MCP server {name!r} was just removed")
        servers = _servers(parts.of(_where(connection, name, parts)))
        new = _with_references(connection, name, settings)
        servers[name] = {**(servers.get(name) or {}), **new}

    await _keep(connection, name, change)


async def remove_server(connection: Connection, name: str) -> None:
    """Let there be no such server, whoever has configured it. Raises as `add_server`."""

    def remove(parts: Parts) -> None:
        where = _where(connection, name, parts)
        for part in (parts.everywhere, *(parts.of(root) for root in _roots(connection))):
            _servers(part).pop(name, None)
        if _is_theirs(connection, name):
            _servers(parts.of(where))[name] = None

    await _keep(connection, name, remove)


async def _keep(connection: Connection, name: str, change: Callable[[Parts], None]) -> None:
    """Change our layer, and let the configuration count that comes of it."""
    if connection.loaded.is_pure:
        raise RPCError(
            INVALID_PARAMS, "initializationOptions.pureConfig: no other configuration counts"
        )

    def forget_secrets(parts: Parts) -> None:
        needed = _KEPT.findall(json.dumps([parts.everywhere, parts.workspaces]))
        try:
            drop_secrets(connection.logins, name, but=frozenset(needed))
        except LoginsError as fault:
            _log.warning("secrets of the MCP server %s cannot be removed: %s", name, fault)

    layer = OwnLayer(connection.options.environ)
    await trio.to_thread.run_sync(partial(layer.change, change, then=forget_secrets))
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


def _ours(connection: Connection, name: str, parts: Parts) -> list[ServerSettings | None]:
    """What our layer says of a server; the last counts, and None says that there is none."""
    places = (parts.everywhere, *(parts.of(root) for root in _roots(connection)))
    return [_servers(part)[name] for part in places if name in _servers(part)]


def _is_theirs(connection: Connection, name: str) -> bool:
    """Whether somebody else has configured a server."""
    return any(_is_named(value, name) for value in _theirs(connection).values())


def _theirs(connection: Connection) -> Mapping[str, object]:
    """What all sources say but our own."""
    ours = str(OwnLayer(connection.options.environ).path)
    return {name: value for name, value in connection.loaded.values.items() if name != ours}


def _is_named(value: object, server: str) -> bool:
    servers = value.get("mcpServers") if isinstance(value, Mapping) else None
    return isinstance(servers, Mapping) and servers.get(server) is not None


def _servers(part: dict[str, Any]) -> dict[str, Any]:
    """The servers in a part of our layer, to be changed; raises LayerFault: it is damaged."""
    servers = part.setdefault("mcpServers", {})
    known = servers.values() if isinstance(servers, dict) else [servers]
    if not all(each is None or isinstance(each, dict) for each in known):
        raise LayerFault("mcpServers in our own settings: expected objects, got something else")
    return servers  # type: ignore[no-any-return]  # it is a dict, as was just seen


def _roots(connection: Connection) -> list[Path]:
    return [root.path for root in connection.session.roots]


def _with_references(
    connection: Connection, server: str, settings: ServerSettings
) -> ServerSettings:
    """The settings with references in the place of secrets, which are kept with the logins.

    A secret is every header, what its name or its look says is one, and nothing that holds a
    reference already (`${env:TOKEN}`).
    """
    environ = connection.options.environ
    surroundings = Surroundings(
        environ=environ, home=home_folder(environ), folder=None, kept=lambda _: "kept"
    )
    found: dict[str, str] = {}

    def kept(value: str | None, *, always: bool) -> str | None:
        if not value or not (always or mask(value) != value) or _refers(value, surroundings):
            return value
        number = secrets.token_hex(8)
        found[number] = value
        return f"${{kept:{server}:{number}}}"

    new = dict(settings)
    for key in {"env", "headers"} & new.keys():
        if new[key]:
            new[key] = {
                name: kept(value, always=key == "headers" or is_secret(name))
                for name, value in new[key].items()
            }
    if new.get("args"):
        new["args"] = [kept(each, always=False) for each in new["args"]]
    for key in {"url", "clientSecret"} & new.keys():
        new[key] = kept(new[key], always=key == "clientSecret")
    if found:
        store_secrets(connection.logins, server, found)
    return new


def _refers(value: str, surroundings: Surroundings) -> bool:
    """Whether a text holds a reference to something that is kept elsewhere."""
    try:
        return surroundings.resolve(value, shell_like=True) != value
    except Unresolved:
        return True
