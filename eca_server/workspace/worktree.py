"""Linked worktrees of a Git repository, mapped to the main worktree.

The rule of this module: a directory's own `.git` proves nothing, since anyone can write it. The
repository has to name the worktree, too. Git is not run.
"""

from __future__ import annotations

import os
from pathlib import Path

from eca_server.workspace.repository import git_directory_of, read_small_file

__all__ = ["in_main_worktree"]


def in_main_worktree(directory: Path) -> Path:
    """Return the real path of the same directory in the repository's main worktree.

    Outside a linked worktree this is the directory's own real path; for a worktree of a bare
    repository it is a path below the repository. It reads files.
    """
    directory = Path(os.path.realpath(directory))
    for top in (directory, *directory.parents):
        if os.path.lexists(top / ".git"):
            common = _common_directory(top)
            if common is None:
                return directory
            main = common.parent if common.name == ".git" else common
            return main / directory.relative_to(top)
    return directory


def _common_directory(top: Path) -> Path | None:
    """Return the directory of the repository whose linked worktree is at `top`, or None."""
    link = top / ".git"
    if link.is_symlink() or not link.is_file():
        return None
    own = git_directory_of(link)
    named = read_small_file(own / "gitdir")
    common = read_small_file(own / "commondir")
    if own == link or named is None or common is None:
        return None
    back = Path(os.path.realpath(own / named.strip()))
    directory = Path(os.path.realpath(own / common.strip()))
    is_its_own = Path(os.path.realpath(own)).parent == directory / "worktrees"
    return directory if is_its_own and back == Path(os.path.realpath(link)) else None
