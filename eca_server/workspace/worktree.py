"""The work tree of a directory; linked worktrees, mapped to the main worktree of the repository.

The rule of this module: a directory's own `.git` proves nothing, since anyone can write it. The
repository has to name the worktree, too. Git is not run.
"""

from __future__ import annotations

import os
from pathlib import Path

from eca_server.workspace.repository import git_directory_of, read_small_file


def top_of_work_tree(directory: Path) -> Path | None:
    """Return the top of the Git work tree that contains a directory, or None."""
    above = (directory, *directory.parents)
    return next((each for each in above if os.path.lexists(each / ".git")), None)


def in_main_worktree(directory: Path) -> Path:
    """Return the real path of the same directory in the repository's main worktree.

    Outside a linked worktree this is the directory's own real path; for a worktree of a bare
    repository it is a path below the repository. It reads files.
    """
    directory = Path(os.path.realpath(directory))
    top = top_of_work_tree(directory)
    common = None if top is None else _common_directory(top)
    if top is None or common is None:
        return directory
    main = common.parent if common.name == ".git" else common
    return main / directory.relative_to(top)


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
