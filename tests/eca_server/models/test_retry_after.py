"""The wait that a provider demands: every form, and values that are no demand."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from eca_server.models.retry_after import demanded_wait

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=30))}, 30),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=30))}, 0),
        (
            {
                "date": format_datetime(NOW - timedelta(seconds=60), usegmt=True),
                "retry-after": format_datetime(NOW - timedelta(seconds=57), usegmt=True),
            },
            3,
        ),
        (
            {
                "date": format_datetime(NOW + timedelta(hours=1)),
                "anthropic-ratelimit-unified-reset": str(int(NOW.timestamp()) + 3609),
            },
            9,
        ),
        ({"date": "today", "retry-after": format_datetime(NOW + timedelta(seconds=3))}, 3),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": f"Wed, 21 Oct {'2' * 20} 07:28:00 GMT"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after-ms": "300", "retry-after": "9"}, 0.3),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m2.5s"}, 62.5),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "1m2.5s"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "12ms"}, 0.012),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": str(int(NOW.timestamp() * 1000) + 5000),
            },
            5,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(NOW.timestamp() + 9)}, 9),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:04Z",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-01-01T00:00:06Z",
                "anthropic-ratelimit-output-tokens-remaining": "1",
                "anthropic-ratelimit-output-tokens-reset": "2026-01-01T00:01:00Z",
            },
            6,
        ),
        ({"anthropic-ratelimit-unified-reset": str(int(NOW.timestamp()) + 8)}, 8),
        ({"anthropic-ratelimit-unified-reset": str(int(NOW.timestamp()) - 8)}, 0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, None),
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
        ([], "try again later", None),
        ({"error": "text"}, "", None),
    ],
)
def test_the_wait_that_a_body_demands(payload, message, seconds):
    assert demanded_wait({}, payload, message, now=NOW) == seconds


def test_limits_that_are_used_up_are_no_demand_when_something_else_is_wrong():
    headers = {"anthropic-ratelimit-unified-reset": "4102444800", "retry-after": "2"}
    assert demanded_wait(headers, None, "", status=529) == 2
    del headers["retry-after"]
    assert demanded_wait(headers, None, "", status=529) is None
