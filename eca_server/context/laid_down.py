"""Files that users lay down for the server: skills, commands.

The rules it keeps: a file of a project counts only where it really lies in the project, and is
known as the project's, also where the configuration names it; what is wrong with one file costs
that file, and is told in a sentence.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from eca_server.tools.files import printable
from eca_server.workspace import (
    Checkpoint,
    FileFault,
    LeadsOut,
    Place,
    TooLarge,
    Workspace,
    decode,
    list_files,
    read_file,
)

__all__ = ["LaidDown", "NotTaken"]

_LARGEST = 64 * 1024  # bytes of one file
_TOTAL = 8 * 2**20  # bytes of all files of one search


class NotTaken(ValueError):
    """A file that is not what it should be; the message says why."""


@attrs.define(kw_only=True, eq=False)
class LaidDown(ABC):
    """The files of one kind, looked for in a worker thread.

    Attributes:
        workspace: its roots.
        checkpoint: called now and then; what it raises ends the search.
        room: bytes that may still be read.
        notes: sentences about files that were not taken.
    """

    workspace: Workspace
    checkpoint: Checkpoint
    room: int = attrs.field(init=False, default=_TOTAL)
    notes: list[str] = attrs.field(init=False, factory=list)

    @abstractmethod
    def take(self, place: Place, *, is_the_projects: bool) -> None:
        """Take a file, one way or another.

        Args:
            place: the file.
            is_the_projects: whether it belongs to the workspace, not to the user.

        Raises:
            NotTaken: it is none of the kind.
            FileFault: it cannot be read.
            OSError: likewise.
        """

    @abstractmethod
    def names(self, folder: Place, *, is_the_projects: bool) -> Iterator[str]:
        """The files below a folder that are meant to be of the kind, relative to it."""

    def add(self, path: str, *, base: Path | None = None, is_the_projects: bool = False) -> bool:
        """A file, or those of a folder; whether there is one."""
        try:
            place = self.workspace.locate(path, base=base)
            if not place.real_path.exists():
                return False
            if is_the_projects and not place.inside:
                raise LeadsOut("a link leads out of the workspace")
            if place.real_path.is_dir():
                for name in self.names(place, is_the_projects=is_the_projects):
                    self.add(str(place.path / name), is_the_projects=is_the_projects)
            else:
                self.take(place, is_the_projects=is_the_projects)
        except (FileFault, NotTaken, OSError) as fault:
            self._note(path, fault)
        return True

    def configured(
        self, paths: Sequence[str], user_directory: Path
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Return the existing paths that the configuration names: the user's, the workspace's.

        A path that is written inside a root is the workspace's, wherever a link on it leads.

        Args:
            paths: relative ones start in each root, or without one in the user's folder.
            user_directory: the user's own configuration directory.
        """
        own: list[str] = []
        of_workspace: list[str] = []
        bases = [root.path for root in self.workspace.roots] or [user_directory]
        real_user_folder = os.path.realpath(user_directory)
        for path in paths:
            exists = False
            for base in bases:
                try:
                    place = self.workspace.locate(path, base=base)
                    if not place.real_path.exists():
                        continue
                except (FileFault, OSError) as fault:
                    self._note(path, fault)
                else:
                    is_own = place.real_path.is_relative_to(real_user_folder)
                    is_inside = place.inside or place.leads_out
                    (of_workspace if is_inside and not is_own else own).append(str(place.path))
                exists = True
            if not exists:
                self.notes.append(f"{printable(path)}: there is no such file.")
        return [*dict.fromkeys(own)], [*dict.fromkeys(of_workspace)]

    def listed(self, folder: Path, *, most: int) -> Iterator[str]:
        """The files below a real folder, but for hidden ones, by name."""
        paths = list_files(folder, limit=most, gitignore=False, checkpoint=self.checkpoint)
        for path in sorted(paths):
            if not any(name.startswith(".") for name in path.split("/")):
                yield path

    def text_of(self, place: Place) -> str:
        """Return the text of a file, which is small.

        Raises:
            TooLarge: the file, or all of them together, are more than is read.
        """
        if self.room <= 0:
            raise TooLarge(f"more than {_TOTAL:,} bytes of such files were read already")
        snapshot = read_file(place, limit=_LARGEST, checkpoint=self.checkpoint)
        self.room -= len(snapshot.data)
        return decode(snapshot.data).text

    def _note(self, path: str, fault: Exception) -> None:
        reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
        self.notes.append(f"{printable(path)}: {reason}.")
