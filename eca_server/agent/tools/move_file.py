"""`move_file`: move or rename a file or a directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import attrs

from eca_server.agent.tools.files import (
    LARGEST,
    Files,
    change_in_thread,
    checkpoint,
    in_thread,
    printable,
    short_name,
)
from eca_server.agent.tools.schemas import object_schema, required, string
from eca_server.agent.tools.tool import Effect, FileChange, PreparedCall, ToolError, ToolOutput
from eca_server.workspace.boundary import Place
from eca_server.workspace.errors import FileError
from eca_server.workspace.reading import read_file
from eca_server.workspace.writing import missing_parents, move_file


@attrs.frozen(kw_only=True)
class MoveFile:
    """The tool `move_file`; it never overwrites a file."""

    files: Files

    name: ClassVar = "move_file"
    effect: ClassVar[Effect] = "write"
    description: ClassVar = (
        "Move or rename a file or a directory. The destination is the complete new path and must "
        "not exist. Missing parent directories are created."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        source=required(string("The source: absolute, or relative to the first workspace root.")),
        destination=required(string("The complete new path.")),
    )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Moving NAME to NAME`, or to a path if the directory changes."""
        source, destination = arguments.get("source"), arguments.get("destination")
        if not isinstance(source, str) or not isinstance(destination, str):
            return "Moving file"
        old, new = Path(source), Path(destination)
        target = new.name if new.parent == old.parent else destination
        return f"Moving {short_name(old.name)} to {short_name(target)}"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Check that the source exists and the destination does not.

        Raises:
            ToolError: it cannot be moved.
        """
        source, destination, change = await in_thread(
            self._look, arguments["source"], arguments["destination"]
        )
        return PreparedCall(
            run=partial(change_in_thread, self._move, source, destination),
            summary=self.summary(arguments),
            places=(source, destination),
            changes=(change,),
        )

    def _look(self, source_text: str, destination_text: str) -> tuple[Place, Place, FileChange]:
        """Return both places, and the change, which identifies a file unless it is large."""
        workspace = self.files.workspace
        source, destination = workspace.locate(source_text), workspace.locate(destination_text)
        if not os.path.lexists(source.path):
            raise ToolError(f"source: {str(source.path)!r} does not exist.")
        if any(root.real_path.is_relative_to(source.real_path) for root in workspace.roots):
            raise ToolError(
                f"source: {str(source.path)!r} is an open folder, or contains one: it cannot be "
                "moved."
            )
        if destination_text.endswith("/") and not source.path.is_dir():
            raise ToolError(
                f"destination: {destination_text!r} names a directory: expected the complete new "
                "path of the file."
            )
        if os.path.lexists(destination.path):
            raise ToolError(
                f"destination: {str(destination.path)!r} already exists. Choose a different path."
            )
        content = None
        with suppress(FileError, OSError):
            content = read_file(source, limit=LARGEST, checkpoint=checkpoint).fingerprint
        change = FileChange(
            path=destination.real_path,
            moved_from=source.real_path,
            after=content,
            new_directories=missing_parents(destination.real_path),
        )
        return source, destination, change

    def _move(self, source: Place, destination: Place) -> ToolOutput:
        move_file(source, destination, checkpoint=checkpoint)
        self.files.ledger.record_move(source.real_path, destination.real_path)
        return ToolOutput.of(f"Moved {printable(source.path)} to {printable(destination.path)}.")
