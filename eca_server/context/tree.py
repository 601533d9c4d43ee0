"""A folder's files as an indented tree, the upper levels first where not all has room."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from eca_server.tools.files import printable

__all__ = ["draw_tree"]


@attrs.define(eq=False)
class _Folder:
    folders: dict[str, _Folder] = attrs.field(factory=dict)
    files: list[str] = attrs.field(factory=list)
    shown: bool = False

    @property
    def size(self) -> int:
        return len(self.folders) + len(self.files)


def draw_tree(paths: Iterable[str], *, limit: int) -> str:
    """Relative paths, `/` between the names, as a tree of at most `limit` entries.

    A folder's contents are shown whole or, told by their number, not at all; those of upper
    folders go before those of lower ones. The top is always shown, as far as the limit goes.
    """
    top = _Folder()
    for path in sorted(paths):
        *above, name = path.split("/")
        folder = top
        for each in above:
            folder = folder.folders.setdefault(each, _Folder())
        folder.files.append(name)
    _choose(top, limit)
    lines: list[str] = []
    _draw(top, "", lines)
    if len(lines) > limit:
        lines[limit:] = [f"... cut, {len(lines) - limit} entries left out ..."]
    return "\n".join(lines)


def _choose(top: _Folder, limit: int) -> None:
    waiting = deque([top])
    while waiting:
        folder = waiting.popleft()
        folder.shown = folder is top or folder.size <= limit
        if folder.shown:
            limit -= folder.size
            waiting.extend(folder.folders.values())


def _draw(folder: _Folder, indent: str, lines: list[str]) -> None:
    for name, below in folder.folders.items():
        if below.shown:
            lines.append(f"{indent}{printable(name)}/")
            _draw(below, f"{indent}  ", lines)
        else:
            entries = "1 entry" if below.size == 1 else f"{below.size} entries"
            lines.append(f"{indent}{printable(name)}/ ({entries} left out)")
    lines.extend(f"{indent}{printable(name)}" for name in folder.files)
