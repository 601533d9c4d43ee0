"""The user's directories by the XDG rules, and private files in them.

A variable with a relative path is ignored.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from eca_protocol import platforms

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


def home_directory(environ: Mapping[str, str]) -> Path:
    """Return the user's home; `/` if there is none, as in a container with an unlisted user."""
    try:
        home = Path(environ.get("HOME") or Path.home())
    except RuntimeError:  # no variable and no entry in the user database
        return Path("/")
    return home if home.is_absolute() else Path("/")


def user_directory(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """Return the directory of the user's files: configuration, AGENTS.md, rules, commands."""
    configured = Path(environ.get("XDG_CONFIG_HOME", ""))
    directory = (
        configured if configured.is_absolute() else (home or home_directory(environ)) / ".config"
    )
    return directory / "eca"


def data_directory(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """Return the directory of the server's data: chats, logins, settings saved from the editor."""
    configured = Path(environ.get("XDG_DATA_HOME", ""))
    default = platforms.data_home(environ, home or home_directory(environ))
    return (configured if configured.is_absolute() else default) / "eca-python"


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory of caches, which may be deleted at any time."""
    configured = Path(environ.get("XDG_CACHE_HOME", ""))
    default = home_directory(environ) / ".cache"
    return (configured if configured.is_absolute() else default) / "eca-python"


def logins_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the file of logins."""
    return data_directory(environ) / "logins.json"


def make_data_directory(directory: Path) -> None:
    """Create the data directory, if it is missing, readable by the user alone.

    Its `.gitignore` hides it from listings and searches, even if the project is the home directory.

    Raises:
        OSError: the directory cannot be created.
    """
    make_private_directory(directory)
    rules = directory / ".gitignore"
    try:
        is_written = rules.stat().st_size > 0  # a full disk has left empty ones
    except FileNotFoundError:
        is_written = False
    if not is_written:
        replace_file(rules, b"*\n")


def make_private_directory(directory: Path) -> None:
    """Create a directory and its parents, as far as missing, readable by the user alone.

    Raises:
        OSError: it cannot be created.
    """
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        if directory.parent == directory:
            raise
        make_private_directory(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        is_dangling = directory.is_symlink() and not directory.exists()
        came = "a link to nothing" if is_dangling else "a file"
        why = f"expected a directory, got {came}"
        raise FileExistsError(error.errno, why, str(directory)) from error
