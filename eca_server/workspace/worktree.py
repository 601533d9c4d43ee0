"""The linked worktrees of a Git repository: which folder of the main one a folder stands for.

The rule of this module: a folder's own `.git` proves nothing, for anyone can write it. The
repository has to name the worktree, too. No Git is run.
"""

from __future__ import annotations

import os
from pathlib import Path

from eca_server.workspace.repository import pointed_to, text_of

__all__ = ["in_main_worktree"]


def in_main_worktree(folder: Path) -> Path:
    """Return the real path of the same folder in the repository's main worktree.

    For a folder in no linked worktree it is that folder's own, and for a worktree of a bare
    repository one below the repository. It reads files.
    """
    folder = Path(os.path.realpath(folder))
    for top in (folder, *folder.parents):
        if os.path.lexists(top / ".git"):
            common = _common_directory(top)
            if common is None:
                return folder
            main = common.parent if common.name == ".git" else common
            return main / folder.relative_to(top)
    return folder


def _common_directory(top: Path) -> Path | None:
    """Return the directory of the repository of which `top` is a linked worktree."""
    link = top / ".git"
    if link.is_symlink() or not link.is_file():
        return None
    own = pointed_to(link)
    named = text_of(own / "gitdir")
    common = text_of(own / "commondir")
    if own == link or named is None or common is None:
        return None
    back = Path(os.path.realpath(own / named.strip()))
    directory = Path(os.path.realpath(own / common.strip()))
    is_its_own = Path(os.path.realpath(own)).parent == directory / "worktrees"
    return directory if is_its_own and back == Path(os.path.realpath(link)) else None
