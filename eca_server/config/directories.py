"""The user's directories by the XDG rules: a variable with a relative path is ignored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from eca_protocol import platforms
from eca_server.config.private_file import replace_file


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
