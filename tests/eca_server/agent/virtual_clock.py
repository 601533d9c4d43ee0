"""A virtual clock for tests in which threads work."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import trio.testing

THRESHOLD = 0.05
"""Real seconds without an event after which the clock jumps: the store has a thread of its own."""


@pytest.fixture
def autojump_clock(monkeypatch: pytest.MonkeyPatch) -> trio.testing.MockClock:
    """Return a clock that jumps when nothing has happened for a moment and no thread works."""
    clock = trio.testing.MockClock(autojump_threshold=THRESHOLD)
    run_sync = trio.to_thread.run_sync
    working = 0

    async def run_while_time_stands(work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        nonlocal working
        working += 1
        clock.autojump_threshold = math.inf
        try:
            return await run_sync(work, *args, **options)
        finally:
            working -= 1
            if not working:
                clock.autojump_threshold = THRESHOLD

    monkeypatch.setattr(trio.to_thread, "run_sync", run_while_time_stands)
    return clock
