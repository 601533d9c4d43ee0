"""Files and directories as sections of a prompt, pictures and documents as they are.

The rule it keeps: a path that was named is read wherever it leads, for naming it was consent; what
is found below a named directory is read only where no link leads out of it.

Everything here touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import attrs

from eca_protocol.messages import LinesRange
from eca_server.context.block import Section, render
from eca_server.context.excerpt import read_excerpt
from eca_server.context.limits import Limits
from eca_server.context.tree import draw_tree
from eca_server.llm.attachments import SIGNATURE_BYTES, Attachment, make_attachment, media_type_of
from eca_server.tools.output import cut_mark
from eca_server.workspace import (
    Checkpoint,
    Directory,
    FileFault,
    Place,
    Root,
    Workspace,
    list_files,
    open_file,
    open_place,
    read_file,
)
from eca_server.workspace.descent import Descent

__all__ = ["FromDisk", "Reader", "draw_roots"]

_MOST_FILES = 100_000  # of one directory
_OVERHEAD = 64  # bytes of a frame around a file, and what a look at one costs


@attrs.frozen(kw_only=True)
class FromDisk:
    """What a path gave.

    Attributes:
        section: for the model.
        size: bytes of text in it.
        left_out: bytes of text that should be in it and had no room.
        attachment: goes beside the section.
    """

    section: Section
    size: int = 0
    left_out: int = 0
    attachment: Attachment | None = None


@attrs.frozen(kw_only=True)
class Reader:
    """Reads what paths name.

    Attributes:
        workspace: the judge of where paths lead.
        limits: how much of it.
        gitignore: what Git ignores is left out of directories.
        checkpoint: called between pieces of work; what it raises ends it.
    """

    workspace: Workspace
    limits: Limits
    gitignore: bool = True
    checkpoint: Checkpoint = lambda: None

    def read(self, place: Place, lines: LinesRange | None, *, room: int) -> FromDisk:
        """A file, some lines of it, or a directory, in at most `room` bytes.

        Raises:
            FileFault: it cannot be read.
            OSError: it cannot be opened.
        """
        with open_place(place) as directory:
            if directory is not None:
                return self._read_directory(place, directory, room)
        return self._read_attachment(place) or self._read_text(place, lines, room)

    def outline(self, root: Root) -> Section:
        """The files of a root, as a tree.

        Raises:
            FileFault: it leads elsewhere than when it was opened.
        """
        drawn = draw_tree(self._list(root.real_path, links=True), limit=self.limits.tree)
        return Section(name="tree", attributes={"path": str(root.path)}, body=(drawn,))

    def _read_text(self, place: Place, lines: LinesRange | None, room: int) -> FromDisk:
        attributes = {"path": str(place.path)}
        if lines is not None:
            attributes["lines"] = f"{max(lines.start, 1)}-{max(lines.end, lines.start, 1)}"
        excerpt = read_excerpt(
            place, size=min(room, self.limits.file), lines=lines, checkpoint=self.checkpoint
        )
        return FromDisk(
            section=Section(name="file", attributes=attributes, body=(excerpt.marked,)),
            size=len(excerpt.text.encode()),
            left_out=excerpt.left_out,
        )

    def _read_attachment(self, place: Place) -> FromDisk | None:
        with open_file(place) as file:
            media_type = media_type_of(file.read(SIGNATURE_BYTES))
        if media_type is None:
            return None
        is_picture = media_type.startswith("image/")
        limit = self.limits.picture if is_picture else self.limits.document
        snapshot = read_file(place, limit=limit, checkpoint=self.checkpoint)
        attributes = {"path": str(place.path), "type": media_type}
        return FromDisk(
            section=Section(name="picture" if is_picture else "document", attributes=attributes),
            attachment=make_attachment(media_type, place.path.name, snapshot.data),
        )

    def _read_directory(self, place: Place, directory: Directory, room: int) -> FromDisk:
        paths = sorted(self._list(directory, links=False))
        if not paths:
            raise FileFault("there is no file in it that is not ignored")
        with Descent(directory) as descent:
            most = min(room, self.limits.directory)
            texts, size, left_out = self._texts(place, descent, paths, most)
        tree = Section(name="tree", body=(draw_tree(paths, limit=self.limits.tree),))
        section = Section(
            name="directory", attributes={"path": str(place.path)}, body=(*texts, tree)
        )
        return FromDisk(section=section, size=size, left_out=left_out)

    def _texts(
        self, directory: Place, descent: Descent, paths: Sequence[str], room: int
    ) -> tuple[list[str | Section], int, int]:
        """A directory's files, the mark of what had no room, their size, and that of the rest."""
        parts: list[str | Section] = []
        left = room
        cut = unread = unread_files = 0
        for path in paths:
            self.checkpoint()
            cost = _OVERHEAD + len(path)
            with contextlib.suppress(FileFault, OSError):  # what is no text is in the tree
                if left <= cost:
                    parent, _, name = path.rpartition("/")
                    found = descent.open(parent).stat(name)
                    unread += 0 if found is None else found.st_size
                    unread_files += 1
                    continue
                left -= cost
                place = self.workspace.locate(str(directory.real_path / path))
                if not place.real_path.is_relative_to(directory.real_path):
                    continue
                excerpt = read_excerpt(place, size=left, checkpoint=self.checkpoint)
                left -= len(excerpt.text.encode())
                cut += excerpt.left_out
                attributes = {"path": str(directory.path / path)}
                parts.append(Section(name="file", attributes=attributes, body=(excerpt.marked,)))
        if unread_files:
            parts.append(cut_mark(unread, f"files not read: {unread_files}"))
        return parts, room - left, cut + unread

    def _list(self, folder: Path | Directory, *, links: bool) -> list[str]:
        found = list_files(
            folder,
            limit=_MOST_FILES,
            gitignore=self.gitignore,
            links=links,
            checkpoint=self.checkpoint,
        )
        return list(found)


def draw_roots(
    workspace: Workspace, *, gitignore: bool = True, checkpoint: Checkpoint = lambda: None
) -> str:
    """The files of every root, each as the tree that the context `repoMap` gives."""
    reader = Reader(
        workspace=workspace, limits=Limits(), gitignore=gitignore, checkpoint=checkpoint
    )
    sections = []
    for root in workspace.roots:
        try:
            sections.append(reader.outline(root))
        except FileFault as fault:
            where = {"name": str(root.path)}
            sections.append(Section(name="left_out", attributes=where, body=(str(fault),)))
    return render(sections)
