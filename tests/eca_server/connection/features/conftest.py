"""The home of a connection's user."""

from pathlib import Path

import pytest

from tests.eca_server.agent.chat.current import CURRENT
from tests.eca_server.connection.features.session import TRUSTED, Home, connect_to_fakes


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A connection to fake MCP servers, which run at once."""
    connect_to_fakes(monkeypatch)
    return Home(tmp_path, capabilities=CURRENT)


@pytest.fixture
def trusted(home: Home) -> None:
    """Trust the folder, for an older client that has today's requests."""
    home.params = {"initializationOptions": TRUSTED}
