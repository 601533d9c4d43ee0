"""`write_file`: create a file or replace its whole content."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import attrs

from eca_protocol.messages import FileChangeDetails
from eca_server.agent.tools.diff import file_change
from eca_server.agent.tools.editing import with_newline
from eca_server.agent.tools.files import (
    Files,
    action_summary,
    change_in_thread,
    checkpoint,
    in_thread,
    printable,
    text_in,
)
from eca_server.agent.tools.output import counted
from eca_server.agent.tools.schemas import object_schema, required, string
from eca_server.agent.tools.tool import Effect, FileChange, PreparedCall, ToolError, ToolOutput
from eca_server.workspace.boundary import Place
from eca_server.workspace.errors import NotText
from eca_server.workspace.reading import FileSnapshot, Fingerprint, Text
from eca_server.workspace.writing import missing_parents, replace_file


@attrs.frozen(kw_only=True)
class PlannedWrite:
    """A new content of a file, ready to be written.

    Attributes:
        expected: its current content; None for a new file.
        text: the result for the model.
    """

    files: Files
    place: Place
    expected: Fingerprint | None
    data: bytes = attrs.field(repr=False)
    details: FileChangeDetails
    change: FileChange
    text: str

    def prepared(self, summary: str) -> PreparedCall:
        """Return the call that writes the content."""
        return PreparedCall(
            run=partial(change_in_thread, self._write),
            summary=summary,
            places=(self.place,),
            details=self.details,
            changes=(self.change,),
        )

    def _write(self) -> ToolOutput:
        place = self.place
        after = replace_file(place, self.data, expected=self.expected, checkpoint=checkpoint)
        self.files.ledger.record(place.real_path, after)
        return ToolOutput.of(self.text, details=self.details)


def plan_write(
    files: Files, place: Place, snapshot: FileSnapshot | None, data: bytes, *, old: str, new: str
) -> PlannedWrite:
    """Plan to write a content; `old` and `new` are the texts before and after."""
    details = file_change(printable(place.path), old, new, cap=files.cap, checkpoint=checkpoint)
    added, removed = counted(details.lines_added, "line"), details.lines_removed
    return PlannedWrite(
        files=files,
        place=place,
        expected=None if snapshot is None else snapshot.fingerprint,
        data=data,
        details=details,
        change=FileChange(
            path=place.real_path,
            before=snapshot,
            after=Fingerprint.of(data),
            new_directories=missing_parents(place.real_path),
        ),
        text=f"Created {details.path}: {added}."
        if snapshot is None
        else f"Wrote {details.path}: {added} added, {removed} removed.",
    )


@attrs.frozen(kw_only=True)
class WriteFile:
    """The tool `write_file`; an existing file keeps its line ends, and its encoding if it can."""

    files: Files

    name: ClassVar = "write_file"
    effect: ClassVar[Effect] = "write"
    description: ClassVar = (
        "Create a file with missing parent directories, or replace the whole content of a file. "
        "To change a part of a file, use edit_file."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        path=required(string("The file: absolute, or relative to the first workspace root.")),
        content=required(string("The complete content of the file.")),
    )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Creating file NAME`; only a prepared call knows whether it replaces one."""
        return action_summary("Creating file", arguments)

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Read the current content and compute the change.

        Raises:
            ToolError: the file cannot be written, or has changed since the model read it.
        """
        planned, note = await in_thread(self._plan, arguments["path"], arguments["content"])
        action = "Creating file" if planned.expected is None else "Replacing file"
        return planned.prepared(f"{action_summary(action, arguments)}{note}")

    def _plan(self, path: str, content: str) -> tuple[PlannedWrite, str]:
        """Return the planned write, and a note for the user who approves it."""
        if path.endswith("/"):
            raise ToolError(
                f"path: {path!r} names a directory: expected the path of a file, whose missing "
                "parent directories are created with it."
            )
        place = self.files.workspace.locate(path)
        snapshot = self.files.read(place)
        before = note = ""
        if snapshot is None:
            data = _encoded(content)
        else:
            old = text_in(place, snapshot, " To replace it, move it away first.")
            before = old.text
            content = _like(old, content)
            try:
                data = old.encode(content)
            except NotText:
                data = _encoded(content)
                note = f" (its encoding changes from {old.encoding} to utf-8)"
        planned = plan_write(self.files, place, snapshot, data, old=before, new=content)
        return attrs.evolve(planned, text=f"{planned.text}{note}"), note


def _like(old: Text, content: str) -> str:
    """Return a content with the line ends of the old one, and without its byte order mark."""
    if old.bom:
        content = content.removeprefix("\ufeff")
    return content if "\r" in content else with_newline(content, old.newline)


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise ToolError("content: expected text, got half a surrogate pair.") from None
