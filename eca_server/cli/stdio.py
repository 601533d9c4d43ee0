"""`serve`: one connection over the process's own standard streams."""

from __future__ import annotations

import os
import threading

import trio

from eca_protocol.errors import StartFailed
from eca_protocol.streams import FdTransport, owned_stdio
from eca_server.connection.features.host import Options
from eca_server.connection.server import serve
from eca_server.system.signals import ignore_signals

LAST_SECONDS = 2.7
"""Limit from the end of the connection to the exit of the process (W-13)."""


def serve_stdio(options: Options) -> int:
    """Serve the client at stdin and stdout, and return the exit code."""
    try:
        with owned_stdio(for_good=True) as (read_fd, write_fd):
            code = trio.run(_serve, options, read_fd, write_fd)
            ignore_signals()
            return code
    except StartFailed as error:
        os.write(2, f"eca-server: {error}\n".encode())
        return 1


async def _serve(options: Options, read_fd: int, write_fd: int) -> int:
    transport = FdTransport(read_fd, write_fd)
    return await serve(transport, options, handles_signals=True, on_ending=_leave_in_time)


def _leave_in_time() -> None:
    """Exit after the limit, even if a library blocks a thread."""
    timer = threading.Timer(LAST_SECONDS, os._exit, args=(1,))
    timer.daemon = True
    timer.start()
