"""What the examples of one run share: the server's process, counters, what was found.

The rule it keeps: one process serves many examples, each with chats of its own, unless an example
asks for a process that it may end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from eca_protocol.testing.sessions.actions import hello
from eca_protocol.testing.sessions.session import Session, Step, Watch
from eca_protocol.testing.sessions.wire import Fault, Stuck

__all__ = ["Failure", "Run"]

_SHRINKING_SECONDS = 1.0
"""How long a step may take once one has been missed: the same again comes soon or never."""


@attrs.frozen(kw_only=True)
class Failure:
    """What was found, and the steps that show it."""

    fault: Fault
    steps: tuple[Step, ...]


@attrs.define(kw_only=True)
class Run:
    """What the examples share.

    Attributes:
        command: what starts the server.
        edition: the edition that is spoken.
        seconds: how long one step may take, while nothing was missed; a start always may.
        watcher: makes what is told every message of a process.
        steps: how many actions were done.
        examples: how many examples.
        processes: how often the server was started.
        failure: the last example that failed; when hypothesis is done with it, the smallest.
    """

    command: Sequence[str]
    edition: str
    seconds: float = 10.0
    watcher: Callable[[], Watch] = lambda: lambda _side, _message: None
    steps: int = 0
    examples: int = 0
    processes: int = 0
    failure: Failure | None = None
    _step_seconds: float = attrs.field(init=False)
    _last_number: int = 0
    _session: Session | None = None

    def __attrs_post_init__(self) -> None:
        self._step_seconds = self.seconds

    def number(self) -> int:
        """A number that was not given before: ids, marks and gates have one."""
        self._last_number += 1
        return self._last_number

    def session(self, *, variant: int, fresh: bool) -> Session:
        """A session that has been opened, with no turn under way.

        Args:
            variant: how a new one is opened, see `actions.hello`.
            fresh: whether its process must be new.

        Raises:
            Fault: it could not be opened.
        """
        if fresh:
            self.end()
        if self._session is None:
            self.processes += 1
            session = Session(
                self.command, edition=self.edition, seconds=self.seconds, watch=self.watcher()
            )
            self._session = session
            for name, *arguments in hello(self.edition, variant):
                self.do(name, *arguments)
            session.opening = tuple(session.steps)
            session.seconds = self._step_seconds
        return self._session

    def do(self, step: str, *arguments: object) -> None:
        """Do a step of the session.

        Raises:
            Fault: it broke a rule; that is kept.
        """
        session = self._session
        assert session is not None
        try:
            getattr(session, step)(*arguments)
        except Fault as fault:
            self.failure = Failure(fault=fault, steps=tuple(session.steps))
            if isinstance(fault, Stuck):
                self._step_seconds = session.seconds = min(self.seconds, _SHRINKING_SECONDS)
            raise

    def leave(self, *, failed: bool) -> None:
        """End what an example has begun; a process in which that is impossible ends, too.

        Raises:
            Fault: that broke a rule, in an example that had not failed before.
        """
        session = self._session
        if session is None:
            return
        try:
            if not failed and (stops := session.stops()):
                self.do("send", stops)
                self.do("rest")
        finally:
            try:
                session.forget()
            except Fault:
                self.end()

    def end(self) -> None:
        """End the process, if there is one."""
        if self._session is not None:
            self._session.close()
            self._session = None
