"""One server's view of the file of chats, which several servers of a process may share."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import attrs

from eca_server.agent.chat.store.place import Owner


@attrs.define(eq=False)
class ServerView:
    """The chats as one server knows them, and the problems that were reported to it.

    Attributes:
        on_problem: called with a sentence for the user.
        last: by chat, the number and the id of its last message as this server knows it.
        last_error: the time of the last error of the disk that this server met.
    """

    on_problem: Callable[[str], None]
    last: dict[str, tuple[int, str]] = attrs.field(init=False, factory=dict)
    last_error: float = attrs.field(init=False, default=-math.inf)
    _reported: set[str] = attrs.field(init=False, factory=set)
    _owner: Owner | None = attrs.field(init=False, default=None)

    def report_once(self, sentence: str) -> None:
        """Report something to the user, unless it was reported before."""
        if sentence not in self._reported:
            self._reported.add(sentence)
            self.on_problem(sentence)

    def owner(self, path: Path) -> str | None:
        """Return the name under which this server's turns run, or None if none can be taken."""
        if self._owner is None:
            with suppress(OSError):  # without a name a killed turn has no mark
                self._owner = Owner(path)
        return None if self._owner is None else self._owner.token

    def leave(self) -> None:
        """Give up the name under which this server's turns ran."""
        if self._owner is not None:
            self._owner.leave()
            self._owner = None
