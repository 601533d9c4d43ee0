"""Files that define skills and commands.

The rules of this module: a file of a project is used only if its real path is in the project, and
it is always marked as the project's, even if the configuration names it. An invalid file is skipped
with a note.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import attrs

from eca_server.agent.context.limits import limit_notes
from eca_server.agent.tools.files import checkpoint, printable
from eca_server.config.interpolation import references_in
from eca_server.workspace.boundary import Place, Workspace, is_missing
from eca_server.workspace.errors import FileError, OutsideWorkspace, TooLarge, reason_of
from eca_server.workspace.ignore import list_files
from eca_server.workspace.reading import decode, read_file

T = TypeVar("T")

_LARGEST = 64 * 1024  # bytes of one file
_TOTAL = 8 * 2**20  # bytes of all files of one search

_IN_SHELL = re.compile(r"[-+=?\d]")  # `${file:-none}` is an expansion of the shell


class InvalidDefinition(ValueError):
    """A file that does not define what it should; the message says why."""


@attrs.frozen(kw_only=True)
class DefinitionPlaces:
    """The places of definitions of one kind, besides the usual ones in the workspace's roots.

    Attributes:
        user_directory: the user's configuration directory, `~/.config/eca`.
        configured: paths of files and directories; relative ones start in each root.
    """

    workspace: Workspace
    user_directory: Path
    configured: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Definitions(Generic[T]):
    """The valid definitions of one kind, and sentences about the problems of the others."""

    items: tuple[T, ...] = ()
    notes: tuple[str, ...] = ()


@attrs.define(kw_only=True, eq=False)
class DefinitionFiles(ABC, Generic[T]):
    """The files of one kind; used in a worker thread.

    Attributes:
        items: the definitions so far, by their names in lower case.
        budget: bytes that may still be read.
        notes: sentences about skipped files.
    """

    workspace: Workspace
    budget: int = attrs.field(init=False, default=_TOTAL)
    items: dict[str, T] = attrs.field(init=False, factory=dict)
    notes: list[str] = attrs.field(init=False, factory=list)

    def result(self) -> Definitions[T]:
        """Return what was read."""
        return Definitions(items=tuple(self.items.values()), notes=limit_notes(self.notes))

    @abstractmethod
    def add_file(self, place: Place, *, from_workspace: bool) -> None:
        """Read a definition and store it.

        `from_workspace`: whether it belongs to the workspace, not to the user.

        Raises:
            InvalidDefinition: it is not a valid definition.
            FileError: it cannot be read.
            OSError: it cannot be opened.
        """

    @abstractmethod
    def names(self, directory: Place, *, from_workspace: bool) -> Iterator[str]:
        """Yield the definitions below a directory, relative to it."""

    def add(self, path: str, *, base: Path | None = None, from_workspace: bool = False) -> bool:
        """Add a file, or the files of a directory; return False if it does not exist."""
        if base is None and is_missing(path):
            return False
        try:
            place = self.workspace.locate(path, base=base)
            if not place.real_path.exists():
                return False
            if from_workspace and not place.is_inside:
                raise OutsideWorkspace("a link leads out of the workspace")
            if place.real_path.is_dir():
                for name in self.names(place, from_workspace=from_workspace):
                    self.add(str(place.path / name), from_workspace=from_workspace)
            else:
                self.add_file(place, from_workspace=from_workspace)
        except (FileError, InvalidDefinition, OSError) as error:
            self._note(path, error)
        return True

    def configured(self, places: DefinitionPlaces) -> tuple[Sequence[str], Sequence[str]]:
        """Return the existing configured paths: the user's, and the workspace's.

        A path written inside a root is the workspace's, even if a link takes it elsewhere. Without
        a root, relative paths start in the user's directory.
        """
        own: list[str] = []
        of_workspace: list[str] = []
        bases = [root.path for root in self.workspace.roots] or [places.user_directory]
        real_user_directory = os.path.realpath(places.user_directory)
        for path in places.configured:
            exists = False
            for base in bases:
                try:
                    place = self.workspace.locate(path, base=base)
                    if not place.real_path.exists():
                        continue
                except (FileError, OSError) as error:
                    self._note(path, error)
                else:
                    is_own = place.real_path.is_relative_to(real_user_directory)
                    is_inside = place.is_inside or place.escapes
                    (of_workspace if is_inside and not is_own else own).append(str(place.path))
                exists = True
            if not exists:
                self.notes.append(f"{printable(path)}: the file does not exist.")
        return [*dict.fromkeys(own)], [*dict.fromkeys(of_workspace)]

    def list_visible(self, directory: Path, *, most: int) -> Iterator[str]:
        """Yield the files below a real directory, without hidden ones, sorted."""
        return visible_files(directory, most=most, links=True)

    def text_of(self, place: Place) -> str:
        """Return the text of a small file.

        Raises:
            TooLarge: the file, or all files together, exceed the limit.
        """
        if self.budget <= 0:
            raise TooLarge(f"the limit of {_TOTAL:,} bytes of such files is reached")
        snapshot = read_file(place, limit=_LARGEST, checkpoint=checkpoint)
        self.budget -= len(snapshot.data)
        text = decode(snapshot.data).text
        if any(_IN_SHELL.match(target) is None for _, target in references_in(text)):
            message = "references such as ${env:NAME} are not replaced here, they stay in the text"
            self.notes.append(f"{printable(place.path)}: {message}.")
        return text

    def _note(self, path: str, fault: Exception) -> None:
        self.notes.append(f"{printable(path)}: {reason_of(fault)}.")


def visible_files(directory: Path, *, most: int, links: bool) -> Iterator[str]:
    """Yield the files below a real directory, without hidden ones, sorted."""
    paths = list_files(directory, limit=most, gitignore=False, links=links, checkpoint=checkpoint)
    for path in sorted(paths):
        if not any(name.startswith(".") for name in path.split("/")):
            yield path
