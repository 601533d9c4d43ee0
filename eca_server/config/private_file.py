"""Files that only the user can read, each replaced atomically.

Every function touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


def make_private(path: Path) -> None:
    """Make a file readable by its owner alone, where the file system has modes."""
    with suppress(OSError):
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)


def replace_file(path: Path, data: bytes, *, is_locked: bool = False) -> None:
    """Create a file, or replace it atomically.

    `is_locked`: the caller holds the lock of all writers, so that a temporary file is one of a
    killed writer. It is removed, since it may contain a key.

    Raises:
        OSError: the file cannot be written; the previous content is unchanged.
    """
    if is_locked:
        _remove_temporary(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, _FLAGS, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _remove_temporary(path: Path) -> None:
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}")
    for each in os.listdir(path.parent):  # noqa: PTH208 - only names are needed
        if name.fullmatch(each):
            path.with_name(each).unlink(missing_ok=True)
