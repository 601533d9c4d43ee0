"""`directory_tree`: the files below a directory, in as many levels as fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

import attrs

from eca_server.agent.tools.files import ReadingTool, checkpoint, printable
from eca_server.agent.tools.output import Cap, counted, cut_end, cut_mark
from eca_server.agent.tools.schemas import integer, object_schema, required, string
from eca_server.agent.tools.tool import ToolError, ToolOutput
from eca_server.workspace.boundary import Place, open_place
from eca_server.workspace.ignore import list_files
from eca_server.workspace.opening import Directory

_DEPTH = 10

_FURTHER = "list a subdirectory to see the rest"


@attrs.frozen(kw_only=True)
class DirectoryTree(ReadingTool):
    """The tool `directory_tree`.

    A tree that is too large for one answer loses its deepest levels first: complete upper levels
    are more useful than some complete branches.
    """

    most: int = 50_000  # files listed

    name: ClassVar = "directory_tree"
    description: ClassVar = (
        "List the files and directories below a directory as a tree, indented by one space per "
        "level. Files that Git ignores are left out. A directory that is not expanded shows its "
        "number of files."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        path=required(string("The directory: absolute, or relative to the first workspace root.")),
        max_depth=integer(f"Maximum number of levels to show. Default: {_DEPTH}.", minimum=1),
    )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Listing file tree`."""
        return "Listing file tree"

    def read(self, place: Place, arguments: Mapping[str, Any]) -> ToolOutput:
        """Return the tree."""
        kind = "a file"
        try:
            with open_place(place) as folder:
                if folder is not None:
                    return self._listed(place, folder, arguments.get("max_depth", _DEPTH))
        except (FileNotFoundError, NotADirectoryError):
            kind = "nothing"
        raise ToolError(f"Expected a directory, got {kind}: {str(place.path)!r}.")

    def _listed(self, place: Place, folder: Directory, depth: int) -> ToolOutput:
        gitignore = self.files.leaves_out_ignored(folder)
        listed = list_files(
            folder,
            limit=self.most + 1,
            gitignore=gitignore,
            without=self.files.workspace.private_below(place.real_path),
            checkpoint=checkpoint,
        )
        names = list(listed)
        tree = Tree.of(names[: self.most])
        folders = "1 directory" if tree.directories == 1 else f"{tree.directories:,} directories"
        notes = [f"{folders}, {counted(tree.count, 'file')}"]
        if len(names) > self.most:
            notes.append(f"only the first {self.most} files were listed; {_FURTHER}")
        if names and self.files.gitignore and not gitignore:
            notes.append("Git ignores all of them")
        lines = [f"{printable(place.path)}/", *tree.fitting(depth, self.files.cap)]
        return ToolOutput.of("\n".join([*lines, "", "; ".join(notes)]))


@attrs.define(eq=False)
class Tree:
    """A directory of a tree of files.

    Attributes:
        below: its directories, by name.
        names: the names of its files.
        count: the number of files below it, its own included.
        directories: the number of directories below it.
    """

    below: dict[str, Tree] = attrs.field(factory=dict)
    names: list[str] = attrs.field(factory=list)
    count: int = 0
    directories: int = 0

    @classmethod
    def of(cls, paths: Iterable[str]) -> Self:
        """Build the tree of relative paths, with `/`; names are in the order of the paths."""
        top = cls()
        for path in paths:
            *parents, name = path.split("/")
            parents_of_file: list[Tree] = [top]
            for parent in parents:
                at = parents_of_file[-1].below.get(parent)
                if at is None:
                    at = parents_of_file[-1].below[parent] = Tree()
                    for above in parents_of_file:
                        above.directories += 1
                parents_of_file.append(at)
            for each in parents_of_file:
                each.count += 1
            parents_of_file[-1].names.append(name)
        return top

    def fitting(self, depth: int, cap: Cap) -> Iterator[str]:
        """Yield the lines of as many levels as fit the cap, at least one; then the mark."""
        whole = "\n".join(self._lines(depth))
        for levels in range(min(depth, self._height()), 0, -1):
            checkpoint()
            shown = "\n".join(self._lines(levels))
            if shown == cut_end(shown, cap):
                break
        text = cut_end(shown, cap, hint=_FURTHER)
        if text:
            yield text
        left_out = len(whole.encode()) - len(shown.encode())
        if left_out > 0 and text == shown:
            yield cut_mark(left_out, f"only {levels} levels are shown; {_FURTHER}")

    def _height(self) -> int:
        return 1 + max((each._height() for each in self.below.values()), default=0)

    def _lines(self, depth: int, indent: str = " ") -> Iterator[str]:
        for name, each in sorted(self.below.items()):
            if depth > 1:
                yield f"{indent}{printable(name)}/"
                yield from each._lines(depth - 1, f"{indent} ")
            else:
                yield f"{indent}{printable(name)}/ ({counted(each.count, 'file')})"
        for name in sorted(self.names):
            yield indent + printable(name)
