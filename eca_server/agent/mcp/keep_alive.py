"""The keep-alive of a session: pings to a remote server, and to one that missed a deadline.

Rule: a server with a pending call is not checked; any answer means that it is alive; after two
unanswered pings the session ends, and the server is restarted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from eca_server.agent.mcp.errors import MCPError

if TYPE_CHECKING:
    from eca_server.agent.mcp.session import Session

PING_SECONDS: Final = 10.0
"""Time limit for the answer to a ping."""

RETRY_SECONDS: Final = 50.0
"""Time from an unanswered ping to the next one; an abandoned call may end meanwhile."""


async def keep_alive(session: Session, seconds: float) -> None:
    """Ping a server while it is idle, until it does not answer.

    Args:
        session: the session.
        seconds: between two pings; `math.inf`: only after an unanswered call.
    """
    while True:
        with trio.move_on_after(seconds):
            await session.suspect.wait()
        session.suspect = trio.Event()
        if not await _is_alive(session):
            await trio.sleep(RETRY_SECONDS)
            if not await _is_alive(session):
                session.give_up(MCPError("it stopped answering", kind="closed"))
                return


async def _is_alive(session: Session) -> bool:
    if session.is_busy:
        return True
    try:
        await session.ping(PING_SECONDS)
    except MCPError as error:
        return error.kind != "timeout" or session.is_busy  # a call may have started meanwhile
    return True
