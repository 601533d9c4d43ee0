"""One connection from its first byte to its last: the peer, the features, the exit code.

`serve` owns the nursery of all tasks of the connection. Whatever ends it (exit, end of input, a
signal, a broken pipe), turns are stopped and closed first, their output is written, and the exit
code reports the cause (ruling W-13).
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

import trio

from eca_protocol.errors import LocalProtocolError
from eca_protocol.message_transport import StreamTransport
from eca_protocol.methods import ECA
from eca_protocol.peer import Peer
from eca_protocol.server.endings import exit_code
from eca_protocol.server.greeting import Greeting
from eca_protocol.streams import Transport
from eca_server.connection.features.gate import ConfigurationGate
from eca_server.connection.features.handlers import Handlers
from eca_server.connection.features.host import Host, Options
from eca_server.connection.features.lifecycle import Connection
from eca_server.system.signals import take_signals
from eca_server.system.telemetry import begin_flush, record_telemetry

_log = logging.getLogger("eca_server")

_EVEN_IGNORED = tuple(each for each in signal.Signals if each.name != "SIGHUP")
"""Signals that end the server even if ignored at the start; SIGHUP is not among them (`nohup`)."""


class Server:
    """A server in this process, for `eca_protocol.connect(server=Server())`; it needs trio.

    Args:
        options: the options; None: the configuration of the environment, and no stored chats.
        on_connection: called with a connection before its first message.

    Attributes:
        backend: the async library that it needs, for `eca_protocol.sync`.
    """

    backend: Final = "trio"

    def __init__(
        self,
        options: Options | None = None,
        *,
        on_connection: Callable[[Connection], None] = lambda _: None,
    ) -> None:
        self._options = options or Options(environ=os.environ)
        self._on_connection = on_connection
        self._connection: Connection | None = None

    async def serve(self, transport: Transport) -> int:
        """Serve one client, and return the exit code.

        Raises:
            LocalProtocolError: the caller runs on asyncio.
        """
        try:
            trio.lowlevel.current_task()
        except RuntimeError:
            raise LocalProtocolError(
                "the server in this process needs trio: run the program with trio.run, or start "
                "the server with command=eca_protocol.SERVER_COMMAND"
            ) from None
        return await serve(transport, self._options, on_connection=self._take)

    def _take(self, connection: Connection) -> None:
        self._connection = connection
        self._on_connection(connection)

    def remembers(self, chat_id: str, call_id: str) -> bool:
        """Return whether an approval for the session of a waiting call would be stored."""
        if self._connection is None:
            return False
        call = self._connection.parts.get().chats.get().call(chat_id, call_id)
        return call is not None and bool(call.memos)


async def serve(
    transport: Transport,
    options: Options,
    *,
    handles_signals: bool = False,
    on_ending: Callable[[], None] = lambda: None,
    on_connection: Callable[[Connection], None] = lambda _: None,
) -> int:
    """Serve one client, and return the exit code for its process.

    Args:
        transport: the byte stream to the client.
        options: the options of the server.
        handles_signals: whether signals (TERM, INT, HUP, QUIT, USR1) end this connection; their
            handlers stay in place, so the process must be the server's own.
        on_ending: called once when the connection begins to end.
        on_connection: called with the connection before its first message.
    """
    handlers = Handlers()
    gate = ConfigurationGate()
    peer = Peer(
        StreamTransport(transport),
        side="server",
        table=ECA,
        codec=Greeting(options.revision),
        handlers=handlers,
        gate=gate,
        before_reading=gate.wait,
    )
    signalled: list[int] = []

    def end_by_signal(number: int) -> None:
        signalled.append(number)
        peer.close(f"got {signal.Signals(number).name}")

    async with record_telemetry(options.environ), trio.open_nursery() as nursery:
        if handles_signals:
            take_signals(end_by_signal, even_ignored=_EVEN_IGNORED)
        async with AsyncExitStack() as at_end, peer:
            connection = Connection(Host(peer, nursery, options, at_end), gate)
            on_connection(connection)
            handlers.serve(connection)
            try:
                end = await peer.serve()
                on_ending()
                begin_flush()
                _log.info("ending: %s", end.reason)
            finally:
                with trio.CancelScope(shield=True):  # the caller may be cancelled
                    await connection.close()
        nursery.cancel_scope.cancel()
    return exit_code(
        end,
        was_shut_down=connection.was_shut_down,
        client_is_gone=connection.client_is_gone,
        signalled=signalled[0] if signalled else None,
    )
