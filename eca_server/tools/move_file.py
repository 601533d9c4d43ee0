"""`move_file`: a file or a directory under another name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs

from eca_server.llm.history import TextPart
from eca_server.tools.files import Files, checkpoint, in_thread, printable, short_name
from eca_server.tools.tool import Effect, FileChange, PreparedCall, ToolFault, ToolOutput
from eca_server.workspace import Place, move_file

__all__ = ["MoveFile"]


@attrs.frozen(kw_only=True)
class MoveFile:
    """The tool `move_file`; it never replaces anything."""

    files: Files

    name: ClassVar = "move_file"
    effect: ClassVar[Effect] = "write"
    description: ClassVar = (
        "Move or rename a file or a directory. The destination is the whole new path, and "
        "nothing may be there; directories it needs are created."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "source": {
                "type": "string",
                "description": "What to move: absolute, or relative to the first workspace root.",
            },
            "destination": {"type": "string", "description": "Its whole new path."},
        },
        "required": ["source", "destination"],
    }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Moving NAME to NAME`, or to a path where the directory changes."""
        source, destination = arguments.get("source"), arguments.get("destination")
        if not isinstance(source, str) or not isinstance(destination, str):
            return "Moving file"
        old, new = Path(source), Path(destination)
        goes_to = new.name if new.parent == old.parent else destination
        return f"Moving {short_name(old.name)} to {short_name(goes_to)}"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Look whether there is something to move, and whether the new name is free.

        Raises:
            ToolFault: it cannot be moved.
        """
        paths: tuple[str, str] = (arguments["source"], arguments["destination"])
        source, destination = await in_thread(lambda: self._look(*paths))

        async def run() -> ToolOutput:
            return await in_thread(lambda: self._move(source, destination))

        change = FileChange(path=destination.real_path, moved_from=source.real_path)
        return PreparedCall(
            run=run,
            summary=self.summary(arguments),
            places=(source, destination),
            changes=(change,),
        )

    def _look(self, source_text: str, destination_text: str) -> tuple[Place, Place]:
        source = self.files.workspace.locate(source_text)
        destination = self.files.workspace.locate(destination_text)
        if not os.path.lexists(source.path):
            raise ToolFault(f"There is nothing to move: {str(source.path)!r} does not exist.")
        if os.path.lexists(destination.path):
            raise ToolFault(f"{str(destination.path)!r} already exists.")
        return source, destination

    def _move(self, source: Place, destination: Place) -> ToolOutput:
        move_file(source, destination, checkpoint=checkpoint)
        self.files.ledger.moved(source.real_path, destination.real_path)
        words = f"Moved {printable(source.path)} to {printable(destination.path)}."
        return ToolOutput(parts=(TextPart(words),))
