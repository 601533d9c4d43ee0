"""The ignored files that Git tracks, which a search by rules alone would miss.

The rule of this module: the answer of Git is cached until its index or the rules at the top change,
and for a minute at most, since Git takes as long as the search itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

import attrs

from eca_server.workspace import git
from eca_server.workspace.opening import Directory
from eca_server.workspace.reading import Checkpoint
from eca_server.workspace.repository import top_of_work_tree

_SECONDS = 60.0
_WATCHED = (".git/index", ".git/info/exclude", ".gitignore")


@attrs.frozen(kw_only=True)
class _Answer:
    """A cached answer of Git; `state` is that of the watched files before."""

    state: tuple[tuple[int, int] | None, ...]
    requested_at: float
    names: tuple[str, ...]


class IgnoredAndTracked:
    """The ignored and tracked files, cached; safe for threads."""

    def __init__(self, *, most_directories: int = 50) -> None:
        self._most = most_directories
        self._answers: dict[Path, _Answer] = {}

    def below(self, start: Directory, *, checkpoint: Checkpoint) -> tuple[str, ...]:
        """Return the files below an open directory, relative to it; none if Git fails."""
        folder = start.path
        top = top_of_work_tree(folder)
        if top is None:
            return ()
        state = tuple(_state(top / name) for name in _WATCHED)
        now = time.monotonic()
        answer = self._answers.get(folder)
        if answer is None or answer.state != state or now - answer.requested_at > _SECONDS:
            if len(self._answers) >= self._most:
                self._answers.clear()
            names = _listed(git.list_paths(start, "-ci", top=top, checkpoint=checkpoint))
            answer = _Answer(state=state, requested_at=now, names=names)
            self._answers[folder] = answer
        return answer.names


def _listed(names: Iterable[str]) -> tuple[str, ...]:
    with contextlib.suppress(git.GitUnavailable, OSError):
        return tuple(names)
    return ()


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
