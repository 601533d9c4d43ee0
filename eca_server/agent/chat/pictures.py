"""Pictures from models and tools: as contents, and as files for clients that show a link.

Rules: a picture's type is read from its bytes, not from its source's claim. Only the user can read
the files; their number is limited for each chat; they are deleted with the chat. If a file cannot
be written, only the link is missing.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import shutil
import threading
from base64 import b64decode
from contextlib import suppress
from pathlib import Path

import trio

from eca_protocol.messages import ChatImageContent
from eca_server.config.directories import make_data_directory, replace_file
from eca_server.models.attachments import SIGNATURE_BYTES, media_type_of
from eca_server.models.events import Event
from eca_server.models.history import BlockPart, ImagePart

MOST_PICTURES = 20
"""Pictures of one answer that are shown; further ones are dropped, and the user is notified."""

_UNKNOWN = "application/octet-stream"

_log = logging.getLogger("eca_server.agent.chat")

MOST_FILES = 100
"""The largest number of files for one chat."""

SECONDS = 1.0
"""Seconds to wait for the disk."""


def picture_content(data: bytes) -> ChatImageContent:
    """Return the content that shows a picture; an unknown type becomes `_UNKNOWN`."""
    return ChatImageContent(
        media_type=media_type_of(data[:SIGNATURE_BYTES]) or _UNKNOWN,
        base64=base64.b64encode(data).decode("ascii"),
    )


class FirstPictures:
    """Drops the pictures of one answer beyond `MOST_PICTURES`."""

    def __init__(self) -> None:
        self.count = 0
        self._dropped = False

    def drops(self, event: Event) -> bool:
        """Return whether an event is a picture beyond the limit, or such a picture's block."""
        if isinstance(event, ImagePart):
            self.count += 1
            self._dropped = self.count > MOST_PICTURES
            return self._dropped
        belongs = self._dropped and isinstance(event, BlockPart)
        self._dropped = False
        return belongs


class Gallery:
    """The pictures of chats as files.

    Args:
        folder: the data directory; the files are in `pictures`, in a directory for each chat.
    """

    def __init__(self, folder: Path) -> None:
        self._data = folder
        self._folder = folder / "pictures"
        self._writing = threading.Lock()  # no file is added to a directory that is being removed

    def link(self, chat_id: str, picture: ChatImageContent) -> str | None:
        """Return the URI of a picture's file, or None."""
        path = self._path(chat_id, picture)
        with suppress(OSError):
            return path.as_uri() if path.exists() else None
        return None

    async def store(self, chat_id: str, picture: ChatImageContent) -> None:
        """Write a picture to a file, unless there are too many; within a time limit."""
        with trio.move_on_after(SECONDS):
            await trio.to_thread.run_sync(self._store, chat_id, picture, abandon_on_cancel=True)

    async def remove(self, chat_id: str) -> None:
        """Remove the files of a chat, even if cancelled; within a time limit."""
        with trio.move_on_after(SECONDS, shield=True):
            await trio.to_thread.run_sync(self._remove, chat_id, abandon_on_cancel=True)

    def _store(self, chat_id: str, picture: ChatImageContent) -> None:
        path = self._path(chat_id, picture)
        try:
            with self._writing:
                make_data_directory(self._data)
                for folder in (self._folder, path.parent):
                    folder.mkdir(mode=0o700, exist_ok=True)
                if path.exists() or sum(1 for _ in path.parent.iterdir()) >= MOST_FILES:
                    return
                replace_file(path, b64decode(picture.base64))
        except OSError as fault:
            _log.warning("a picture could not be stored as a file: %s", fault)

    def _remove(self, chat_id: str) -> None:
        try:
            with self._writing:
                shutil.rmtree(self._of(chat_id))
        except FileNotFoundError:
            return
        except OSError as fault:
            _log.warning("the pictures of a chat could not be removed: %s", fault)

    def _of(self, chat_id: str) -> Path:
        return self._folder / _digest(chat_id)

    def _path(self, chat_id: str, picture: ChatImageContent) -> Path:
        kind = picture.media_type.rpartition("/")[2]
        return self._of(chat_id) / f"{_digest(picture.base64)}.{kind}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
