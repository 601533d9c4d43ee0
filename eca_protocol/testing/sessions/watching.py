"""A `Watcher` over all that passes in a session: what it sees is a fault.

Only the server's breaches of what must be count. The rule it keeps: no hypothesis here, since
scripts that replay what only the watcher sees import this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.sessions.wire import Fault, frame
from eca_protocol.testing.watching import Side, Watcher

__all__ = ["Seen", "watching"]


class Seen(Fault):
    """A duty that the watcher saw broken."""


def watching(edition: str) -> Callable[[str, Any], None]:
    """What is to be told the messages of one process; it raises `Seen`."""
    watcher = Watcher(revision=Revision(edition))

    def watch(side: str, message: Any) -> None:
        who: Side = "client" if side == "client" else "server"
        if isinstance(message, bytes):
            found = watcher.feed_raw(who, frame(message))
        else:
            found = watcher.feed(who, message)
        for seen in found:
            if seen.side == "server" and REQUIREMENTS[seen.requirement].level == "must":
                raise Seen(seen.requirement, seen.expected, seen.got)

    return watch
