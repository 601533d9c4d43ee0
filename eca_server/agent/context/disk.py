"""Files and directories as sections of a prompt, pictures and documents as attachments.

The rule of this module: a path in a context is read wherever it leads, since the user consented by
adding it. Below a directory, a file is read only if no link takes it outside the directory. The
model knows the content of a file that was read, as after a call of `read_file`.

All but `draw_tree` accesses the disk: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import attrs

from eca_protocol.messages import LinesRange
from eca_protocol.server.roots import Root
from eca_server.agent.context.block import Content, Section, render
from eca_server.agent.context.excerpt import Excerpt, read_excerpt
from eca_server.agent.context.limits import Limits
from eca_server.agent.tools.directory_tree import Tree
from eca_server.agent.tools.files import LARGEST, Ledger, checkpoint, printable
from eca_server.agent.tools.output import cut_mark
from eca_server.models.attachments import (
    SIGNATURE_BYTES,
    make_attachment,
    media_type_of,
)
from eca_server.workspace.boundary import Place, Workspace, open_place
from eca_server.workspace.errors import FileError, TooLarge
from eca_server.workspace.ignore import list_files, list_root
from eca_server.workspace.opening import Descent, Directory
from eca_server.workspace.reading import open_file, read_file

_MOST_FILES = 100_000  # of one directory
_OVERHEAD = 64  # bytes charged for each file, for its tags and the time to read it


def draw_tree(paths: Iterable[str], *, limit: int) -> str:
    """Return relative paths, with `/`, as a tree of at most `limit` entries.

    The contents of a directory are shown in full or only by their number; upper directories come
    before lower ones. The top is always shown, up to the limit.
    """
    top = Tree.of(sorted(paths))
    lines = [*_lines(top, "", _shown_in_full(top, limit))]
    if len(lines) > limit:
        lines[limit:] = [f"... cut, {len(lines) - limit} entries left out ..."]
    return "\n".join(lines)


def _shown_in_full(top: Tree, limit: int) -> set[Tree]:
    shown: set[Tree] = set()
    waiting = deque([top])
    while waiting:
        directory = waiting.popleft()
        size = len(directory.below) + len(directory.names)
        if directory is top or size <= limit:
            shown.add(directory)
            limit -= size
            waiting.extend(directory.below.values())
    return shown


def _lines(directory: Tree, indent: str, shown: set[Tree]) -> Iterator[str]:
    for name, below in directory.below.items():
        if below in shown:
            yield f"{indent}{printable(name)}/"
            yield from _lines(below, f"{indent}  ", shown)
        else:
            size = len(below.below) + len(below.names)
            entries = "1 entry" if size == 1 else f"{size} entries"
            yield f"{indent}{printable(name)}/ ({entries} left out)"
    yield from (f"{indent}{printable(name)}" for name in directory.names)


@attrs.frozen(kw_only=True)
class PathReader:
    """A reader of files and directories for prompts.

    Attributes:
        ledger: records the contents of the text files that were read.
        gitignore: leave out the files that Git ignores in directories.
    """

    workspace: Workspace
    limits: Limits
    ledger: Ledger = attrs.field(factory=Ledger)
    gitignore: bool = True

    def read(self, place: Place, lines: LinesRange | None, *, budget: int) -> Content:
        """Read a file, some lines of it, or a directory, in at most `budget` bytes.

        Raises:
            FileError: it cannot be read.
            OSError: it cannot be opened.
        """
        with open_place(place) as directory:
            if directory is not None:
                return self._read_directory(place, directory, budget)
        return self._read_attachment(place) or self._read_text(place, lines, budget)

    def outline(self, root: Root) -> Section:
        """Return the files of a root as a tree.

        Raises:
            FileError: the path leads to a different directory now.
        """
        paths = list_root(
            root.real_path,
            limit=_MOST_FILES,
            gitignore=self.gitignore,
            without=self.workspace.private_below(root.real_path),
            checkpoint=checkpoint,
        )
        drawn = draw_tree(paths, limit=self.limits.tree)
        return Section(name="tree", attributes={"path": str(root.path)}, body=(drawn,))

    def _read_text(self, place: Place, lines: LinesRange | None, budget: int) -> Content:
        attributes = {"path": str(place.path)}
        if lines is not None:
            attributes["lines"] = f"{max(lines.start, 1)}-{max(lines.end, lines.start, 1)}"
        excerpt = self._excerpt(place, min(budget, self.limits.file), lines)
        return Content(
            section=Section(name="file", attributes=attributes, body=(excerpt.marked,)),
            size=len(excerpt.text.encode()),
            left_out=excerpt.left_out,
        )

    def _excerpt(self, place: Place, size: int, lines: LinesRange | None = None) -> Excerpt:
        content = None  # read first: a change in between then counts as one after the reading
        with contextlib.suppress(TooLarge):
            content = read_file(place, limit=LARGEST, checkpoint=checkpoint).fingerprint
        excerpt = read_excerpt(place, size=size, lines=lines, checkpoint=checkpoint)
        if content is not None:
            self.ledger.record(place.real_path, content)
        return excerpt

    def _read_attachment(self, place: Place) -> Content | None:
        with open_file(place) as file:
            media_type = media_type_of(file.read(SIGNATURE_BYTES) or b"")
        if media_type is None:
            return None
        is_picture = media_type.startswith("image/")
        limit = self.limits.picture if is_picture else self.limits.document
        snapshot = read_file(place, limit=limit, checkpoint=checkpoint)
        attributes = {"path": str(place.path), "type": media_type}
        return Content(
            section=Section(name="picture" if is_picture else "document", attributes=attributes),
            attachment=make_attachment(media_type, place.path.name, snapshot.data),
        )

    def _read_directory(self, place: Place, directory: Directory, budget: int) -> Content:
        paths = sorted(self._list(directory))
        if not paths:
            raise FileError("it has no file that is not ignored")
        with Descent(directory) as descent:
            most = min(budget, self.limits.directory)
            texts, size, left_out = self._texts(place, descent, paths, most)
        tree = Section(name="tree", body=(draw_tree(paths, limit=self.limits.tree),))
        section = Section(
            name="directory", attributes={"path": str(place.path)}, body=(*texts, tree)
        )
        return Content(section=section, size=size, left_out=left_out)

    def _texts(
        self, directory: Place, descent: Descent, paths: Sequence[str], budget: int
    ) -> tuple[list[str | Section], int, int]:
        """Return the sections of a directory's files, their size, and the size of the rest.

        The last part marks the files that did not fit.
        """
        parts: list[str | Section] = []
        remaining = budget
        cut = unread = unread_files = 0
        for path in paths:
            checkpoint()
            cost = _OVERHEAD + len(path)
            with contextlib.suppress(FileError, OSError):  # other files are only in the tree
                if remaining <= cost:
                    parent, _, name = path.rpartition("/")
                    status = descent.open(parent).stat(name)
                    unread += 0 if status is None else status.st_size
                    unread_files += 1
                    continue
                remaining -= cost
                place = self.workspace.locate(str(directory.real_path / path))
                if not place.real_path.is_relative_to(directory.real_path):
                    continue
                excerpt = self._excerpt(place, remaining)
                remaining -= len(excerpt.text.encode())
                cut += excerpt.left_out
                attributes = {"path": str(directory.path / path)}
                parts.append(Section(name="file", attributes=attributes, body=(excerpt.marked,)))
        if unread_files:
            parts.append(cut_mark(unread, f"files not read: {unread_files}"))
        return parts, budget - remaining, cut + unread

    def _list(self, directory: Directory) -> Iterator[str]:
        return list_files(
            directory,
            limit=_MOST_FILES,
            gitignore=self.gitignore,
            links=False,
            without=self.workspace.private_below(directory.path),
            checkpoint=checkpoint,
        )


def draw_roots(workspace: Workspace, *, gitignore: bool = True) -> str:
    """Return the files of every root, each as the tree of the context `repoMap`."""
    reader = PathReader(workspace=workspace, limits=Limits(), gitignore=gitignore)
    sections = []
    for root in workspace.roots:
        try:
            sections.append(reader.outline(root))
        except FileError as error:
            where = {"name": str(root.path)}
            sections.append(Section(name="left_out", attributes=where, body=(str(error),)))
    return render(sections)
