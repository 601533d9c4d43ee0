"""The folders of the tests of workspace trust."""

from pathlib import Path

import pytest

from eca_server.connection.features import mcp
from tests.eca_server.agent.mcp.fake import Place
from tests.eca_server.connection.features.trusting import Folders


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """A connection to fake MCP servers, which run at once."""
    monkeypatch.setattr(mcp, "connect", lambda *_, **__: Place().connect())
    return Folders(tmp_path)
