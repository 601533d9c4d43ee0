"""The state of the file of chats for `doctor`: its header is read, no database is opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from eca_server.agent.chat.store.schema import MIGRATIONS

_MAGIC: Final = b"SQLite format 3\0"
_VERSION: Final = slice(60, 64)
"""The place of `user_version` in the header of an SQLite file."""


def problem_of(path: Path) -> str | None:
    """Return why chats cannot be stored in a file, or None. Touches the disk."""
    try:
        with path.open("rb") as file:
            header = file.read(_VERSION.stop)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if header and not header.startswith(_MAGIC):
        return "it is damaged: the next chat sets it aside and begins a new file"
    version = int.from_bytes(header[_VERSION], "big")
    if version > len(MIGRATIONS):
        return (
            f"a newer server has written it (version {version}, expected {len(MIGRATIONS)} or "
            "older): chats stay only in memory. Upgrade this server"
        )
    if not all(os.access(each, os.W_OK) for each in (path, path.parent)):
        return "it cannot be written: chats stay only in memory"
    return None


def describe(path: Path) -> str:
    """Return the path of the file of chats and its state. Touches the disk."""
    state = problem_of(path) or ("present" if path.exists() else "none yet")
    return f"{path}: {state}"
