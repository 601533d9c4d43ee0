"""A server on the standard streams of its process."""

from __future__ import annotations

import os
from collections.abc import Callable

import anyio
import anyio.abc

from eca_protocol import platforms
from eca_protocol.errors import StartFailed
from eca_protocol.server.connection import Connection
from eca_protocol.server.endings import leave_in_time
from eca_protocol.streams import FdTransport, owned_stdio

__all__ = ["serve_stdio"]


async def serve_stdio(connect: Callable[..., Connection]) -> int:
    """Serve the client at stdin and stdout, and return the exit code.

    Args:
        connect: makes the connection of a byte stream, and of a function for its end.
    """
    try:
        with owned_stdio(for_good=True) as (read_fd, write_fd):
            connection = connect(FdTransport(read_fd, write_fd), on_ending=leave_in_time)
            async with anyio.create_task_group() as tasks:
                if os.name != "nt":
                    await tasks.start(_end_by_signals, connection)
                code = await connection.serve()
                tasks.cancel_scope.cancel()
            return code
    except StartFailed as error:
        os.write(2, f"{error}\n".encode())
        return 1


async def _end_by_signals(
    connection: Connection,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """End the connection at the first signal; ignore further ones."""
    with anyio.open_signal_receiver(*platforms.ENDING_SIGNALS) as signals:
        task_status.started()
        async for number in signals:
            connection.end_by_signal(number)
