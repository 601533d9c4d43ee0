"""The shared state of the examples of a run: the server's process, counters, the failure.

One process serves many examples, each with its own chats, unless an example needs a process that it
may end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from eca_protocol.testing.sessions.actions import hello
from eca_protocol.testing.sessions.session import Session, Step, Watch
from eca_protocol.testing.sessions.wire import DeadlineMissed, Violation

__all__ = ["Failure", "KnownViolation", "Run"]

_SHRINKING_SECONDS = 1.0
"""The deadline of a step after one has been missed: a repeated response comes soon or never."""


class KnownViolation(Exception):
    """A known violation after which the session cannot continue; its process has ended."""


@attrs.frozen(kw_only=True)
class Failure:
    """A violation and the steps that show it."""

    violation: Violation
    steps: tuple[Step, ...]


@attrs.define(kw_only=True)
class Run:
    """The shared state of the examples.

    Attributes:
        seconds: the deadline of one step until one is missed, and of every start.
        watcher: returns a callback for every message of a process.
        known: requirements whose violation is ignored.
        on_progress: called as each session starts.
        processes: the number of started server processes.
        failure: the last failed example; after shrinking, the smallest.
    """

    command: Sequence[str]
    edition: str
    seconds: float = 10.0
    watcher: Callable[[], Watch] = lambda: lambda _side, _message: None
    known: frozenset[str] = frozenset()
    on_progress: Callable[[Run], None] = lambda _run: None
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
        """Return an unused number, for ids, markers and gates."""
        self._last_number += 1
        return self._last_number

    def session(self, *, variant: int, fresh: bool) -> Session:
        """Return an open session without unfinished turns.

        Args:
            variant: the opening of a new session; see `actions.hello`.
            fresh: whether its process must be new.

        Raises:
            Violation: if the opening violates a requirement.
            KnownViolation: if that is known.
        """
        self.on_progress(self)
        if fresh:
            self.end()
        if self._session is None:
            self.processes += 1
            session = Session(
                self.command,
                edition=self.edition,
                seconds=self.seconds,
                watch=self.watcher(),
                known=self.known,
            )
            self._session = session
            for name, *arguments in hello(self.edition, variant):
                self.do(name, *arguments)
            session.opening = tuple(session.steps)
            session.seconds = self._step_seconds
        return self._session

    def do(self, step: str, *arguments: object) -> None:
        """Execute a step of the session.

        Raises:
            Violation: if it violates a requirement; it is stored as `failure`.
            KnownViolation: if that is known, and the session cannot continue.
        """
        session = self._session
        assert session is not None
        try:
            getattr(session, step)(*arguments)
        except Violation as violation:
            if violation.requirement in self.known:
                self.end()
                raise KnownViolation(str(violation)) from None
            if isinstance(violation, DeadlineMissed):
                self._step_seconds = session.seconds = min(self.seconds, _SHRINKING_SECONDS)
            self.failure = Failure(violation=violation, steps=tuple(session.steps))
            raise

    def leave(self, *, failed: bool) -> None:
        """Stop the turns of an example; end the process if that fails.

        Raises:
            Violation: if that violates a requirement and the example had not failed.
            KnownViolation: if that is known.
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
                if self._session is not None:
                    session.forget()
            except Violation:
                self.end()

    def end(self) -> None:
        """End the process, if any."""
        if self._session is not None:
            self._session.close()
            self._session = None
