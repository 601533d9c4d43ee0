"""What holds for every child process: how its program is found, and what its environment has.

The rule of this module: a folder cannot put a program of its own in the place of one that is
meant by name. A relative entry of PATH means another directory wherever a command runs, and Git
takes any directory with the right files for a repository, whose configuration runs programs.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

__all__ = ["absolute_entries", "find_program", "hardened", "of_chat"]

_LONGEST_ID = 256

_COUNT = "GIT_CONFIG_COUNT"
_GIT_SETTINGS = {"safe.bareRepository": "explicit"}
_OWN = re.compile(r"ECA_CONFIG|OTEL_EXPORTER_OTLP_(?:\w+_)?HEADERS", re.IGNORECASE)


def find_program(name: str, path: str | None) -> str | None:
    """Return the file of a program, or None; look at the disk.

    Args:
        name: without a directory.
        path: a value of PATH; its relative and empty entries do not count. None: the system's.
    """
    entries = absolute_entries(os.defpath if path is None else path).split(os.pathsep)
    files = (shutil.which(str(Path(entry) / name)) for entry in entries if entry)
    return next((file for file in files if file is not None), None)


def absolute_entries(path: str) -> str:
    """Return a value of PATH without its relative entries; an empty entry is the current folder."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if Path(entry).is_absolute())


def hardened(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment as a child process gets it.

    It loses what is ours alone (`ECA_CONFIG`, the headers of the OpenTelemetry exporters, which
    hold keys) and the relative entries of PATH. Git is set to use a bare repository only where
    the repository is named (`--git-dir`); the user's own settings of this kind stay.
    """
    left = {name: value for name, value in environ.items() if not _OWN.fullmatch(name)}
    if "PATH" in left:
        left["PATH"] = absolute_entries(left["PATH"])
        if not left["PATH"]:  # an empty PATH means the current folder
            del left["PATH"]
    count = left.get(_COUNT, "").strip() or "0"
    if not (count.isascii() and count.isdecimal()):
        return left  # Git refuses to run at all
    number = int(count)
    for key, value in _GIT_SETTINGS.items():
        left[f"GIT_CONFIG_KEY_{number}"] = key
        left[f"GIT_CONFIG_VALUE_{number}"] = value
        number += 1
    left[_COUNT] = str(number)
    return left


def of_chat(environ: Mapping[str, str], chat_id: str) -> dict[str, str]:
    """Return the environment of a child that works for a chat; without an id, for no chat.

    `ECA_AGENT` tells programs that an agent runs them, `ECA_CHAT_ID` for which chat. An id comes
    from the client: one that no variable can hold, or that is very long, is left out.
    """
    told = {name: value for name, value in environ.items() if name != "ECA_CHAT_ID"}
    told["ECA_AGENT"] = "1"
    if 0 < len(chat_id) <= _LONGEST_ID and chat_id.isprintable():
        told["ECA_CHAT_ID"] = chat_id
    return told
