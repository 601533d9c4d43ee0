"""The stored chats, which outlive a server in the same workspace."""

from pathlib import Path
from typing import Any

Message = dict[str, Any]

_DISK: dict[tuple[Path, str], list[Message]] = {}
"""The histories of all chats, by the first root and the chat's id."""


class Store:
    """The histories of the chats of one workspace."""

    def __init__(self, roots: list[Path]) -> None:
        self._root = roots[0] if roots else Path.cwd()

    def load(self, chat_id: str) -> list[Message]:
        return list(_DISK.get((self._root, chat_id), ()))

    def save(self, chat_id: str, history: list[Message]) -> None:
        _DISK[self._root, chat_id] = list(history)

    def forget(self, chat_id: str) -> None:
        _DISK.pop((self._root, chat_id), None)

    def close(self) -> None:
        """Handle the shutdown of the server."""
