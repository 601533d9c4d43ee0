"""`directory_tree`: what lies below a directory, as far down as it fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

import attrs

from eca_server.llm.history import TextPart
from eca_server.tools.files import Files, checkpoint, in_thread, printable
from eca_server.tools.output import Cap, counted, cut_end, cut_mark
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput
from eca_server.workspace import Directory, Place, list_files, open_place

__all__ = ["DirectoryTree"]

_DEPTH = 10
_MOST = 50_000  # files listed

_FURTHER = "give a path further down to see the rest"


@attrs.frozen(kw_only=True)
class DirectoryTree:
    """The tool `directory_tree`.

    A tree too large for one answer loses its deepest levels first: all of its upper ones are
    worth more than some branches whole.
    """

    files: Files

    name: ClassVar = "directory_tree"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "List the files and directories below a directory as a tree, indented by one space for "
        "each level, without what Git ignores. A directory that is not opened says how many "
        "files it holds."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "description": "The directory: absolute, or relative to the first workspace root.",
            },
            "max_depth": {
                "type": "integer",
                "minimum": 1,
                "description": f"How many levels are shown at most. Default: {_DEPTH}.",
            },
        },
        "required": ["path"],
    }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Listing file tree`, whatever the arguments."""
        return "Listing file tree"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Find out where the path leads.

        Raises:
            ToolFault: it is no path.
        """
        path: str = arguments["path"]
        place = await in_thread(lambda: self.files.workspace.locate(path))
        depth: int = arguments.get("max_depth", _DEPTH)

        async def run() -> ToolOutput:
            return await in_thread(lambda: self._opened(place, depth))

        return PreparedCall(run=run, summary=self.summary(arguments), places=(place,))

    def _opened(self, place: Place, depth: int) -> ToolOutput:
        what = "a file"
        try:
            with open_place(place) as folder:
                if folder is not None:
                    return self._listed(place, folder, depth)
        except (FileNotFoundError, NotADirectoryError):
            what = "nothing"
        raise ToolFault(f"Expected a directory, got {what}: {str(place.path)!r}.")

    def _listed(self, place: Place, folder: Directory, depth: int) -> ToolOutput:
        gitignore = self.files.leaves_out_ignored(folder)
        names = list(
            list_files(folder, limit=_MOST + 1, gitignore=gitignore, checkpoint=checkpoint)
        )
        tree = _Directory.of(names[:_MOST])
        folders = "1 directory" if tree.directories == 1 else f"{tree.directories:,} directories"
        notes = [f"{folders}, {counted(tree.count, 'file')}"]
        if len(names) > _MOST:
            notes.append(f"only the first {_MOST} files were listed; {_FURTHER}")
        if names and self.files.gitignore and not gitignore:
            notes.append("Git ignores all of them")
        lines = [f"{printable(place.path)}/", *tree.fitting(depth, self.files.cap)]
        return ToolOutput(parts=(TextPart("\n".join([*lines, "", "; ".join(notes)])),))


@attrs.define
class _Directory:
    """A directory of the tree.

    Attributes:
        below: the directories in it.
        names: the files in it.
        count: how many files are in it, at any depth.
        directories: how many directories are in it, at any depth.
    """

    below: dict[str, _Directory] = attrs.field(factory=dict)
    names: list[str] = attrs.field(factory=list)
    count: int = 0
    directories: int = 0

    @classmethod
    def of(cls, paths: Iterable[str]) -> Self:
        """The directories that these files are in; `/` stands between the names."""
        top = cls()
        for path in paths:
            *parents, name = path.split("/")
            way: list[_Directory] = [top]
            for parent in parents:
                at = way[-1].below.get(parent)
                if at is None:
                    at = way[-1].below[parent] = _Directory()
                    for above in way:
                        above.directories += 1
                way.append(at)
            for each in way:
                each.count += 1
            way[-1].names.append(name)
        return top

    def fitting(self, depth: int, cap: Cap) -> Iterator[str]:
        """The lines of as many levels as fit the cap, but one at least; then what was cut."""
        whole = "\n".join(self._lines(depth))
        for levels in range(min(depth, self._height()), 0, -1):
            checkpoint()
            shown = "\n".join(self._lines(levels))
            if shown == cut_end(shown, cap):
                break
        kept = cut_end(shown, cap, hint=_FURTHER)
        if kept:
            yield kept
        left_out = len(whole.encode()) - len(shown.encode())
        if left_out > 0 and kept == shown:
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
