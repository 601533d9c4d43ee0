"""JSON files in the server's data directory: private, versioned, changed by one server at a time.

A file may be a link of the user's (into a repository of dotfiles): the link stays, and the file to
which it leads is replaced.

Every method touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from eca_protocol.errors import ECAError
from eca_server.config.directories import make_private, replace_file
from eca_server.config.files import Unreadable, read_text
from eca_server.config.lock import changing

_VERSION: Final = 1


class DataFileError(ECAError):
    """The error of a file that cannot be read or written; the message says which, and why.

    Args:
        reason: the message without the file.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason


class DamagedFile(DataFileError):
    """The error of a file with a different content, whatever its version."""


@attrs.frozen
class DataFile:
    """A file with a JSON object.

    Attributes:
        content: the name of its content in messages, such as `settings`.
    """

    path: Path
    content: str

    @property
    def target(self) -> Path:
        """The file itself, where `path` is a link."""
        return Path(os.path.realpath(self.path))

    def read(self) -> dict[str, Any] | None:
        """Return the object; None: there is no file. A file for others is made private first.

        Raises:
            DataFileError: the file cannot be read, or has a different content or version.
        """
        try:
            text = read_text(self.path)
        except Unreadable as error:
            if error.absent:
                return None
            # a known line is one that is not UTF-8
            kind = DataFileError if error.line is None else DamagedFile
            raise kind(self.path, error.message) from None
        make_private(self.path)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise self.damaged("expected JSON") from None
        expected = f"expected {self.content} of version {_VERSION}"
        if not isinstance(value, dict) or "version" not in value:
            raise self.damaged(expected)
        if value["version"] != _VERSION:
            raise DataFileError(self.path, f"{expected}, got a different version")
        return value

    def damaged(self, expected: str) -> DamagedFile:
        """Return the error for a file without the expected content."""
        return DamagedFile(self.path, f"{expected}, got something else")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Let no other server change the file in the block; raise DataFileError for an OSError."""
        try:
            with changing(self.path):
                yield
        except OSError as error:
            reason = error.strerror or type(error).__name__
            if os.path.islink(self.path):  # noqa: PTH114 - it raises nothing
                reason = f"the link leads to {self.target}, which cannot be written: {reason}"
            raise DataFileError(self.path, reason) from None

    def set_aside(self) -> Path:
        """Rename a damaged file while it is being changed; return its new path."""
        target = self.target
        aside = target.with_name(f"{target.name}.damaged-{time.time_ns()}")
        target.rename(aside)
        return aside

    def write(self, **content: Any) -> None:
        """Replace the object while the file is being changed."""
        data = json.dumps({"version": _VERSION, **content}, indent=2).encode()
        replace_file(self.target, data, is_locked=True)
