import math
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from eca_server.agent.mcp.settings import ServerSettings
from eca_server.connection.features import mcp
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import Editor, editor
from tests.eca_server.agent.chat.mcp_session import Places
from tests.eca_server.agent.mcp.fake import Place

THRESHOLD = 0.05
"""Real seconds without an event after which the clock jumps: the store has a thread of its own."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
async def ours() -> AsyncIterator[Editor]:
    """An editor of an older edition, connected to a server without any configuration."""
    async with editor() as made:
        yield made


@pytest.fixture
async def client() -> AsyncIterator[Editor]:
    """The same for today's edition."""
    async with current() as made:
        yield made


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


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Places:
    """Where the sessions with each server come from."""
    places_by_name: dict[str, Place] = defaultdict(Place)

    def connect(settings: ServerSettings, **_: Any) -> Any:
        return places_by_name[settings.name].connect()

    monkeypatch.setattr(mcp, "connect", connect)
    return places_by_name
