"""A `Watcher` over all messages of a session, whose observations are raised.

Only violations of the server with level `must` count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.sessions.signatures import Signature, Signatures
from eca_protocol.testing.sessions.wire import Violation, frame
from eca_protocol.testing.watching import Side, Watcher


class WatcherViolation(Violation):
    """A violation that the watcher reported.

    Attributes:
        signature: that of the message which showed it.
    """

    def __init__(self, requirement: str, expected: str, got: str, signature: Signature) -> None:
        super().__init__(requirement, expected, got)
        self.signature = signature


def session_watcher(edition: str, *, known: Collection[str] = ()) -> Callable[[str, Any], None]:
    """Return a callback for the messages of one process, which raises `WatcherViolation`.

    `known`: requirements whose violation is ignored.
    """
    watcher, signatures = Watcher(revision=Revision(edition)), Signatures()

    def watch(side: str, message: Any) -> None:
        who: Side = "client" if side == "client" else "server"
        if isinstance(message, bytes):
            watcher.feed_raw(who, frame(message))
            return
        signature = signatures.take(side, message)
        for each in watcher.feed(who, message):
            is_binding = REQUIREMENTS[each.requirement].level == "must"
            if each.side == "server" and is_binding and each.requirement not in known:
                raise WatcherViolation(each.requirement, each.expected, each.got, signature)

    return watch
