"""Tries again, above every backend and in this one place.

The rules it keeps: only as long as the user has seen nothing of the answer; only what the backend
calls retryable; never a wait longer than a person would sit through, that one is reported; every
wait is told before it begins and while it lasts, and lies in the turn's scope, so that a stop ends
it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager

import attrs
import trio

from eca_server.llm.backend import Backend, BackendError, ErrorKind, Request
from eca_server.llm.events import Event, Progress, Started, Usage

__all__ = ["RetryPolicy", "Wait", "stream_with_retries"]

_log = logging.getLogger("eca_server.llm")

_FEWER: Mapping[ErrorKind, int] = {"empty_response": 2, "network": 3, "premature_stop": 3}
"""How often to try at most where trying on helps little."""

TOLD_EVERY = 10.0
"""Seconds after which a wait that lasts is told again."""

_UNSEEN = (Started, Progress, Usage)


@attrs.frozen(kw_only=True)
class Wait:
    """A wait that begins now, or goes on.

    Attributes:
        reason: the class of the trouble.
        seconds: how long it will take from now on.
        attempt: the number of the try that comes behind it, from 2.
        of: how many tries there will be at most.
    """

    reason: ErrorKind
    seconds: float
    attempt: int
    of: int


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """How often and how late to try again; times in seconds.

    Attributes:
        attempts: tries in all, the first one included; 1 turns retries off.
        base: the first wait, from which the others grow.
        factor: how they grow.
        longest: no wait of our own is longer.
        longest_demanded: a longer wait demanded by the provider is not slept but reported.
        budget: after this time in all no further try begins; by default there is room for all
            waits of our own, and for three that are demanded.
    """

    attempts: int = 5
    base: float = 1.0
    factor: float = 2.0
    longest: float = 30.0
    longest_demanded: float = 60.0
    budget: float = attrs.field()

    @budget.default
    def _room(self) -> float:
        return max(180.0, 3 * self.longest_demanded, self.longest * (self.attempts - 1))

    def limit(self, kind: ErrorKind) -> int:
        """How many tries an error of this class may have."""
        return min(self.attempts, _FEWER.get(kind, self.attempts))

    def wait(
        self, error: BackendError, *, attempt: int, elapsed: float, jitter: float
    ) -> float | None:
        """Seconds to wait before the next try; None when there should be none.

        Args:
            error: what the last try ended with.
            attempt: its number, from 1.
            elapsed: seconds since the first one began.
            jitter: a random number from 0 to 1, so that many clients do not come back at once.
        """
        if not error.retryable or attempt >= self.limit(error.kind):
            return None
        if error.retry_after is not None:
            seconds = error.retry_after
            if seconds > self.longest_demanded:
                return None
        else:
            seconds = self._grown(attempt) * (1 + jitter) / 2
        return seconds if elapsed + seconds <= self.budget else None

    def _grown(self, attempt: int) -> float:
        """The longest wait of our own behind a try."""
        try:
            return min(self.longest, self.base * self.factor ** (attempt - 1))
        except OverflowError:
            return self.longest


@asynccontextmanager
async def stream_with_retries(
    backend: Backend,
    request: Request,
    *,
    policy: RetryPolicy | None = None,
    on_wait: Callable[[Wait], None] = lambda _wait: None,
    jitter: Callable[[], float] = random.random,
) -> AsyncIterator[AsyncIterator[Event]]:
    """As `Backend.stream`; tries that failed unseen leave no trace but their waits.

    Raises:
        BackendError: of the last try.
    """
    events = _tries(backend, request, policy or RetryPolicy(), on_wait, jitter)
    async with aclosing(events):
        yield events


async def _tries(
    backend: Backend,
    request: Request,
    policy: RetryPolicy,
    on_wait: Callable[[Wait], None],
    jitter: Callable[[], float],
) -> AsyncGenerator[Event, None]:
    began = trio.current_time()
    attempt = 1
    while True:
        seen = False
        started: Started | None = None
        try:
            async with backend.stream(request) as events:
                async for event in events:
                    if isinstance(event, Started):
                        started = event  # held back, for a try may yet end unseen
                        continue
                    if not isinstance(event, _UNSEEN):
                        seen = True
                        if started is not None:
                            yield started
                            started = None
                    yield event
        except BackendError as error:
            seconds = policy.wait(
                error, attempt=attempt, elapsed=trio.current_time() - began, jitter=jitter()
            )
            if seen or seconds is None:
                raise
            attempt += 1
            wait = Wait(
                reason=error.kind, seconds=seconds, attempt=attempt, of=policy.limit(error.kind)
            )
        else:
            return
        _log.info(
            "%s/%s: %s, try %d of %d in %.1f s",
            backend.origin.provider,
            backend.origin.model,
            wait.reason,
            attempt,
            wait.of,
            wait.seconds,
        )
        await _sleep(wait, on_wait)


async def _sleep(wait: Wait, on_wait: Callable[[Wait], None]) -> None:
    """Wait, and tell now and then how long it still takes."""
    end = trio.current_time() + wait.seconds
    while True:
        on_wait(wait)
        await trio.sleep(min(wait.seconds, TOLD_EVERY))
        left = end - trio.current_time()
        if left <= 0:
            return
        wait = attrs.evolve(wait, seconds=left)
