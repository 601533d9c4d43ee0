"""The files that Git tracks in spite of its own rules: a search by rules alone would miss them.

The rule it keeps: Git is asked again when its index or the rules at the top have changed, and
after a minute, for it takes as long as the search itself.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

import attrs

from eca_server.workspace import Checkpoint, Directory, git

__all__ = ["IgnoredAndTracked", "top_of_work_tree"]

_SECONDS = 60.0
_MOST_FOLDERS = 50
_WATCHED = (".git/index", ".git/info/exclude", ".gitignore")


@attrs.frozen(kw_only=True)
class _Answer:
    """What Git said; `state` is how the watched files were before."""

    state: tuple[tuple[int, int] | None, ...]
    asked_at: float
    names: tuple[str, ...]


class IgnoredAndTracked:
    """Asks Git, and remembers what it said. Threads may use it."""

    def __init__(self) -> None:
        self._answers: dict[Path, _Answer] = {}

    def below(self, start: Directory, *, checkpoint: Checkpoint) -> tuple[str, ...]:
        """The files below an open directory, relative to it; none where Git cannot say."""
        folder = start.path
        top = top_of_work_tree(folder)
        if top is None:
            return ()
        state = tuple(_state(top / name) for name in _WATCHED)
        now = time.monotonic()
        answer = self._answers.get(folder)
        if answer is None or answer.state != state or now - answer.asked_at > _SECONDS:
            if len(self._answers) >= _MOST_FOLDERS:
                self._answers.clear()
            names = _asked(git.list_paths(start, "-ci", top=top, checkpoint=checkpoint))
            answer = _Answer(state=state, asked_at=now, names=names)
            self._answers[folder] = answer
        return answer.names


def top_of_work_tree(folder: Path) -> Path | None:
    """The top of the Git work tree that a folder lies in; None if it lies in none."""
    return next(
        (each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None
    )


def _asked(names: Iterable[str]) -> tuple[str, ...]:
    with contextlib.suppress(git.GitUnavailable, OSError):
        return tuple(names)
    return ()


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
