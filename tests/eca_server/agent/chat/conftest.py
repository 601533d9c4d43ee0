from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from eca_server.agent.mcp.server_log import ServerLog
from eca_server.config.mcp_settings import MCPServer
from eca_server.connection.features import mcp
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import Editor, editor
from tests.eca_server.agent.chat.mcp_session import Places
from tests.eca_server.agent.mcp.fake import Place
from tests.eca_server.agent.virtual_clock import autojump_clock as autojump_clock  # noqa: PLC0414


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
async def stored(tmp_path: Path, folder: Path) -> AsyncIterator[Editor]:
    """The same with a workspace, whose chats are stored."""
    async with current(data=tmp_path, folder=folder) as made:
        yield made


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Places:
    """Where the sessions with each server come from."""
    places_by_name: dict[str, Place] = defaultdict(Place)

    def connect(settings: MCPServer, *, login: Any, log: ServerLog, **options: Any) -> Any:
        place = places_by_name[log.name]
        place.settings, place.login, place.options = settings, login, options
        return place.connect()

    monkeypatch.setattr(mcp, "connect", connect)
    return places_by_name
