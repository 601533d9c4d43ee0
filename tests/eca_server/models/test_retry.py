"""Retries on a test clock: their conditions, number, and waits, also those that are demanded."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import trio

from eca_server.models import events as ev
from eca_server.models.backend import BackendError
from eca_server.models.history import Origin
from eca_server.models.retry import RetryPolicy, Wait, stream_with_retries
from eca_server.models.retry_after import LOADING_SECONDS, demanded_wait
from tests.eca_server.models.reading import HELLO


class Tries:
    """A backend with a list of events for each attempt; an exception in it is raised."""

    origin = Origin(api="tries", provider="test", model="m")

    def __init__(self, *tries) -> None:
        self.tries = list(tries)
        self.count = 0

    @asynccontextmanager
    async def stream(self, _request):
        self.count += 1
        yield self._events(self.tries[min(self.count, len(self.tries)) - 1])

    async def _events(self, steps):
        for step in steps:
            if isinstance(step, BackendError):
                raise step
            yield step


def error(kind="overloaded", *, retryable=True, retry_after=None) -> BackendError:
    return BackendError(kind, "planted", retryable=retryable, retry_after=retry_after)


GOOD = [ev.Started(response_id="good"), ev.TextDelta("Hi"), ev.Finished(reason="stop")]


async def run(backend, policy=None) -> tuple[list, list[Wait]]:
    events, waits = [], []
    async with stream_with_retries(
        backend, HELLO, policy=policy, on_wait=waits.append, jitter=lambda: 1.0
    ) as stream:
        async for event in stream:
            events.append(event)  # noqa: PERF401 - what came before a raise is looked at
    return events, waits


async def test_a_failed_try_leaves_no_trace_but_its_wait(autojump_clock):
    backend = Tries([error()], [ev.Started(response_id="bad"), ev.Progress("ping"), error()], GOOD)
    began = trio.current_time()
    events, waits = await run(backend)
    assert events == [ev.Progress("ping"), *GOOD]
    assert waits == [
        Wait(reason="overloaded", seconds=1, attempt=2, max_attempts=5),
        Wait(reason="overloaded", seconds=2, attempt=3, max_attempts=5),
    ]
    assert trio.current_time() - began == pytest.approx(3)


@pytest.mark.parametrize("event", [ev.TextDelta("Hel"), ev.ReasoningStarted("reasoning_1")])
async def test_what_was_seen_is_never_asked_for_again(event):
    backend = Tries([ev.Started(), event, error()])
    with pytest.raises(BackendError):
        await run(backend)
    assert backend.count == 1


async def test_counts_are_nothing_that_was_seen(autojump_clock):
    events, _ = await run(Tries([ev.Started(), ev.Usage(input=1), error()], GOOD))
    assert events[-3:] == GOOD


async def test_a_note_allows_further_attempts_and_is_shown_once(autojump_clock):
    failing = [ev.Note("image refused"), error()]
    backend = Tries(failing, failing, [ev.Note("image refused"), ev.Note("no reasoning"), *GOOD])
    events, waits = await run(backend)
    assert events == [ev.Note("image refused"), ev.Note("no reasoning"), *GOOD]
    assert [wait.attempt for wait in waits] == [2, 3]


async def test_an_empty_try_that_ends_well_still_has_its_start():
    events, _ = await run(Tries([ev.Started(), ev.Finished(reason="stop")]))
    assert events == [ev.Started(), ev.Finished(reason="stop")]


@pytest.mark.parametrize(
    ("kind", "tries"),
    [
        ("overloaded", 5),
        ("rate_limit", 5),
        ("network", 3),
        ("premature_stop", 3),
        ("empty_response", 2),
    ],
)
async def test_each_class_has_its_number_of_tries(autojump_clock, kind, tries):
    backend = Tries([error(kind)])
    with pytest.raises(BackendError):
        await run(backend)
    assert backend.count == tries


@pytest.mark.parametrize(
    ("failed", "policy"),
    [
        (error(retryable=False), RetryPolicy()),
        (error(retry_after=61), RetryPolicy()),
        (error(), RetryPolicy(attempts=1)),
        (error(retry_after=11), RetryPolicy(budget=10)),
    ],
)
async def test_some_errors_are_reported_at_once(failed, policy):
    backend = Tries([failed])
    with pytest.raises(BackendError) as caught:
        await run(backend, policy)
    assert (backend.count, caught.value) == (1, failed)


async def test_a_demanded_wait_is_obeyed_and_can_be_stopped(autojump_clock):
    _, waits = await run(Tries([error(retry_after=60)], GOOD))
    assert [round(wait.seconds) for wait in waits] == [60, 50, 40, 30, 20, 10]
    backend = Tries([error(retry_after=60)])
    with trio.move_on_after(1) as scope:
        await run(backend)
    assert scope.cancelled_caught
    assert backend.count == 1


async def test_a_demanded_wait_does_not_shorten_our_own(autojump_clock):
    demanding = [[error(retry_after=seconds)] for seconds in (0, 0.5, 9, 0)]
    _, waits = await run(Tries(*demanding, GOOD))
    assert [wait.seconds for wait in waits] == [1, 2, 9, 8]


async def test_every_wait_that_may_be_long_may_be_waited(autojump_clock):
    policy = RetryPolicy(max_demanded=600)
    late = error(retry_after=600)
    assert (await run(Tries([late], [late], GOOD), policy))[0] == GOOD
    policy = RetryPolicy(attempts=9, base=40, longest=60)
    backend = Tries(*[[error()]] * 8, GOOD)
    assert (await run(backend, policy))[0] == GOOD
    assert RetryPolicy().budget == RetryPolicy(attempts=1, max_demanded=5).budget == 180


async def test_waits_grow_to_their_limit_with_jitter():
    policy = RetryPolicy(attempts=99, budget=1e9)

    def waits(jitter: float) -> list[float | None]:
        return [
            policy.wait(error(), attempt=attempt, elapsed=0, jitter=jitter)
            for attempt in range(1, 8)
        ]

    assert waits(1.0) == [1, 2, 4, 8, 16, 30, 30]
    assert waits(0.0) == [0.5, 1, 2, 4, 8, 15, 15]
    steep = RetryPolicy(attempts=99, factor=2**53)
    assert steep.wait(error(), attempt=98, elapsed=0, jitter=1) == 30


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> str:
    """Return a time in seconds from now, as a header has it."""
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


def unix(seconds: float) -> str:
    return str(int(NOW.timestamp() + seconds))


UNIFIED = "anthropic-ratelimit-unified-reset"
BY_KIND = {
    f"anthropic-ratelimit-{kind}-{name}": value
    for kind, remaining, reset in (
        ("requests", "0", "2026-01-01T00:00:04Z"),
        ("input-tokens", "0", "2026-01-01T00:00:06Z"),
        ("output-tokens", "1", "2026-01-01T00:01:00Z"),
    )
    for name, value in (("remaining", remaining), ("reset", reset))
}


def limited(kind: str, remaining: str, reset: str) -> dict[str, str]:
    return {f"x-ratelimit-remaining{kind}": remaining, f"x-ratelimit-reset{kind}": reset}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "3, 5"}, 3),
        ({"llm_provider-retry-after": "20"}, 20),
        ({"llm_provider-retry-after": "20", "retry-after": "3"}, 3),
        ({"retry-after": "1m30s"}, 90),
        ({"retry-after": at(30)}, 30),
        ({"retry-after": at(-30)}, 0),
        ({"date": at(-60), "retry-after": at(-57)}, 3),
        ({"date": at(3600), UNIFIED: unix(3609)}, 9),
        ({"date": "today", "retry-after": at(3)}, 3),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": f"Wed, 21 Oct {'2' * 20} 07:28:00 GMT"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after-ms": "300", "retry-after": "9"}, 0.3),
        (limited("-tokens", "0", "1m2.5s"), 62.5),
        (limited("-tokens", "5", "1m2.5s"), None),
        (limited("-requests", "0", "12ms"), 0.012),
        (limited("-requests", "0", f"{unix(5)}000"), 5),
        (limited("", "0", f"{unix(9)}.0"), 9),
        (limited("", "0", "soon"), None),
        (BY_KIND, 6),
        ({UNIFIED: unix(8)}, 8),
        ({UNIFIED: unix(-8)}, 0),
        ({}, None),
    ],
)
def test_the_wait_that_headers_demand(headers, seconds):
    assert demanded_wait(headers, None, "", now=NOW) == seconds


@pytest.mark.parametrize(
    ("payload", "message", "seconds"),
    [
        ({"error": {"resets_at": NOW.timestamp() + 7}}, "", 7),
        ({"error": {"resets_at": 10**400}}, "", None),
        ([{"error": {"details": [{}, {"retryDelay": "17s"}]}}], "", 17),
        ({"error": {"details": [{"retryDelay": "soon"}]}}, "", None),
        (None, "Rate limit reached. Please try again in 1m1.5s.", 61.5),
        (None, "try again in 20ms", 0.02),
        (None, "Please retry after 6 seconds.", 6),
        (None, "Try again in 1 minute 30 seconds", 90),
        (None, "retry in 2 hours", 7200),
        (None, "retry after 3 sunsets", None),
        (None, f"try again in {'9' * 400}s", None),
        ([], "try again later", None),
        ({"error": "text"}, "", None),
    ],
)
def test_the_wait_that_a_body_demands(payload, message, seconds):
    assert demanded_wait({}, payload, message, now=NOW) == seconds


@pytest.mark.parametrize(("status", "seconds"), [(503, LOADING_SECONDS), (400, None)])
def test_a_server_that_loads_its_model_gets_time(status, seconds):
    assert demanded_wait({}, None, "Loading model", status=status, now=NOW) == seconds


def test_limits_that_are_used_up_are_no_demand_when_something_else_is_wrong():
    headers = {UNIFIED: "4102444800", "retry-after": "2"}
    assert demanded_wait(headers, None, "", status=529) == 2
    del headers["retry-after"]
    assert demanded_wait(headers, None, "", status=529) is None
