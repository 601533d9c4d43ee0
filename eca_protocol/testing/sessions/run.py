"""The shared state of the examples of a run: the server's process, counters, the failure.

One process serves many examples, each with its own chats, unless an example needs a process that it
may end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs

from eca_protocol.testing.sessions.actions import hello
from eca_protocol.testing.sessions.session import Session, Step, Watch
from eca_protocol.testing.sessions.wire import DeadlineMissed, Violation

__all__ = ["Failure", "KnownViolation", "OutOfTime", "Run", "is_like"]

_SHRINKING_SECONDS = 1.0
"""The least deadline of a step while a failure is shrunk: a message comes soon or never."""


class KnownViolation(Exception):
    """A violation that is not sought and that ends the session; its process has ended."""


class OutOfTime(BaseException):
    """The end of the time of a run, or of its shrinking; not an `Exception`, which is a failure."""


@attrs.frozen(kw_only=True)
class Failure:
    """A violation and the steps that show it."""

    violation: Violation
    steps: tuple[Step, ...]


def is_like(one: Violation, other: Violation) -> bool:
    """Return whether both are a wrong message, or both a missing one, by the same row."""
    are_missing = {isinstance(each, DeadlineMissed) for each in (one, other)}
    return one.requirement == other.requirement and len(are_missing) == 1


@attrs.define(kw_only=True)
class Run:
    """The shared state of the examples.

    Attributes:
        seconds: the deadline of one step until a violation is found, and of every start.
        watcher: returns a callback for every message of a process.
        known: requirements whose violation is ignored.
        on_progress: called as each session starts and as a violation is found.
        until: the end of the run, by `time.monotonic`.
        shrink_seconds: the time after a find until which it is shrunk.
        processes: the number of started server processes.
        first_failure: the first failed example.
        failure: the smallest failed example that shows the same requirement.
    """

    command: Sequence[str]
    edition: str
    seconds: float = 10.0
    watcher: Callable[[], Watch] = lambda: lambda _side, _message: None
    known: frozenset[str] = frozenset()
    on_progress: Callable[[Run], None] = lambda _run: None
    until: float = float("inf")
    shrink_seconds: float = 60.0
    steps: int = 0
    examples: int = 0
    processes: int = 0
    first_failure: Failure | None = None
    failure: Failure | None = None
    _longest_step: float = 0.0
    _last_number: int = 0
    _session: Session | None = None

    @property
    def step_seconds(self) -> float:
        """The deadline of the next step: a short one while a failure is shrunk."""
        if self.failure is None:
            return self.seconds
        return min(self.seconds, max(_SHRINKING_SECONDS, 2 * self._longest_step))

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
            KnownViolation: if that is not sought.
            OutOfTime: if the time of the run is over.
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
            session.seconds = self.step_seconds
        return self._session

    def do(self, step: str, *arguments: object) -> None:
        """Execute a step of the session.

        Raises:
            Violation: if it violates a requirement; it is stored as `failure`.
            KnownViolation: if that is not sought, and the session cannot continue.
            OutOfTime: if the time of the run is over.
        """
        session = self._session
        assert session is not None
        started = time.monotonic()
        if started > self.until:
            self.end()
            raise OutOfTime
        try:
            getattr(session, step)(*arguments)
        except Violation as violation:
            if not self._is_sought(violation):
                self.end()
                raise KnownViolation(str(violation)) from None
            self._store(Failure(violation=violation, steps=tuple(session.steps)))
            session.seconds = self.step_seconds
            raise
        self._longest_step = max(self._longest_step, time.monotonic() - started)

    def _is_sought(self, violation: Violation) -> bool:
        """Return whether this is a find; after the first, only one like it."""
        if self.first_failure is None:
            return violation.requirement not in self.known
        return is_like(violation, self.first_failure.violation)

    def _store(self, failure: Failure) -> None:
        """Store a failed example unless a smaller one is stored."""
        if self.failure is None or len(failure.steps) <= len(self.failure.steps):
            self.failure = failure
        if self.first_failure is None:
            self.first_failure = failure
            self.until = time.monotonic() + self.shrink_seconds
            self.on_progress(self)

    def leave(self, *, failed: bool) -> None:
        """Stop the turns of an example; end the process if that fails.

        Raises:
            Violation: if that violates a requirement and the example had not failed.
            KnownViolation: if that is not sought.
            OutOfTime: if the time of the run is over.
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
