"""Requests about MCP servers: start, stop, configure, log in and out (W-36).

Changes of the configuration outlive the connection (`mcp.saved_servers`), starts and stops do not.
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
from eca_protocol import methods
from eca_protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, ECAError, RPCError
from eca_protocol.peer import Handler
from eca_protocol.server.roots import path_of
from eca_server.agent.mcp.saved_servers import SavedServers, ServerSettings
from eca_server.client.content_formatting import NATIVE_SERVER
from eca_server.config.directories import home_directory
from eca_server.config.interpolation import ReferenceResolver
from eca_server.config.mcp_settings import find_errors, server_keys
from eca_server.connection.features.composition import Composition, Feature

_log = logging.getLogger("eca_server")

_Params = TypeVar("_Params")
_Result = TypeVar("_Result")

_LONGEST_NAME = 100

_NATIVE_STAYS = (
    f"{NATIVE_SERVER} stands for the server's own tools, which cannot be stopped. To turn tools "
    "off, name them in `disabledTools` of the configuration."
)


class MCPControl(Feature):
    """The requests about MCP servers."""

    def __init__(self, parts: Composition) -> None:
        super().__init__(parts)
        self.mcp = parts.mcp.get()

    @property
    def _saved(self) -> SavedServers:
        roots, settings = [root.path for root in self.session.roots], self.settings
        environ = self.host.options.environ
        return SavedServers(roots, settings.loaded, settings.reload, environ, self.logins)

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of requests about MCP servers."""
        return methods.handlers(
            methods.MCP_START_SERVER.handled_by(self._start),
            methods.MCP_STOP_SERVER.handled_by(self._stop),
            methods.MCP_CONNECT_SERVER.handled_by(self._connect),
            methods.MCP_LOGOUT_SERVER.handled_by(self._soon(self._log_out)),
            methods.MCP_ENABLE_SERVER.handled_by(self._soon(partial(self._switch, on=True))),
            methods.MCP_DISABLE_SERVER.handled_by(self._soon(partial(self._switch, on=False))),
            methods.MCP_ADD_SERVER.handled_by(partial(self._in_turn, self._add)),
            methods.MCP_UPDATE_SERVER.handled_by(partial(self._in_turn, self._update)),
            methods.MCP_REMOVE_SERVER.handled_by(partial(self._in_turn, self._remove)),
        )

    def _start(self, params: m.MCPStartServerParams | m.MCPConnectServerParams) -> None:
        if self._awaits_trust(params.name):
            self._soon(self._start_trusted)(params)
        elif self.announcer.is_introduced and not self.mcp.manager.start(params.name):
            self._warn_of_unknown(params.name)

    def _connect(self, params: m.MCPConnectServerParams) -> None:
        """Start the server, and open the page of a required login in the browser."""
        if params.name in self.settings.config.mcp_servers:
            self.mcp.wanted_logins.add(params.name)
        self._start(params)

    def _stop(self, params: m.MCPStopServerParams) -> None:
        if self.announcer.is_introduced and not self.mcp.manager.stop(params.name):
            self._warn_of_unknown(params.name)

    def _awaits_trust(self, name: str) -> bool:
        """Return whether a workspace folder's server waits for the user's consent."""
        settings = self.settings.config.mcp_servers.get(name)
        return settings is not None and settings.awaits_trust

    async def _start_trusted(self, name: str) -> None:
        """Start a waiting server: the client has shown its command or URL."""
        await self._consent(name)
        if not self.mcp.manager.start(name):
            self._warn_of_unknown(name)

    async def _consent(self, name: str) -> None:
        """Accept the settings of one server of a workspace folder.

        Raises:
            RPCError: the user must see more of them first, or does not trust the workspace.
            DataFileError: the decision cannot be stored.
        """
        if not self._awaits_trust(name):
            return
        why_not = await self.trust.accept_server(name)
        if not why_not and self._awaits_trust(name):
            why_not = (
                f"The settings of the MCP server {name[:100]} changed meanwhile: review them again."
            )
        if why_not:
            if name in self.settings.config.mcp_servers:
                self.mcp.manager.stop(name)  # announces its status again
            raise RPCError(INVALID_PARAMS, why_not)

    def _warn_of_unknown(self, name: str) -> None:
        if name == NATIVE_SERVER:
            self.session.show("warning", _NATIVE_STAYS)
            return
        self.session.show(
            "warning", f"There is no MCP server {name[:100]!r}. Configured: {self._known()}."
        )

    def _known(self) -> str:
        return ", ".join(self.settings.config.mcp_servers) or "none"

    def _in_turn(
        self, work: Callable[[_Params], Awaitable[_Result]], params: _Params
    ) -> Coroutine[Any, Any, _Result]:
        """Do the work of a request after all earlier changes.

        Raises:
            RPCError: the work failed; the message says why.
        """
        place = self.settings.changing.place()

        async def run() -> _Result:
            async with place:
                try:
                    return await work(params)
                except RPCError:
                    raise
                except ECAError as error:
                    raise RPCError(INTERNAL_ERROR, f"nothing was changed: {error}") from error

        return run()

    def _soon(self, work: Callable[[str], Awaitable[None]]) -> Handler:
        """Return the handler that does some work after all earlier changes, and shows errors."""

        async def run(doing: Awaitable[None]) -> None:
            try:
                await doing
            except RPCError as error:
                self.session.show("warning", error.message)
            except Exception as error:  # noqa: BLE001 - a bug must not end the connection
                _log.error("a change of MCP servers failed", exc_info=error)
                self.session.show("error", "The change failed; see the server's log.")

        return lambda params: self.host.nursery.start_soon(run, self._in_turn(work, params.name))

    async def _log_out(self, name: str) -> None:
        settings = self.settings.config.mcp_servers.get(name)
        if settings is None:
            self._warn_of_unknown(name)
            return
        if settings.awaits_trust:
            raise _must_be_accepted(name)
        login = self.mcp.login_of(name, settings)
        if login is None:
            raise RPCError(INVALID_PARAMS, f"The MCP server {name} has no URL, and so no login.")
        await login.forget()
        self.mcp.manager.renew(name)

    async def _switch(self, name: str, *, on: bool) -> None:
        if on:
            await self._consent(name)
        settings = self.settings.config.mcp_servers.get(name)
        if settings is None:
            self._warn_of_unknown(name)
        elif settings.disabled is not on:
            manager = self.mcp.manager  # announces its status again
            (manager.start if on else manager.stop)(name)
        else:
            await self._saved.change(name, {"disabled": not on})

    async def _add(self, params: m.MCPAddServerParams) -> m.MCPAddServerResult:
        name = params.name
        if name in self.settings.config.mcp_servers:
            raise RPCError(INVALID_PARAMS, f"name: there is an MCP server {name!r} already")
        if bool(params.command) is bool(params.url):
            raise RPCError(INVALID_PARAMS, "expected either a command or a url")
        root = self._root_asked_for(params)
        requested = _settings_in(params, but=("name", "scope", "workspace_uri"))
        self._must_fit(name, requested)
        # Settings of other sources for this name must not apply.
        whole = {key: requested.get(key) or None for key in server_keys()}
        await self._saved.add(name, whole, root=root)
        server = self.mcp.manager.get(name)
        announced = None if server is None else self.mcp.announcement(server)
        return m.MCPAddServerResult(server=announced)

    async def _update(self, params: m.MCPUpdateServerParams) -> m.MCPUpdateServerResult:
        name, requested = params.name, _settings_in(params, but=("name",))
        server = self.settings.config.mcp_servers.get(name)
        if server is None:
            raise self._unknown(name)
        if params.command and params.url:
            raise RPCError(INVALID_PARAMS, "expected either a command or a url, got both")
        if server.awaits_trust:
            raise _must_be_accepted(name)
        self._must_fit(name, requested)
        joins = self.session.profile.joins_arguments
        if joins and _words(params.args) == _words(server.args):
            requested.pop("args", None)
        if params.command:
            requested["url"] = None
        elif params.url:
            requested |= {"command": None, "args": None}
        for key, before in (("env", server.env), ("headers", server.headers)):
            if key in requested:
                requested[key] = {**dict.fromkeys(before), **requested[key]}
        await self._saved.change(name, requested)
        return m.MCPUpdateServerResult()

    async def _remove(self, params: m.MCPRemoveServerParams) -> m.MCPRemoveServerResult:
        name = params.name
        if name not in self.settings.config.mcp_servers:
            raise self._unknown(name)
        await self._saved.remove(name)
        return m.MCPRemoveServerResult(name=name, removed=True)

    def _root_asked_for(self, params: m.MCPAddServerParams) -> Path | None:
        roots = [root.path for root in self.session.roots]
        if params.scope != "workspace":
            return None
        path = roots[0] if len(roots) == 1 else None
        if params.workspace_uri is not None:
            try:
                path = Path(path_of(params.workspace_uri))
            except ValueError as error:
                raise RPCError(INVALID_PARAMS, f"workspaceUri: {error}") from None
        if path not in roots:
            raise RPCError(INVALID_PARAMS, "workspaceUri: expected one of the workspace's folders")
        return path

    def _must_fit(self, name: str, settings: ServerSettings) -> None:
        if len(name) > _LONGEST_NAME or not name.isprintable() or set("{}") & set(name):
            raise RPCError(
                INVALID_PARAMS,
                f"name: expected at most {_LONGEST_NAME} characters, none of them {{ }}",
            )
        environ = self.host.options.environ
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

    def _unknown(self, name: str) -> RPCError:
        return RPCError(
            INVALID_PARAMS,
            f"name: there is no MCP server {name[:100]!r}; configured: {self._known()}",
        )


def _settings_in(params: attrs.AttrsInstance, *, but: Iterable[str]) -> ServerSettings:
    """Return the parameters that are set, by the keys of the configuration."""
    return {
        "".join([first, *map(str.capitalize, rest)]): value
        for field, value in attrs.asdict(params, recurse=False).items()
        for first, *rest in [field.split("_")]
        if field not in but and value is not None
    }


def _words(arguments: Iterable[str] | None) -> list[str]:
    return " ".join(arguments or ()).split()


def _must_be_accepted(name: str) -> RPCError:
    return RPCError(
        INVALID_PARAMS,
        f"name: the opened folder configures the MCP server {name[:100]!r}, which you have not "
        "accepted yet: start it, or send `/trust` in a chat, then try again",
    )
