"""The files of a directory as an indented tree; the deeper levels are cut first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from eca_server.agent.tools.files import printable


@attrs.define(eq=False)
class _Directory:
    directories: dict[str, _Directory] = attrs.field(factory=dict)
    files: list[str] = attrs.field(factory=list)
    is_shown: bool = False

    @property
    def size(self) -> int:
        return len(self.directories) + len(self.files)


def draw_tree(paths: Iterable[str], *, limit: int) -> str:
    """Return relative paths, with `/`, as a tree of at most `limit` entries.

    The contents of a directory are shown in full or only by their number; upper directories come
    before lower ones. The top is always shown, up to the limit.
    """
    top = _Directory()
    for path in sorted(paths):
        *above, name = path.split("/")
        directory = top
        for each in above:
            directory = directory.directories.setdefault(each, _Directory())
        directory.files.append(name)
    _choose(top, limit)
    lines: list[str] = []
    _draw(top, "", lines)
    if len(lines) > limit:
        lines[limit:] = [f"... cut, {len(lines) - limit} entries left out ..."]
    return "\n".join(lines)


def _choose(top: _Directory, limit: int) -> None:
    waiting = deque([top])
    while waiting:
        directory = waiting.popleft()
        directory.is_shown = directory is top or directory.size <= limit
        if directory.is_shown:
            limit -= directory.size
            waiting.extend(directory.directories.values())


def _draw(directory: _Directory, indent: str, lines: list[str]) -> None:
    for name, below in directory.directories.items():
        if below.is_shown:
            lines.append(f"{indent}{printable(name)}/")
            _draw(below, f"{indent}  ", lines)
        else:
            entries = "1 entry" if below.size == 1 else f"{below.size} entries"
            lines.append(f"{indent}{printable(name)}/ ({entries} left out)")
    lines.extend(f"{indent}{printable(name)}" for name in directory.files)
