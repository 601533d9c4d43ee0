"""A `Watcher` over all messages of a session, whose observations are raised.

Only violations of the server with level `must` count. This module does not import hypothesis, since
scripts that replay a failure import it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.sessions.wire import Violation, frame
from eca_protocol.testing.watching import Side, Watcher

__all__ = ["WatcherViolation", "session_watcher"]


class WatcherViolation(Violation):
    """A violation that the watcher reported."""


def session_watcher(edition: str) -> Callable[[str, Any], None]:
    """Return a callback for the messages of one process, which raises `WatcherViolation`."""
    watcher = Watcher(revision=Revision(edition))

    def watch(side: str, message: Any) -> None:
        who: Side = "client" if side == "client" else "server"
        if isinstance(message, bytes):
            observations = watcher.feed_raw(who, frame(message))
        else:
            observations = watcher.feed(who, message)
        for each in observations:
            if each.side == "server" and REQUIREMENTS[each.requirement].level == "must":
                raise WatcherViolation(each.requirement, each.expected, each.got)

    return watch
