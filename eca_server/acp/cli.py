"""`acp`: the agent over standard input and output."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from eca_protocol.errors import StartFailed
from eca_protocol.streams import FdTransport, owned_stdio
from eca_server.acp.agent import Agent
from eca_server.system.signals import until_a_signal

if TYPE_CHECKING:
    from eca_server.connection.features.host import Options
    from eca_server.connection.server import Server


def run(options: Callable[[], Options], command: Sequence[str]) -> int:
    """Serve the ACP client at stdin and stdout, and return the exit code.

    A signal (TERM, INT, HUP, QUIT, USR1) ends all sessions and their servers first.

    `command` starts any ECA server; without one each session has a server with these
    `options` in this process.
    """

    def server() -> Server:
        import attrs  # noqa: PLC0415 - the answer to `initialize` needs no server

        from eca_server.connection.server import Server  # noqa: PLC0415

        return Server(attrs.evolve(options(), keeps_chats=True, discovers=True))

    try:
        with owned_stdio(for_good=True) as (read_fd, write_fd):
            made = None if command else server
            serve = partial(_serve, read_fd, write_fd, made, command)
            code, number = trio.run(until_a_signal, serve)
            return 128 + number if number is not None else code or 0
    except StartFailed as error:
        os.write(2, f"eca-server: {error}\n".encode())
        return 1


async def _serve(
    read_fd: int, write_fd: int, server: Callable[[], Server] | None, command: Sequence[str]
) -> int:
    agent = Agent(FdTransport(read_fd, write_fd), server=server, command=list(command) or None)
    end = await agent.serve()
    return 0 if end.kind == "eof" else 1
