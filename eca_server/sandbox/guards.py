"""The table of guarded paths, made ready to be asked for every file of a workspace."""

from __future__ import annotations

import fnmatch
import re
from collections import defaultdict
from collections.abc import Sequence

from eca_server.workspace.guarded import GUARDED, folded_name

__all__ = ["HELD_NAMES", "REPOSITORY", "folded_name", "is_guarded"]

HELD_NAMES = (
    ".agents", ".claude", ".codex", ".cursor", ".devcontainer", ".eca", ".envrc", ".exrc", ".git",
    ".husky", ".idea", ".mcp.json", ".nvim.lua", ".vscode", ".zed",
)  # fmt: skip
"""Names in the top directory of a root whose creation is prevented, where they are missing: what
they hold takes effect at once, without a question of the program that reads them. All other guarded
paths that a command creates are set aside as soon as the command has ended."""

REPOSITORY = frozenset({"head", "objects", "refs"})
"""The entries that make a directory a bare Git repository: Git would obey its `config`."""


class _Rows:
    """The rows of one kind: exact names, and patterns; by the names of their parents."""

    def __init__(self, rows: Sequence[tuple[str, ...]]) -> None:
        self._exact: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        wild: list[str] = []
        for *parents, name in rows:
            if "*" in name:
                assert not parents, "a pattern in the table has no parent"
                wild.append(fnmatch.translate(name))
            else:
                self._exact[name].add(tuple(parents))
        self._wild = re.compile("|".join(wild) or r"(?!)")

    def match(self, parents: tuple[str, ...], name: str) -> bool:
        """Return whether a row matches an entry, all names folded."""
        found = self._exact.get(name)
        if found is not None:
            return any(not row or parents[-len(row) :] == row for row in found)
        return self._wild.fullmatch(name) is not None


_DIRECTORIES = _Rows([row.parts for row in GUARDED if row.kind == "directory"])
_FILES = _Rows([row.parts for row in GUARDED if row.kind == "file"])


def is_guarded(parents: tuple[str, ...], name: str, *, is_directory: bool) -> bool:
    """Return whether an entry of a directory is a guarded path.

    A file or a link with the name of a guarded directory is guarded, too (`.git` of a work tree).

    Args:
        parents: the folded names from the root to the directory.
        name: the folded name of the entry.
        is_directory: whether it is a directory.
    """
    return _DIRECTORIES.match(parents, name) or (not is_directory and _FILES.match(parents, name))
