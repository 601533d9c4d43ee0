"""The table of guarded paths, prepared for fast matching of every file of a workspace."""

from __future__ import annotations

import fnmatch
import re
from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from eca_server.workspace.guarded import GUARDED

RESERVED_NAMES = (
    ".agents", ".claude", ".codex", ".cursor", ".devcontainer", ".eca", ".envrc", ".exrc", ".git",
    ".husky", ".idea", ".mcp.json", ".nvim.lua", ".vscode", ".zed",
)  # fmt: skip
"""Names in the top directory of a root whose creation is prevented while they are missing: programs
obey their content at once, without asking. All other guarded paths that a command creates are
renamed as soon as the command has ended."""

_REPOSITORIES = (frozenset({"head", "objects", "refs"}), frozenset({"head", "commondir"}))
_OBEYED = frozenset({"commondir", "config", "config.worktree", "hooks"})


def obeyed_of_repository(names: AbstractSet[str]) -> frozenset[str]:
    """Return the entries that Git obeys in a bare repository with these folded names, or none."""
    return _OBEYED if any(each <= names for each in _REPOSITORIES) else frozenset()


class _Rows:
    """The rows of one kind: exact names with the names of their parents, and patterns."""

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
        parents_of_name = self._exact.get(name)
        if parents_of_name is not None:
            return any(not row or parents[-len(row) :] == row for row in parents_of_name)
        return self._wild.fullmatch(name) is not None


_DIRECTORIES = _Rows([row.parts for row in GUARDED if row.kind == "directory"])
_FILES = _Rows([row.parts for row in GUARDED if row.kind == "file"])


def is_guarded(parents: tuple[str, ...], name: str, *, is_directory: bool) -> bool:
    """Return whether an entry of a directory is a guarded path.

    A file or a link with the name of a guarded directory is guarded, too (`.git` of a work tree).

    `parents`: the folded names from the root to the directory.
    """
    return _DIRECTORIES.match(parents, name) or (not is_directory and _FILES.match(parents, name))
