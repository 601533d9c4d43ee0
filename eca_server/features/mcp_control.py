"""Requests about MCP servers: start, stop, configure, log in and out (W-36).

Changes of the configuration outlive the connection (`kept_servers`), starts and stops do not.
Changes are made one after the other, in the order of their requests.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import attrs

from eca_protocol import messages as m
from eca_protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, ECAError, RPCError
from eca_protocol.peer import Handler
from eca_server.config.directories import home_directory
from eca_server.config.interpolation import ReferenceResolver
from eca_server.config.mcp_settings import find_errors, server_keys
from eca_server.features.connection import Connection
from eca_server.features.kept_servers import (
    ServerSettings,
    add_server,
    change_server,
    remove_server,
)
from eca_server.features.mcp import announcement, login_of
from eca_server.workspace import path_of

__all__ = ["make_handlers"]

_log = logging.getLogger("eca_server")

_Result = TypeVar("_Result")

_LONGEST_NAME = 100


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handlers of requests about MCP servers."""

    def start(params: m.MCPStartServerParams | m.MCPConnectServerParams) -> None:
        if _awaits_trust(connection, params.name):
            _soon(connection, partial(_start_trusted, connection, params.name))
        elif connection.is_introduced and not connection.mcp.start(params.name):
            _warn_of_unknown(connection, params.name)

    def connect(params: m.MCPConnectServerParams) -> None:
        """Start the server, and open the page of a required login in the browser."""
        if params.name in connection.config.mcp_servers:
            connection.announced.wanted_logins.add(params.name)
        start(params)

    def stop(params: m.MCPStopServerParams) -> None:
        if connection.is_introduced and not connection.mcp.stop(params.name):
            _warn_of_unknown(connection, params.name)

    def log_out(params: m.MCPLogoutServerParams) -> None:
        _soon(connection, partial(_log_out, connection, params.name))

    def enable(params: m.MCPEnableServerParams) -> None:
        _soon(connection, partial(_switch, connection, params.name, on=True))

    def disable(params: m.MCPDisableServerParams) -> None:
        _soon(connection, partial(_switch, connection, params.name, on=False))

    def add(params: m.MCPAddServerParams) -> Awaitable[m.MCPAddServerResult]:
        return _in_turn(connection, partial(_add, connection, params))

    def update(params: m.MCPUpdateServerParams) -> Awaitable[m.MCPUpdateServerResult]:
        return _in_turn(connection, partial(_update, connection, params))

    def remove(params: m.MCPRemoveServerParams) -> Awaitable[m.MCPRemoveServerResult]:
        return _in_turn(connection, partial(_remove, connection, params.name))

    return {
        "mcp/startServer": start,
        "mcp/stopServer": stop,
        "mcp/connectServer": connect,
        "mcp/logoutServer": log_out,
        "mcp/enableServer": enable,
        "mcp/disableServer": disable,
        "mcp/addServer": add,
        "mcp/updateServer": update,
        "mcp/removeServer": remove,
    }


def _awaits_trust(connection: Connection, name: str) -> bool:
    """Return whether a workspace folder's server waits for the user's consent."""
    settings = connection.config.mcp_servers.get(name)
    return settings is not None and settings.awaits_trust


async def _start_trusted(connection: Connection, name: str) -> None:
    """Start a waiting server: the client has shown its command or URL."""
    await _consent(connection, name)
    if not connection.mcp.start(name):
        _warn_of_unknown(connection, name)


async def _consent(connection: Connection, name: str) -> None:
    """Accept the settings of one server of a workspace folder.

    Raises:
        RPCError: the user must see more of them first, or does not trust the workspace.
        TrustStoreError: the decision cannot be stored.
    """
    if not _awaits_trust(connection, name):
        return
    why_not = await connection.trust.accept_server(name)
    if not why_not and _awaits_trust(connection, name):
        why_not = (
            f"The settings of the MCP server {name[:100]} changed meanwhile: review them again."
        )
    if why_not:
        if name in connection.config.mcp_servers:
            connection.mcp.stop(name)  # announces its status again
        raise RPCError(INVALID_PARAMS, why_not)


def _warn_of_unknown(connection: Connection, name: str) -> None:
    connection.session.show(
        "warning", f"There is no MCP server {name[:100]!r}. Configured: {_known(connection)}."
    )


def _known(connection: Connection) -> str:
    return ", ".join(connection.config.mcp_servers) or "none"


def _in_turn(
    connection: Connection, work: Callable[[], Awaitable[_Result]]
) -> Coroutine[Any, Any, _Result]:
    """Do some work after all earlier changes.

    Raises:
        RPCError: the work failed; the message says why.
    """
    place = connection.changing.place()

    async def run() -> _Result:
        async with place:
            try:
                return await work()
            except RPCError:
                raise
            except ECAError as error:
                raise RPCError(INTERNAL_ERROR, f"nothing was changed: {error}") from error

    return run()


def _soon(connection: Connection, work: Callable[[], Awaitable[None]]) -> None:
    """Do some work after all earlier changes, and show the user its errors."""
    doing = _in_turn(connection, work)

    async def run() -> None:
        try:
            await doing
        except RPCError as error:
            connection.session.show("warning", error.message)
        except Exception as error:  # noqa: BLE001 - a bug must not end the connection
            _log.error("a change of MCP servers failed", exc_info=error)
            connection.session.show("error", "The change failed; see the server's log.")

    connection.nursery.start_soon(run)


