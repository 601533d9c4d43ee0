"""`serve`: one connection over the process's own standard streams."""

from __future__ import annotations

import os
import sys

import trio

from eca_protocol.errors import StartFailed
from eca_protocol.server.endings import leave_in_time
from eca_protocol.streams import FdTransport, owned_stdio
from eca_server.connection.features.host import Options
from eca_server.connection.server import serve
from eca_server.system.clock import RunningClock
from eca_server.system.signals import ignore_signals
from eca_server.system.threads import SWITCH_SECONDS, NameLookups


def serve_stdio(options: Options) -> int:
    """Serve the client at stdin and stdout, and return the exit code."""
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        with owned_stdio(for_good=True) as (read_fd, write_fd):
            return trio.run(_serve, options, read_fd, write_fd, clock=RunningClock())
    except StartFailed as error:
        os.write(2, f"eca-server: {error}\n".encode())
        return 1


async def _serve(options: Options, read_fd: int, write_fd: int) -> int:
    trio.socket.set_custom_hostname_resolver(NameLookups())
    transport = FdTransport(read_fd, write_fd)
    code = await serve(transport, options, handles_signals=True, on_ending=leave_in_time)
    ignore_signals()  # trio closes the socket that a signal is written to before it says so
    return code
