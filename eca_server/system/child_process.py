"""Rules for every child process: its program's path and its environment.

Invariant: a workspace folder cannot substitute its own program for one that is named. A relative
entry of PATH means a different directory wherever a command runs. An absolute one may lead into an
opened folder (an active virtual environment), where a sandboxed command can write. Git takes any
directory with the right files for a repository, whose configuration runs programs.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from eca_protocol import platforms

_LONGEST_ID = 256
_opened_folders: set[Path] = set()

_COUNT = "GIT_CONFIG_COUNT"
_GIT_SETTINGS = {"safe.bareRepository": "explicit"}
_OWN = re.compile(r"ECA_CONFIG|OTEL_EXPORTER_OTLP_(?:\w+_)?HEADERS", re.IGNORECASE)


def find_program(name: str, path: str | None) -> str | None:
    """Return the path of a program, or None; reads the disk.

    `path`: a value of PATH, whose relative and empty entries are ignored; None: the system's.
    """
    return next(_programs(name, path), None)


def find_own_program(name: str, path: str | None) -> str | None:
    """Return the path of a program that the server itself runs, or None; reads the disk.

    No program of an opened folder is found: see `note_opened_folders`.
    """
    return next((file for file in _programs(name, path) if not _is_opened(file)), None)


def _programs(name: str, path: str | None) -> Iterator[str]:
    entries = absolute_entries(os.defpath if path is None else path).split(os.pathsep)
    files = (find_executable(str(Path(entry) / name)) for entry in entries if entry)
    return (file for file in files if file is not None)


def note_opened_folders(folders: Iterable[Path], home: Path) -> None:
    """Exclude folders from the search for the server's own programs (Git, ripgrep, the shell).

    Args:
        folders: real paths.
        home: the user's home. A folder that is or contains the home is not excluded: no sandboxed
            command can write there.
    """
    home = home.resolve()
    _opened_folders.update(each for each in folders if not home.is_relative_to(each))


def _is_opened(file: str) -> bool:
    """Return True if a program, or a link to it, is in an opened folder."""
    real_paths = (os.path.realpath(os.path.dirname(file)), os.path.realpath(file))  # noqa: PTH120
    return any(
        Path(path).is_relative_to(folder) for path in real_paths for folder in _opened_folders
    )


def find_shell(environment: Mapping[str, str]) -> str:
    """Return the program that runs shell commands, found on the PATH; reads the disk."""
    return platforms.find_shell(lambda name: find_own_program(name, environment.get("PATH")))


def find_executable(path: str) -> str | None:
    """Return the executable file of a program's path, or None; reads the disk."""
    files = map(shutil.which, platforms.program_files(path))
    return next((file for file in files if file is not None), None)


def absolute_entries(path: str) -> str:
    """Return a value of PATH without its relative entries; an empty entry is relative, too."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if Path(entry).is_absolute())


def harden_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child process.

    The server's own variables (`ECA_CONFIG`, the headers of the OpenTelemetry exporters, which hold
    keys) and the relative entries of PATH are removed. Git is configured to use a bare repository
    only if it is named (`--git-dir`); the user's own Git variables stay.
    """
    result = {name: value for name, value in environ.items() if not _OWN.fullmatch(name)}
    if "PATH" in result:
        result["PATH"] = absolute_entries(result["PATH"])
        if not result["PATH"]:  # an empty PATH means the current directory
            del result["PATH"]
    count = result.get(_COUNT, "").strip() or "0"
    if not (count.isascii() and count.isdecimal()):
        return result  # Git refuses to run with such a value
    number = int(count)
    for key, value in _GIT_SETTINGS.items():
        result[f"GIT_CONFIG_KEY_{number}"] = key
        result[f"GIT_CONFIG_VALUE_{number}"] = value
        number += 1
    result[_COUNT] = str(number)
    return result


def chat_environment(environ: Mapping[str, str], chat_id: str) -> dict[str, str]:
    """Return the environment of a child process of a chat, or of none if the id is empty.

    `ECA_AGENT` marks programs that an agent runs, `ECA_CHAT_ID` is the chat. The id comes from the
    client: an unprintable or very long one is left out. Git has an editor that ends at once: there
    is no terminal, so it would wait for its own until the time limit.
    """
    result = {name: value for name, value in environ.items() if name != "ECA_CHAT_ID"}
    result |= {"ECA_AGENT": "1", "GIT_EDITOR": "true"}
    if 0 < len(chat_id) <= _LONGEST_ID and chat_id.isprintable():
        result["ECA_CHAT_ID"] = chat_id
    return result
