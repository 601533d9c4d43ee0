"""The parts of a shell's word that may be paths.

The rule of this module: a part that leads out of the folder by its text alone is always a path. A
part with a second, more likely meaning is a path only if the disk confirms it: a URL where `http:`
is a file, and `/etc/x` of `-uo/etc/x`, but not `/lib` of `-Isrc/lib`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from eca_server.agent.tools.shell_expansion import matches_parent
from eca_server.agent.tools.shell_syntax import UNKNOWN
from eca_server.workspace.guarded import guard_of

_LONGEST_NAME = 255
_LONGEST_PATH = 4096
_MOST_LETTERS = 32  # of a guarded name, up to its first dot or dash
_URL = re.compile(r"\b(?!(?i:file):)[a-zA-Z][a-zA-Z0-9+.-]{0,15}://\S*")
_FILE_URL = re.compile(r"\bfile://(?:localhost)?", re.IGNORECASE)
_ANY_URL = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,15}://\S*")
# The text after one of these may be a path: `--file=/x`, `a:/x`, `{/x,/y}`, a quoted program.
_EDGES = re.compile(r"[\s'\"`=:,;|&()\[\]{}<>@#!]+")
_EDGES_OF_URL = re.compile(r"[\s'\"`=,;|&()\[\]{}<>@#!]+")
_CLUSTER = re.compile(r"-[A-Za-z0-9]{2,}")
# The commands of a script of sed that read or write a file: `w../x`, `1r../x`, `s/a/b/w../x`.
_FILE_OF_SED = re.compile(r"(?:^|[\s\d$!;{}/])[gpiImMe]*[rRwW](?=/|\.\./|~/)")


@attrs.frozen
class Reading:
    """A path that counts only if the disk confirms it.

    Attributes:
        folder: the working directory.
        text: the path, absolute or relative to the folder.
        option: the cluster of short options with the path at its end; empty: there is none.
    """

    folder: str
    text: str
    option: str = ""

    @property
    def path(self) -> str:
        """The absolute path."""
        return self.text if self.text.startswith("/") else f"{self.folder}/{self.text}"

    def is_confirmed(self) -> bool:
        """Return True if the first name of the path exists; read the disk."""
        name = self.text.lstrip("/").partition("/")[0]
        if not self.text.startswith("/"):
            return os.path.lexists(f"{self.folder}/{name}")
        return os.path.lexists(f"/{name}") and not self._is_relative()

    def _is_relative(self) -> bool:
        """Return True if the option reads as a path below an existing directory: `-Isrc/lib`."""
        start = max(2, len(self.option) - len(self.text) - _MOST_LETTERS)
        values = (self.option[at:] for at in range(start, len(self.option) - len(self.text)))
        return any(Path(self.folder, each).parent.is_dir() for each in values)


def certain_paths(word: str, *, is_target: bool, is_sed: bool) -> Iterator[str]:
    """Yield the parts of a word that are paths; of a partly unknown one, its known start."""
    for piece in _pieces(word):
        attached = (each for each in _attached(piece, is_sed=is_sed) if _is_certain(each))
        for part in (*_parts(piece), *attached):
            # A variable at the front may be empty.
            path = part.lstrip(UNKNOWN) if part.lstrip(UNKNOWN).startswith("/") else part
            yield from _with_parents(path.partition(UNKNOWN)[0])
    for url in _urls(word):
        for path in _with_parents(url):
            if is_target or ".." in path.split("/"):
                yield path


def possible_paths(word: str, *, is_sed: bool) -> Iterator[tuple[str, str]]:
    """Yield each part of a word that may be a path, and the option that it is attached to."""
    for piece in _pieces(word):
        for value in _attached(piece, is_sed=is_sed):
            name = value.lstrip("/").partition("/")[0]
            if len(name) > _LONGEST_NAME or not value or _is_certain(value):
                continue
            has_option = value.startswith("/") and len(value) <= _LONGEST_PATH
            yield value[:_LONGEST_PATH], piece if has_option else ""
    for url in _urls(word):
        yield url, ""


def _pieces(word: str) -> Iterator[str]:
    text = _FILE_URL.sub(" ", _URL.sub(" ", word))
    yield text
    yield from _EDGES.split(text)


def _parts(piece: str) -> tuple[str, ...]:
    """Return a piece, and the text after an option's name: `-C/x`, `--x`."""
    is_option = len(piece) > 1 and piece[0] in "-+"
    return (piece, piece[2:], piece.lstrip("-+")) if is_option else (piece,)


def _attached(piece: str, *, is_sed: bool) -> Iterator[str]:
    """Yield the possible values behind a cluster of short options, or a command of sed."""
    cluster = _CLUSTER.match(piece)
    if cluster is not None:
        end = cluster.end()
        yield from (piece[at:] for at in range(max(3, end - _MOST_LETTERS), end + 1))
    if is_sed:
        for match in _FILE_OF_SED.finditer(piece):
            yield piece[match.end() : match.end() + _LONGEST_PATH]


def _is_certain(value: str) -> bool:
    """Return True if a value leads out of the folder, or its first name is guarded."""
    if value.startswith(("..", "~/")):
        return True
    name = value.partition("/")[0]
    return 0 < len(name) <= _LONGEST_NAME and guard_of((name,)) is not None


def _urls(word: str) -> Iterator[str]:
    """Yield the parts of a word that contain a URL, without its unknown end."""
    if "://" not in word:
        return
    known = word.partition(UNKNOWN)[0]
    for piece in dict.fromkeys((known, *_EDGES_OF_URL.split(known))):
        if (url := _ANY_URL.search(piece)) is not None:
            yield from dict.fromkeys((*_parts(piece), url[0]))


def _with_parents(path: str) -> Iterator[str]:
    """Yield a path, also with `..` for each glob that matches `..`, as `.*` and `.?` do."""
    if not path:
        return
    yield path
    parts = path.split("/")
    up = [".." if matches_parent(part) else part for part in parts]
    if up != parts:
        yield "/".join(up)
