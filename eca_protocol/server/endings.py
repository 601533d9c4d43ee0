"""The end of a server's process: its exit code, and its limit in time (W-13)."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from eca_protocol.peer import End

__all__ = ["exit_code", "leave_in_time"]

LAST_SECONDS = 2.7
"""The limit from the end of the connection to the exit of the process."""


def exit_code(
    end: End, *, was_shut_down: bool, client_is_gone: bool = False, signalled: int | None = None
) -> int:
    """Return the exit code for the end of a connection.

    Args:
        end: the end of the connection.
        was_shut_down: whether `shutdown` was answered.
        client_is_gone: whether the connection was closed since the client's process has ended.
        signalled: the number of the signal that closed the connection.
    """
    if was_shut_down:
        return 0
    if signalled is not None:
        return 128 + signalled
    is_orderly = client_is_gone if end.kind == "closed" else end.kind == "eof"
    return 0 if is_orderly else 1


def leave_in_time() -> None:
    """Exit after the limit, even if a library blocks a thread."""
    timer = threading.Timer(LAST_SECONDS, os._exit, args=(1,))
    timer.daemon = True
    with suppress(RuntimeError):  # no thread can be started
        timer.start()
