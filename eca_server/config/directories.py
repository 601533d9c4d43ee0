"""The user's directories by the XDG rules: a variable with a relative path is ignored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from eca_protocol import platforms


def home_directory(environ: Mapping[str, str]) -> Path:
    """Return the user's home; `/` if there is none, as in a container with an unlisted user."""
    home = environ.get("HOME", "")
    try:
        return Path(home) if home else Path.home()
    except RuntimeError:  # no variable and no entry in the user database
        return Path("/")


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


def make_data_directory(directory: Path) -> None:
    """Create the data directory, if it is missing, readable by the user alone.

    Its `.gitignore` hides it from listings and searches, even if the project is the home directory.

    Raises:
        OSError: the directory cannot be created.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    rules = directory / ".gitignore"
    with suppress(FileExistsError):
        descriptor = os.open(rules, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write("*\n")
