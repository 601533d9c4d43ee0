from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
import trio.testing

from eca_server.features import mcp
from eca_server.mcp.settings import ServerSettings
from tests.eca_server.chat.mcp_session import Places
from tests.eca_server.mcp.fake import Place


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """Jumps when nothing has happened for a moment: a turn also waits for worker threads."""
    return trio.testing.MockClock(autojump_threshold=0.05)


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Places:
    """Where the sessions with each server come from."""
    found: dict[str, Place] = defaultdict(Place)

    def connect(settings: ServerSettings, **_: Any) -> Any:
        return found[settings.name].connect()

    monkeypatch.setattr(mcp, "connect", connect)
    return found
