"""The user's own folders by the XDG rules: a variable with a relative path does not count."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["cache_folder", "data_folder", "home_folder", "make_data_folder", "user_folder"]


def home_folder(environ: Mapping[str, str]) -> Path:
    """The user's home; `/` for one who has none, as in a container with a made-up user."""
    home = environ.get("HOME", "")
    try:
        return Path(home) if home else Path.home()
    except RuntimeError:  # neither the variable nor an entry in the list of users
        return Path("/")


def user_folder(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """What the user writes for us: configuration, AGENTS.md, rules, commands."""
    configured = Path(environ.get("XDG_CONFIG_HOME", ""))
    folder = configured if configured.is_absolute() else (home or home_folder(environ)) / ".config"
    return folder / "eca"


def data_folder(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """What we write for the user: chats, logins, what was decided in the editor."""
    configured = Path(environ.get("XDG_DATA_HOME", ""))
    default = (home or home_folder(environ)) / ".local" / "share"
    return (configured if configured.is_absolute() else default) / "eca-python"


def cache_folder(environ: Mapping[str, str]) -> Path:
    """What we write to have it sooner next time; all of it may be deleted."""
    configured = Path(environ.get("XDG_CACHE_HOME", ""))
    default = home_folder(environ) / ".cache"
    return (configured if configured.is_absolute() else default) / "eca-python"


def make_data_folder(folder: Path) -> None:
    """Make that folder, if it is missing, for the user's eyes only.

    Its `.gitignore` keeps it out of every listing and search, also where the home directory itself
    is the project.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    rules = folder / ".gitignore"
    with suppress(FileExistsError):
        descriptor = os.open(rules, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write("*\n")
