"""A watcher that outlives us: if we are killed, it ends a server's process group in our place.

Standard input ends for a server when we do, and most leave then. For those that do not, a small
shell holds the other end of a pipe of ours. Nothing is ever written into it before the server is
gone: its end without a word means that we died, however we did. What left the server's group is
out of its reach. Where there is no POSIX shell there is no watcher.
"""

from __future__ import annotations

import os
from typing import Final

from eca_protocol.errors import StartFailed
from eca_protocol.process import Child, Ladder, spawn

__all__ = ["Guard"]

_WATCH: Final = (
    "read -r word && exit 0\n"
    'kill -TERM "-$1" 2>/dev/null || exit 0\n'
    "sleep 1\n"
    'kill -KILL "-$1" 2>/dev/null\n'
)


class Guard:
    """The watcher of one process group."""

    def __init__(self, watcher: Child | None) -> None:
        self._watcher = watcher

    @classmethod
    def over(cls, group: int) -> Guard:
        """Watch from now on; never fails."""
        if os.name == "nt":
            return cls(None)
        command = ["/bin/sh", "-c", _WATCH, "mcp-guard", str(group)]
        try:
            return cls(spawn(command, cwd="/", env={"PATH": os.defpath}, stderr="null"))
        except StartFailed:
            return cls(None)

    async def dismiss(self) -> None:
        """End the watch: the group is gone, and its number may belong to others soon."""
        if self._watcher is not None:
            await self._watcher.signal_group("kill")
            await self._watcher.end(Ladder(after_stdin=1, after_term=0, after_kill=0))
