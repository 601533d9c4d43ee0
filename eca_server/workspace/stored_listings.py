"""Listings of large workspaces, stored for the first search of the next server.

A missing or damaged file counts as absent, and a failed write is not an error. Everything here
touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from eca_protocol.server.roots import Root
from eca_server.config.directories import make_data_directory, replace_file
from eca_server.config.files import Unreadable, read_bytes
from eca_server.workspace.catalogue import Catalogue

_MOST_BYTES: Final = 2**28
_MOST_LISTINGS: Final = 16
_LONGEST_WRITE: Final = 3600.0  # seconds; a killed server has left an older temporary file


class StoredListings:
    """The stored listings of one set of roots.

    Args:
        folder: the folder of all stored listings.
        roots: the roots.
    """

    def __init__(self, folder: Path, roots: Sequence[Root]) -> None:
        self._folder = folder
        self._roots = [str(root.real_path) for root in roots]

    def load(self, *, gitignore: bool) -> Catalogue:
        """Return the listing; an empty one if none is stored.

        `gitignore`: the listing leaves out the files that Git ignores.
        """
        file = self._file(gitignore=gitignore)
        try:
            catalogue = Catalogue.from_bytes(read_bytes(file, most=_MOST_BYTES))
        except (Unreadable, ValueError):
            return Catalogue()
        with suppress(OSError):
            os.utime(file)
        return catalogue

    def save(self, catalogue: Catalogue, *, gitignore: bool) -> None:
        """Store a listing unless it is stored already, and forget those used longest ago."""
        file, data = self._file(gitignore=gitignore), catalogue.to_bytes()
        with suppress(Unreadable):
            if read_bytes(file, most=_MOST_BYTES) == data:
                return
        with suppress(OSError):
            make_data_directory(self._folder)
            replace_file(file, data)
            _forget_old(self._folder)

    def _file(self, *, gitignore: bool) -> Path:
        identity = "\0".join([str(gitignore), *self._roots]).encode(errors="surrogatepass")
        return self._folder / hashlib.sha256(identity).hexdigest()[:32]


def _forget_old(folder: Path) -> None:
    used = {each: each.stat().st_mtime for each in folder.iterdir() if each.name != ".gitignore"}
    written = [each for each in used if not each.name.startswith(".")]
    old = sorted(written, key=used.__getitem__)[:-_MOST_LISTINGS]
    abandoned = time.time() - _LONGEST_WRITE
    old += [each for each in used if each.name.startswith(".") and used[each] < abandoned]
    for each in old:
        each.unlink(missing_ok=True)
