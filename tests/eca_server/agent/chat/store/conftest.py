from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The place of a file of chats, in a directory that does not exist."""
    return tmp_path / "data" / "chats.sqlite"
