"""Retries, for all backends.

- A request is repeated only while the user has seen nothing of the answer, and only if the backend
  calls the error retryable. A note on the request is no part of the answer, and is shown once.
- A wait longer than a user would accept is reported instead. A demanded wait shorter than our own
  one does not shorten it: some providers demand 0 seconds, or a time that has passed.
- Each wait is announced before it starts and while it lasts. It is in the turn's cancel scope, so a
  stop ends it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Self

import attrs
import trio

from eca_server.config import settings as configuration
from eca_server.config.settings import Config
from eca_server.models.backend import Backend, BackendError, ErrorKind, Request
from eca_server.models.events import Event, Note, Progress, Started, Usage

_log = logging.getLogger("eca_server.models")

_FEWER: Mapping[ErrorKind, int] = {"empty_response": 2, "network": 3, "premature_stop": 3}
"""The most attempts for classes of errors where more attempts rarely help."""

NOTIFY_EVERY = 10.0
"""Seconds between two notifications during a wait."""

_NO_CONTENT = (Started, Progress, Usage, Note)


@attrs.frozen(kw_only=True)
class Wait:
    """A wait that starts or continues.

    Attributes:
        seconds: the remaining time.
        attempt: the number of the next attempt, from 2.
    """

    reason: ErrorKind
    seconds: float
    attempt: int
    max_attempts: int


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """The number and the delays of retries; times in seconds.

    Attributes:
        attempts: the most attempts, including the first; 1 turns retries off.
        base: the first delay.
        factor: the growth of the delays.
        longest: the limit of our own delays.
        max_demanded: a longer wait demanded by the provider is reported instead.
        budget: the time after which no attempt starts; the default leaves time for all delays of
            our own, and for three demanded ones.
    """

    attempts: int = 5
    base: float = 1.0
    factor: float = 2.0
    longest: float = 30.0
    max_demanded: float = 60.0
    budget: float = attrs.field()

    @budget.default
    def _room(self) -> float:
        return max(180.0, 3 * self.max_demanded, self.longest * (self.attempts - 1))

    @classmethod
    def of(cls, config: Config, provider: str = "") -> Self:
        """Return the policy of a provider: its own settings, then the common ones."""
        own = config.providers.get(provider, configuration.Provider())
        retry: dict[str, Any] = {
            name: getattr(config.retry, name) if value is None else value
            for name, value in attrs.asdict(own.retry).items()
        }
        most, wait = retry["max_retries"], own.rate_limit_max_wait
        configured = {
            "attempts": None if most is None else most + 1,
            "base": _seconds(retry["base_delay_ms"]),
            "factor": retry["backoff_multiplier"],
            "longest": _seconds(retry["max_delay_ms"]),
            "max_demanded": config.rate_limit_max_wait if wait is None else wait,
        }
        return cls(**{name: value for name, value in configured.items() if value is not None})

    def limit(self, kind: ErrorKind) -> int:
        """Return the most attempts for an error of this class."""
        return min(self.attempts, _FEWER.get(kind, self.attempts))

    def wait(
        self, error: BackendError, *, attempt: int, elapsed: float, jitter: float
    ) -> float | None:
        """Return the seconds until the next attempt; None: there is none.

        Args:
            error: the last attempt's error.
            attempt: its number, from 1.
            elapsed: seconds since the start of the first attempt.
            jitter: a random number from 0 to 1, so that many clients do not return at once.
        """
        if not error.retryable or attempt >= self.limit(error.kind):
            return None
        demanded = error.retry_after or 0.0
        if demanded > self.max_demanded:
            return None
        seconds = max(demanded, self._grown(attempt) * (1 + jitter) / 2)
        return seconds if elapsed + seconds <= self.budget else None

    def _grown(self, attempt: int) -> float:
        """Return the longest delay of our own after an attempt."""
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
    """Stream the answer; failed attempts without content leave no trace but their waits.

    Raises:
        BackendError: the error of the last attempt.
    """
    events = _attempts(backend, request, policy or RetryPolicy(), on_wait, jitter)
    async with aclosing(events):
        yield events


async def _attempts(
    backend: Backend,
    request: Request,
    policy: RetryPolicy,
    on_wait: Callable[[Wait], None],
    jitter: Callable[[], float],
) -> AsyncGenerator[Event, None]:
    started_at = trio.current_time()
    attempt = 1
    notes: set[Note] = set()
    while True:
        has_content = False
        started: Started | None = None
        try:
            async with backend.stream(request) as events:
                async for event in events:
                    if isinstance(event, Started):
                        started = event  # held back until the attempt has content
                        continue
                    if isinstance(event, Note):
                        if event in notes:
                            continue
                        notes.add(event)
                    if not isinstance(event, _NO_CONTENT):
                        has_content = True
                        if started is not None:
                            yield started
                            started = None
                    yield event
        except BackendError as error:
            seconds = policy.wait(
                error, attempt=attempt, elapsed=trio.current_time() - started_at, jitter=jitter()
            )
            if has_content or seconds is None:
                raise
            attempt += 1
            wait = Wait(
                reason=error.kind,
                seconds=seconds,
                attempt=attempt,
                max_attempts=policy.limit(error.kind),
            )
        else:
            return
        _log.info(
            "%s/%s: %s, try %d of %d in %.1f s",
            backend.origin.provider,
            backend.origin.model,
            wait.reason,
            attempt,
            wait.max_attempts,
            wait.seconds,
        )
        await _sleep(wait, on_wait)


async def _sleep(wait: Wait, on_wait: Callable[[Wait], None]) -> None:
    """Wait, and announce the remaining time at intervals."""
    end = trio.current_time() + wait.seconds
    while True:
        on_wait(wait)
        await trio.sleep(min(wait.seconds, NOTIFY_EVERY))
        remaining = end - trio.current_time()
        if remaining <= 0:
            return
        wait = attrs.evolve(wait, seconds=remaining)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
