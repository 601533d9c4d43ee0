"""The user's changes of MCP servers, stored in the saved settings.

A change goes to the part of a workspace root if only that root configures the server, else to the
part for all workspaces. Secrets are stored with the logins and replaced by references. Changes by
other server processes are read first.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import trio

from eca_protocol.errors import INVALID_PARAMS, ECAError, RPCError
from eca_server.config.directories import home_directory
from eca_server.config.interpolation import ReferenceResolver, UnresolvedReference
from eca_server.config.loading import LoadedConfig
from eca_server.config.mcp_settings import is_secret
from eca_server.config.saved_settings import SavedSettings, SettingsByScope
from eca_server.models.credentials.logins import Logins, LoginsError
from eca_server.models.credentials.server_secrets import drop_secrets, store_secrets
from eca_server.secret import mask

_log = logging.getLogger("eca_server")

ServerSettings: TypeAlias = dict[str, Any]
"""Settings of a server: JSON, as in the configuration."""

_REFERENCE: Final = re.compile(r"\$\{kept:[^{}]*:([^{}:]*)\}")


@attrs.frozen(eq=False)
class SavedServers:
    """The saved settings of MCP servers.

    Attributes:
        reload: loads the configuration again, and puts it in force.
        environ: the environment variables.
    """

    roots: Sequence[Path]
    loaded: LoadedConfig
    reload: Callable[[], Awaitable[None]]
    environ: Mapping[str, str]
    logins: Logins

    async def add(self, name: str, settings: ServerSettings, *, root: Path | None) -> None:
        """Store the settings of a new server.

        `root`: the workspace root of the server; None: all workspaces.

        Raises:
            RPCError: `pureConfig` is set, or the server exists.
            ECAError: the settings cannot be stored.
        """

        def add(parts: SettingsByScope) -> None:
            if self._saved(name, parts)[-1:] not in ([], [None]):
                raise RPCError(INVALID_PARAMS, f"name: there is an MCP server {name!r} already")
            for each in self.roots:
                _servers(parts.of(each)).pop(name, None)  # it would win
            _servers(parts.of(root))[name] = self._with_references(name, settings)

        await self._store(name, add)

    async def change(self, name: str, settings: ServerSettings) -> None:
        """Store changed settings of a server; the others stay. Raises as `add`."""

        def change(parts: SettingsByScope) -> None:
            ours = self._saved(name, parts)
            if ours[-1] is None if ours else not self._is_configured_elsewhere(name):
                raise RPCError(INVALID_PARAMS, f"name: the MCP server {name!r} was just removed")
            servers = _servers(parts.of(self._root_of(name, parts)))
            new = self._with_references(name, settings)
            servers[name] = {**(servers.get(name) or {}), **new}

        await self._store(name, change)

    async def remove(self, name: str) -> None:
        """Remove a server, also one of another source. Raises as `add`."""

        def remove(parts: SettingsByScope) -> None:
            where = self._root_of(name, parts)
            for part in (parts.everywhere, *(parts.of(root) for root in self.roots)):
                _servers(part).pop(name, None)
            if self._is_configured_elsewhere(name):
                _servers(parts.of(where))[name] = None

        await self._store(name, remove)

    async def _store(self, name: str, change: Callable[[SettingsByScope], None]) -> None:
        if self.loaded.is_pure:
            raise RPCError(
                INVALID_PARAMS,
                "initializationOptions.pureConfig is set: only the editor's own configuration "
                "applies",
            )

        def forget_secrets(parts: SettingsByScope) -> None:
            needed = _REFERENCE.findall(json.dumps([parts.everywhere, parts.workspaces]))
            try:
                drop_secrets(self.logins, name, but=frozenset(needed))
            except LoginsError as error:
                _log.warning("secrets of the MCP server %s cannot be removed: %s", name, error)

        layer = SavedSettings(self.environ)
        await trio.to_thread.run_sync(partial(layer.change, change, then=forget_secrets))
        await self.reload()

    def _root_of(self, name: str, parts: SettingsByScope) -> Path | None:
        """Return the root whose part has a server, or None for the part of all workspaces."""
        for root in reversed(self.roots):
            if name in _servers(parts.of(root)):
                return root
        if name in _servers(parts.everywhere):
            return None
        files = {str(root / ".eca" / "config.json"): root for root in self.roots}
        named = [
            source for source, value in self._other_sources().items() if _is_named(value, name)
        ]
        return files[named[-1]] if named and files.keys() >= set(named) else None

    def _saved(self, name: str, parts: SettingsByScope) -> list[ServerSettings | None]:
        """Return a server's saved settings; the last one wins, and None removes the server."""
        places = (parts.everywhere, *(parts.of(root) for root in self.roots))
        return [_servers(part)[name] for part in places if name in _servers(part)]

    def _is_configured_elsewhere(self, name: str) -> bool:
        """Return whether another source configures a server."""
        return any(_is_named(value, name) for value in self._other_sources().values())

    def _other_sources(self) -> Mapping[str, object]:
        """Return the JSON of all sources but the saved settings."""
        ours = str(SavedSettings(self.environ).path)
        return {name: value for name, value in self.loaded.values.items() if name != ours}

    def _with_references(self, server: str, settings: ServerSettings) -> ServerSettings:
        """Store the secrets of settings with the logins, and return the settings with references.

        Every header is a secret, and so is a value with a telling name or look, unless it contains
        a reference already (`${env:TOKEN}`).
        """
        environ = self.environ
        resolver = ReferenceResolver(
            environ=environ,
            home=home_directory(environ),
            directory=None,
            stored_secret=lambda _: "stored",
        )
        stored: dict[str, str] = {}

        def referenced(value: str | None, *, always: bool) -> str | None:
            if not value or not (always or mask(value) != value) or _refers(value, resolver):
                return value
            number = secrets.token_hex(8)
            stored[number] = value
            return f"${{kept:{server}:{number}}}"

        new = dict(settings)
        for key in {"env", "headers"} & new.keys():
            if new[key]:
                new[key] = {
                    name: referenced(value, always=key == "headers" or is_secret(name))
                    for name, value in new[key].items()
                }
        if new.get("args"):
            new["args"] = [referenced(each, always=False) for each in new["args"]]
        for key in {"url", "clientSecret"} & new.keys():
            new[key] = referenced(new[key], always=key == "clientSecret")
        if stored:
            store_secrets(self.logins, server, stored)
        return new


def _is_named(value: object, server: str) -> bool:
    servers = value.get("mcpServers") if isinstance(value, Mapping) else None
    return isinstance(servers, Mapping) and servers.get(server) is not None


def _servers(part: dict[str, Any]) -> dict[str, Any]:
    """Return the servers of a part, to be changed; raise ECAError if it is damaged."""
    servers = part.setdefault("mcpServers", {})
    known = servers.values() if isinstance(servers, dict) else [servers]
    if not all(each is None or isinstance(each, dict) for each in known):
        raise ECAError("mcpServers in the saved settings: expected objects, got something else")
    return servers  # type: ignore[no-any-return]  # checked above


def _refers(value: str, resolver: ReferenceResolver) -> bool:
    try:
        return resolver.resolve(value, shell_like=True) != value
    except UnresolvedReference:
        return True
