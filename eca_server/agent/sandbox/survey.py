"""The survey of guarded and credential paths on the disk, before and after a command in a sandbox.

All functions touch the disk: call them in a worker thread.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import attrs

from eca_protocol import platforms
from eca_protocol.errors import ECAError
from eca_server.agent.sandbox.guards import is_guarded, obeyed_of_repository
from eca_server.workspace.guarded import folded_name

MAX_ENTRIES = 200_000
MAX_GUARDED = 400
MAX_ENTRIES_AFTER = 5 * MAX_ENTRIES
_GENERATED = frozenset({"node_modules", "__pycache__", "site-packages"})
_ENVIRONMENT = "pyvenv.cfg"
_OWN_ENVIRONMENT = Path(os.path.realpath(sys.prefix))
"""The environment of this server, which imports modules from it at any time."""

Identity: TypeAlias = tuple[int, int, int]
"""The device, inode and type of a file."""


class TooLarge(ECAError):
    """A workspace with too many entries to find every guarded path; the text has the number."""


@attrs.frozen(kw_only=True)
class Survey:
    """The guarded paths below one root.

    Attributes:
        root: the real path of the root.
        guarded: guarded paths other than links, with their identities.
        links: guarded symbolic links, with their targets.
        skipped: generated directories that were not searched.
    """

    root: Path
    guarded: Mapping[Path, Identity]
    links: Mapping[Path, str]
    skipped: frozenset[Path]


def survey(
    root: Path,
    skip: frozenset[Path] | None = None,
    *,
    max_entries: int = MAX_ENTRIES,
    configuration: Iterable[Path] = (),
) -> Survey:
    """Find the guarded paths below a root, breadth first.

    The virtual environment that this server runs from is one of them. Packages (`node_modules`)
    and other virtual environments are not searched. Symbolic links are not followed: their targets
    are searched at their own paths, or are outside. A directory of the user that cannot be listed
    is guarded as a whole: programs may still obey files in it.

    Args:
        root: a real path.
        skip: the directories that an earlier survey has skipped; only these are skipped.
        max_entries: the maximum number of entries to read.
        configuration: the real paths of the user's configuration, which are guarded as well.

    Raises:
        TooLarge: there are more entries, or more guarded paths.
    """
    guarded: dict[Path, Identity] = {}
    links: dict[Path, str] = {}
    skipped: set[Path] = set()
    waiting: deque[tuple[Path, tuple[str, ...]]] = deque([(root, ())])
    remaining = max_entries
    while waiting:
        directory, parents = waiting.popleft()
        entries = _entries(directory)
        if entries is None:
            if directory != root and _is_own(directory):
                _note(directory.stat, directory, guarded, links)
            continue
        remaining -= len(entries)
        if remaining < 0:
            raise TooLarge(f"{root} has more than {max_entries} files")
        named_entries = [(folded_name(entry.name), entry) for entry in entries]
        names = {name for name, _ in named_entries}
        if directory != root and (directory in skip if skip is not None else _ENVIRONMENT in names):
            skipped.add(directory)
            continue
        obeyed = obeyed_of_repository(names)
        for name, entry in named_entries:
            path = directory / entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if name in obeyed or is_guarded(parents, name, is_directory=is_directory):
                _note(entry.stat, path, guarded, links)
            elif is_directory and name in _GENERATED:
                skipped.add(path)
            elif is_directory:
                waiting.append((path, (*parents, name)))
    for path in (_OWN_ENVIRONMENT, *configuration):
        if root in path.parents and guarded.keys().isdisjoint((path, *path.parents)):
            _note(path.stat, path, guarded, links)
    if skip is None and len(guarded) > MAX_GUARDED:
        raise TooLarge(f"{root} has more than {MAX_GUARDED} guarded paths")
    return Survey(root=root, guarded=guarded, links=links, skipped=frozenset(skipped))


def _entries(directory: Path) -> list[os.DirEntry[str]] | None:
    """Return the entries of a directory, or None if it cannot be listed."""
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return None


def _is_own(path: Path) -> bool:
    """Return True if this user owns a file, so that a command may have made it."""
    try:
        return platforms.is_own(path.lstat())
    except OSError:
        return False


def _note(
    stat_of: Callable[..., os.stat_result],
    path: Path,
    guarded: dict[Path, Identity],
    links: dict[Path, str],
) -> None:
    with contextlib.suppress(OSError):  # removed meanwhile
        status = stat_of(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            links[path] = os.readlink(path)  # noqa: PTH115 (the text as it is)
        else:
            guarded[path] = status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode)


def existing(paths: Iterable[Path]) -> dict[Path, bool]:
    """Return the existing paths, resolved; true for a directory."""
    existing_paths: dict[Path, bool] = {}
    for path in paths:
        try:
            real = Path(os.path.realpath(path))
            existing_paths[real] = stat.S_ISDIR(real.lstat().st_mode)
        except (OSError, ValueError):
            continue
    return existing_paths
