from __future__ import annotations

import pytest
import trio.testing


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """Jumps when nothing has happened for a moment: a turn also waits for worker threads."""
    return trio.testing.MockClock(autojump_threshold=0.05)
