"""Whether a server still answers: asked now and then of one far away, and of one that is suspect.

The rule it keeps: a server that may be busy with a call is not judged; one that answers anything at
all is alive; one that twice says nothing is over, and is started or reached anew.
"""

from __future__ import annotations

from typing import Final, Protocol

import trio

from eca_server.mcp.faults import MCPFault

__all__ = ["PING_SECONDS", "SECOND_CHANCE", "Watched", "keep_alive"]

PING_SECONDS: Final = 10.0
"""How long the answer to a ping may take."""

SECOND_CHANCE: Final = 50.0
"""From a ping without an answer to the next one: a call that nobody waits for may end meanwhile."""


class Watched(Protocol):
    """What is asked (see `session.Session`)."""

    suspect: trio.Event

    @property
    def is_busy(self) -> bool: ...  # noqa: D102
    async def ping(self, seconds: float) -> None: ...  # noqa: D102
    def give_up(self, fault: MCPFault) -> None: ...  # noqa: D102


async def keep_alive(session: Watched, seconds: float) -> None:
    """Ping a server that is idle, for as long as it lives.

    Args:
        session: with it.
        seconds: between two pings; `math.inf`: only after a call without an answer.
    """
    while True:
        with trio.move_on_after(seconds):
            await session.suspect.wait()
        session.suspect = trio.Event()
        if not await _is_alive(session):
            await trio.sleep(SECOND_CHANCE)
            if not await _is_alive(session):
                session.give_up(MCPFault("it does not answer any more", kind="closed"))
                return


async def _is_alive(session: Watched) -> bool:
    if session.is_busy:
        return True
    try:
        await session.ping(PING_SECONDS)
    except MCPFault as fault:
        return fault.kind != "timeout" or session.is_busy  # a call may have come between
    return True
