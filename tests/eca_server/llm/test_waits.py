"""How long a provider asks us to wait: every spelling, and what is no demand."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from eca_server.llm.waits import wait_demanded

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=30))}, 30),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=30))}, 0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
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
        ({}, None),
    ],
)
def test_the_wait_that_headers_demand(headers, seconds):
    assert wait_demanded(headers, None, "", now=NOW) == seconds


@pytest.mark.parametrize(
    ("payload", "message", "seconds"),
    [
        ({"error": {"resets_at": NOW.timestamp() + 7}}, "", 7),
        ([{"error": {"details": [{}, {"retryDelay": "17s"}]}}], "", 17),
        ({"error": {"details": [{"retryDelay": "soon"}]}}, "", None),
        (None, "Rate limit reached. Please try again in 1m1.5s.", 61.5),
        (None, "try again in 20ms", 0.02),
        ([], "try again later", None),
        ({"error": "text"}, "", None),
    ],
)
def test_the_wait_that_a_body_demands(payload, message, seconds):
    assert wait_demanded({}, payload, message, now=NOW) == seconds
