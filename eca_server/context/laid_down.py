"""Files that users lay down for the server: skills, commands.

The rules it keeps: a file of a project counts only where it really lies in the project; what is
wrong with one file costs that file, and is told in a sentence.
"""

from __future__ import annotations

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
    Workspace,
    decode,
    list_files,
    read_file,
)

__all__ = ["LaidDown", "NotTaken"]

_LARGEST = 64 * 1024  # bytes of one file


class NotTaken(ValueError):
    """A file that is not what it should be; the message says why."""


@attrs.define(kw_only=True, eq=False)
class LaidDown(ABC):
    """The files of one kind, looked for in a worker thread.

    Attributes:
        workspace: its roots.
        checkpoint: called now and then; what it raises ends the search.
        notes: sentences about files that were not taken.
        is_of_project: whether the files that are taken now lie in the workspace.
    """

    workspace: Workspace
    checkpoint: Checkpoint
    notes: list[str] = attrs.field(init=False, factory=list)
    is_of_project: bool = attrs.field(init=False, default=False)

    @abstractmethod
    def take(self, place: Place) -> None:
        """Take a file, one way or another.

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
                self.take(place)
        except (FileFault, NotTaken, OSError) as fault:
            reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
            self.notes.append(f"{printable(path)}: {reason}.")
        return True

    def add_configured(self, paths: Sequence[str], user_folder: Path) -> None:
        """Add what the configuration names and lies where `is_of_project` says.

        Args:
            paths: relative ones start in each root, or without one in `user_folder`.
            user_folder: the user's own configuration.
        """
        bases = [root.path for root in self.workspace.roots] or [user_folder]
        for path in paths:
            own = [
                base for base in bases if self._lies_in_project(path, base) is self.is_of_project
            ]
            were_found = [self.add(path, base=base) for base in own]
            if own and not any(were_found):
                self.notes.append(f"{printable(path)}: there is no such file.")

    def _lies_in_project(self, path: str, base: Path) -> bool:
        """Return whether a path lies in a root as it is written, or where its links lead."""
        try:
            place = self.workspace.locate(path, base=base)
        except (FileFault, OSError):
            return True
        return place.inside or place.leads_out

    def listed(self, folder: Path, *, most: int) -> Iterator[str]:
        """The files below a real folder, but for hidden ones, by name."""
        paths = list_files(folder, limit=most, gitignore=False, checkpoint=self.checkpoint)
        for path in sorted(paths):
            if not any(name.startswith(".") for name in path.split("/")):
                yield path

    def text_of(self, place: Place) -> str:
        """The text of a file, which is small."""
        snapshot = read_file(place, limit=_LARGEST, checkpoint=self.checkpoint)
        return decode(snapshot.data).text