async def _log_out(connection: Connection, name: str) -> None:
    settings = connection.config.mcp_servers.get(name)
    if settings is None:
        _warn_of_unknown(connection, name)
        return
    if settings.awaits_trust:
        raise _must_be_accepted(name)
    login = login_of(connection, name, settings)
    if login is None:
        raise RPCError(INVALID_PARAMS, f"The MCP server {name} has no URL, and so no login.")
    await login.forget()
    connection.mcp.renew(name)


async def _switch(connection: Connection, name: str, *, on: bool) -> None:
    if on:
        await _consent(connection, name)
    settings = connection.config.mcp_servers.get(name)
    if settings is None:
        _warn_of_unknown(connection, name)
    elif settings.disabled is not on:
        (connection.mcp.start if on else connection.mcp.stop)(name)  # announces its status again
    else:
        await change_server(connection, name, {"disabled": not on})


async def _add(connection: Connection, params: m.MCPAddServerParams) -> m.MCPAddServerResult:
    name = params.name
    if name in connection.config.mcp_servers:
        raise RPCError(INVALID_PARAMS, f"name: there is an MCP server {name!r} already")
    if bool(params.command) is bool(params.url):
        raise RPCError(INVALID_PARAMS, "expected either a command or a url")
    root = _root_asked_for(connection, params)
    requested = _settings_in(params, but=("name", "scope", "workspace_uri"))
    _must_fit(connection, name, requested)
    # Settings of other sources for this name must not apply.
    whole = {key: requested.get(key) or None for key in server_keys()}
    await add_server(connection, name, whole, root=root)
    server = connection.mcp.get(name)
    return m.MCPAddServerResult(server=None if server is None else announcement(connection, server))


async def _update(
    connection: Connection, params: m.MCPUpdateServerParams
) -> m.MCPUpdateServerResult:
    name, requested = params.name, _settings_in(params, but=("name",))
    server = connection.config.mcp_servers.get(name)
    if server is None:
        raise _unknown(connection, name)
    if params.command and params.url:
        raise RPCError(INVALID_PARAMS, "expected either a command or a url, got both")
    if server.awaits_trust:
        raise _must_be_accepted(name)
    _must_fit(connection, name, requested)
    if params.command:
        requested["url"] = None
    elif params.url:
        requested |= {"command": None, "args": None}
    for key, before in (("env", server.env), ("headers", server.headers)):
        if key in requested:
            requested[key] = {**dict.fromkeys(before), **requested[key]}
    await change_server(connection, name, requested)
    return m.MCPUpdateServerResult()


async def _remove(connection: Connection, name: str) -> m.MCPRemoveServerResult:
    if name not in connection.config.mcp_servers:
        raise _unknown(connection, name)
    await remove_server(connection, name)
    return m.MCPRemoveServerResult(name=name, removed=True)


def _root_asked_for(connection: Connection, params: m.MCPAddServerParams) -> Path | None:
    roots = [root.path for root in connection.session.roots]
    if params.scope != "workspace":
        return None
    if params.workspace_uri is None:
        if len(roots) != 1:
            raise RPCError(INVALID_PARAMS, "workspaceUri: expected one of the workspace's folders")
        return roots[0]
    try:
        path = Path(path_of(params.workspace_uri))
    except ValueError as error:
        raise RPCError(INVALID_PARAMS, f"workspaceUri: {error}") from None
    if path not in roots:
        raise RPCError(INVALID_PARAMS, "workspaceUri: expected one of the workspace's folders")
    return path


def _settings_in(params: attrs.AttrsInstance, *, but: Iterable[str]) -> ServerSettings:
    """Return the parameters that are set, by the keys of the configuration."""
    return {
        "".join([first, *map(str.capitalize, rest)]): value
        for field, value in attrs.asdict(params, recurse=False).items()
        for first, *rest in [field.split("_")]
        if field not in but and value is not None
    }


def _must_fit(connection: Connection, name: str, settings: ServerSettings) -> None:
    if len(name) > _LONGEST_NAME or not name.isprintable() or set("{}") & set(name):
        raise RPCError(
            INVALID_PARAMS, f"name: expected at most {_LONGEST_NAME} characters, none of them {{ }}"
        )
    environ = connection.options.environ
    resolver = ReferenceResolver(
        environ=environ,
        home=home_directory(environ),
        directory=None,
        stored_secret=lambda _: "stored",
        commands=lambda _: "",
    )
    error = find_errors(name, settings, resolver)
    if error is not None:
        raise RPCError(INVALID_PARAMS, error)


def _must_be_accepted(name: str) -> RPCError:
    return RPCError(
        INVALID_PARAMS,
        f"name: the opened folder configures the MCP server {name[:100]!r}, which you have not "
        "accepted yet: start it, or send `/trust` in a chat, then try again",
    )


def _unknown(connection: Connection, name: str) -> RPCError:
    return RPCError(
        INVALID_PARAMS,
        f"name: there is no MCP server {name[:100]!r}; configured: {_known(connection)}",
    )
