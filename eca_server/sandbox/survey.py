"""A look at the disk before and after a command in a sandbox: guarded paths and places of keys.

Everything here touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import attrs

from eca_protocol.errors import ECAError
from eca_server.sandbox.guards import REPOSITORY, folded_name, is_guarded

__all__ = ["AFTERWARDS", "Identity", "Survey", "TooLarge", "existing", "survey"]

MOST_ENTRIES = 200_000
MOST_GUARDED = 400
AFTERWARDS = 5 * MOST_ENTRIES
_GENERATED = frozenset({"node_modules", "__pycache__", "site-packages"})
_ENVIRONMENT = "pyvenv.cfg"

Identity: TypeAlias = tuple[int, int, int]
"""Device, inode and type of a file: what a path names, whatever its content."""


class TooLarge(ECAError):
    """A workspace with too much in it to find every guarded path; the text says how much."""


@attrs.frozen(kw_only=True)
class Survey:
    """The guarded paths below one root.

    Attributes:
        root: the real path of the root.
        guarded: what is guarded and no link, with its identity.
        links: guarded names that are symbolic links, with their targets.
        skipped: directories that were not looked into (generated ones).
    """

    root: Path
    guarded: Mapping[Path, Identity]
    links: Mapping[Path, str]
    skipped: frozenset[Path]


def survey(root: Path, skip: frozenset[Path] | None = None, *, most: int = MOST_ENTRIES) -> Survey:
    """Find the guarded paths below a root, the nearest first.

    Packages (`node_modules`) and virtual environments are not looked into. Symbolic links are not
    followed: where they lead to is looked at where it lies, or lies outside.

    Args:
        root: a real path.
        skip: the directories that an earlier survey has skipped; then no other is.
        most: the number of entries to look at.

    Raises:
        TooLarge: there are more entries, or more guarded paths, than can be looked at.
    """
    guarded: dict[Path, Identity] = {}
    links: dict[Path, str] = {}
    skipped: set[Path] = set()
    waiting: deque[tuple[Path, tuple[str, ...]]] = deque([(root, ())])
    left = most
    while waiting:
        directory, parents = waiting.popleft()
        entries = _entries(directory)
        left -= len(entries)
        if left < 0:
            raise TooLarge(f"{root} has more than {most} files")
        named = [(folded_name(entry.name), entry) for entry in entries]
        names = {name for name, _ in named}
        if directory != root and (directory in skip if skip is not None else _ENVIRONMENT in names):
            skipped.add(directory)
            continue
        is_repository = names >= REPOSITORY
        for name, entry in named:
            path = directory / entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if is_guarded(parents, name, is_directory=is_directory) or (
                is_repository and name in {"config", "hooks", "commondir"}
            ):
                _note(entry, path, guarded, links)
            elif is_directory and name in _GENERATED:
                skipped.add(path)
            elif is_directory:
                waiting.append((path, (*parents, name)))
    if skip is None and len(guarded) > MOST_GUARDED:
        raise TooLarge(f"{root} has more than {MOST_GUARDED} guarded paths")
    return Survey(root=root, guarded=guarded, links=links, skipped=frozenset(skipped))


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    """Return what is in a directory; nothing, if it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _note(
    entry: os.DirEntry[str], path: Path, guarded: dict[Path, Identity], links: dict[Path, str]
) -> None:
    with contextlib.suppress(OSError):  # removed meanwhile
        found = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            links[path] = os.readlink(path)  # noqa: PTH115 (the text as it is)
        else:
            guarded[path] = found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode)


def existing(paths: Iterable[Path]) -> dict[Path, bool]:
    """Return the real paths of those that exist, and whether each is a directory."""
    found: dict[Path, bool] = {}
    for path in paths:
        try:
            real = Path(os.path.realpath(path))
            found[real] = stat.S_ISDIR(real.lstat().st_mode)
        except (OSError, ValueError):
            continue
    return found
