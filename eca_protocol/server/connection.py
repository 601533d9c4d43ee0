"""One client of a server: its lifecycle, its selections, and the handlers of its messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import anyio.abc
import attrs

from eca_protocol import messages as m
from eca_protocol import methods, platforms
from eca_protocol.errors import ConnectionClosed
from eca_protocol.lifecycle import LifecycleGate
from eca_protocol.message_transport import StreamTransport
from eca_protocol.methods import ECA
from eca_protocol.peer import End, Peer
from eca_protocol.process import wait_for_end
from eca_protocol.revisions import Revision
from eca_protocol.server.chat_requests import ChatRequests
from eca_protocol.server.connected_client import ConnectedClient
from eca_protocol.server.declarations import Declarations
from eca_protocol.server.endings import exit_code
from eca_protocol.server.greeting import Greeting
from eca_protocol.server.queries import Queries
from eca_protocol.server.roots import parse_roots
from eca_protocol.streams import Transport

__all__ = ["Connection"]

_log = logging.getLogger("eca_protocol.server")

_PROGRESS = {"task_id": "start", "title": "Starting"}


class Connection:
    """The connection to one client.

    Args:
        transport: the byte stream to the client.
        declarations: the handlers, tools and commands.
        revision: the edition to use; None: the client's (W-12).
        on_ending: called once when the connection begins to end.
    """

    def __init__(
        self,
        transport: Transport,
        declarations: Declarations,
        *,
        revision: Revision | None = None,
        on_ending: Callable[[], None] = lambda: None,
    ) -> None:
        self._declarations = declarations
        self._greeting = Greeting(revision)
        self._on_ending = on_ending
        handlers: dict[str, Callable[[Any], Any]] = {}
        self._peer = Peer(
            StreamTransport(transport),
            side="server",
            table=ECA,
            codec=self._greeting,
            handlers=handlers,
            gate=LifecycleGate(),
        )
        self._chats = ChatRequests(declarations, self._peer, self._notify)
        self._queries = Queries(declarations, lambda: self._chats.client)
        for part in (self._handlers(), self._chats.handlers(), self._queries.handlers()):
            handlers.update(part)
        self._problems: list[str] = []
        self._tasks: anyio.abc.TaskGroup
        self._was_shut_down = False
        self._client_is_gone = False
        self._signalled: int | None = None

    async def serve(self) -> int:
        """Serve the client, and return the exit code for its process (W-13)."""
        end = End("closed", "the connection was closed")
        async with anyio.create_task_group() as self._tasks:
            self._chats.tasks = self._tasks
            async with self._peer:
                end = await self._peer.serve()
                self._on_ending()
                _log.info("ending: %s", end.reason)
                await self._close()
            self._tasks.cancel_scope.cancel()
        return exit_code(
            end,
            was_shut_down=self._was_shut_down,
            client_is_gone=self._client_is_gone,
            signalled=self._signalled,
        )

    def end_by_signal(self, number: int) -> None:
        """End the connection because of a signal."""
        self._signalled = number
        self._peer.close(f"got the signal {number}")

    async def _close(self) -> None:
        """Close all turns and answer all requests within a limit."""
        await self._chats.close()
        await self._peer.cancel_requests(seconds=1.0, but="shutdown")

    def _handlers(self) -> Iterable[tuple[str, Callable[[Any], Any]]]:
        return (
            methods.INITIALIZE.handled_by(self._initialize),
            methods.INITIALIZED.handled_by(lambda _: self._introduce()),
            methods.SHUTDOWN.handled_by(lambda _: self._shut_down()),
            methods.MCP_START_SERVER.handled_by(lambda params: self._warn_of_server(params.name)),
            methods.MCP_STOP_SERVER.handled_by(lambda params: self._warn_of_server(params.name)),
            methods.EXIT.handled_by(lambda _: self._peer.close("the client said exit")),
        )

    def _initialize(self, params: m.InitializeParams) -> m.InitializeResponse:
        greeting = self._greeting
        self._peer.codec = greeting.codec
        roots, problems = parse_roots(params.workspace_folders)
        if greeting.problem is not None:
            self._problems.append(greeting.problem)
        self._problems.extend(problems)
        client = ConnectedClient(
            info=params.client_info or m.ClientInfo(),
            capabilities=params.capabilities,
            revision=greeting.revision,
            roots=roots,
        )
        options = params.initialization_options or m.InitializationOptions()
        self._chats.meet(client, agent=options.chat_agent or options.chat_behavior)
        pid = params.process_id
        if pid is not None and pid > 0 and platforms.is_alive(pid):
            self._tasks.start_soon(self._end_with, pid)
        return m.InitializeResponse(chat_welcome_message=self._declarations.welcome)

    async def _end_with(self, pid: int) -> None:
        """End the connection with the client's process (W-14)."""
        await wait_for_end(pid)
        self._client_is_gone = True
        self._peer.close(f"the client's process {pid} is gone")

    def _introduce(self) -> None:
        """Announce everything to a client that is ready (W-11)."""
        self._notify("$/progress", m.ProgressParams(type="start", **_PROGRESS))
        self._notify(
            "config/updated", m.ConfigUpdatedParams(chat=self._chats.selection.configuration())
        )
        client = self._chats.client
        tools = tuple(
            attrs.evolve(tool.shown, name=client.tool_name(tool.shown.name))
            for tool in self._declarations.tools.values()
        )
        native = m.EcaServerUpdatedParams(name="ECA", status="running", tools=tools)
        self._notify("tool/serverUpdated", native)
        self._notify("$/progress", m.ProgressParams(type="finish", **_PROGRESS))
        for problem in self._problems:
            self._warn(problem)

    def _warn(self, message: str) -> None:
        _log.warning("%s", message)
        self._notify("$/showMessage", m.ShowMessageParams(type="warning", message=message))

    def _warn_of_server(self, name: str) -> None:
        self._warn(f"There is no MCP server {name!r}: this server has none.")

    async def _shut_down(self) -> None:
        await self._close()
        self._was_shut_down = True

    def _notify(self, method: str, params: Any) -> None:
        if not self._peer.closed:
            try:
                self._peer.notify(method, params)
            except ConnectionClosed:
                return
