"""`acp`: the agent over standard input and output."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from eca_protocol.errors import StartFailed
from eca_protocol.streams import FdTransport, Transport, owned_stdio
from eca_server.acp.agent import Agent
from eca_server.system.signals import run_until_a_signal

if TYPE_CHECKING:
    from eca_server.agent.chat.store.worker import FileThreads
    from eca_server.connection.features.host import Options
    from eca_server.connection.server import Server


def run(options: Callable[[], Options], command: Sequence[str]) -> int:
    """Serve the ACP client at stdin and stdout, and return the exit code.

    A signal (TERM, INT, HUP, QUIT, USR1) ends all sessions and their servers first.

    `command` starts any ECA server; without one each session has a server with these
    `options` in this process.
    """
    server = server_maker(options)

    def make(transport: Transport) -> Agent:
        if command:
            return Agent(transport, command=list(command))
        answering = partial(server, only_answers=True)
        return Agent(transport, server=partial(server, discovers=True), answering=answering)

    try:
        with owned_stdio(for_good=True) as (read_fd, write_fd):
            serve = partial(_serve, make, read_fd, write_fd)
            code, number = run_until_a_signal(serve)
            return 128 + number if number is not None else code or 0
    except StartFailed as error:
        os.write(2, f"eca-server: {error}\n".encode())
        return 1


def server_maker(options: Callable[[], Options]) -> Callable[..., Server]:
    """Return a function that makes the server of a session; all share the file of chats."""

    @functools.cache
    def threads() -> FileThreads:
        from eca_server.agent.chat.store.worker import FileThreads  # noqa: PLC0415 - as below

        return FileThreads()

    def server(**changes: Any) -> Server:
        import attrs  # noqa: PLC0415 - the answer to `initialize` needs no server

        from eca_server.connection.server import Server  # noqa: PLC0415

        changes |= {"keeps_chats": True, "chat_threads": threads()}
        return Server(attrs.evolve(options(), **changes))

    return server


async def _serve(make: Callable[[Transport], Agent], read_fd: int, write_fd: int) -> int:
    end = await make(FdTransport(read_fd, write_fd)).serve()
    return 0 if end.kind == "eof" else 1
