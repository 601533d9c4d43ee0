"""`edit_file`: replace a passage of a file; `preview_file_change`: show that without writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from eca_protocol.messages import FileChangeDetails
from eca_server.agent.tools.diff import file_change
from eca_server.agent.tools.editing import edit
from eca_server.agent.tools.files import (
    Files,
    action_summary,
    checkpoint,
    in_thread,
    printable,
    text_in,
)
from eca_server.agent.tools.output import counted
from eca_server.agent.tools.schemas import boolean, object_schema, required, string
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.agent.tools.write_file import PlannedWrite, plan_write
from eca_server.workspace.boundary import Place

PARAMETERS: Mapping[str, Any] = object_schema(
    path=required(string("The file: absolute, or relative to the first workspace root.")),
    original_content=required(
        string(
            "The text to replace, exactly as in the file. Must match exactly once "
            "unless `all_occurrences` is true."
        )
    ),
    new_content=required(string("The replacement text.")),
    all_occurrences=boolean("Replace every occurrence. Default: false."),
)


def plan_edit(files: Files, arguments: Mapping[str, Any]) -> PlannedWrite:
    """Compute an edit with arguments that match `PARAMETERS`; call it in a worker thread.

    Raises:
        ToolError: it cannot be applied, or the file has changed since the model read it.
    """
    place = files.workspace.locate(arguments["path"])
    snapshot = files.read(place)
    if snapshot is None:
        raise ToolError(f"The file {str(place.path)!r} does not exist. Create it with write_file.")
    text = text_in(place, snapshot)
    try:
        edited = edit(
            text,
            arguments["original_content"],
            arguments["new_content"],
            all_occurrences=arguments.get("all_occurrences", False),
            checkpoint=checkpoint,
        )
    except ToolError:
        if place.is_inside or files.ledger.known_content(place.real_path) is not None:
            raise
        raise ToolError(  # before approval, nothing of the content may be revealed
            f"original_content does not match {str(place.path)!r}: read that file first."
        ) from None
    data = text.encode(edited.text)
    planned = plan_write(files, place, snapshot, data, old=text.text, new=edited.text)
    details = planned.details
    report = (
        f"Edited {details.path}: {counted(details.lines_added, 'line')} added, "
        f"{details.lines_removed} removed."
    )
    if edited.count > 1:
        report += f" {edited.count} occurrences were replaced."
    if not edited.exact:
        report += " The match differs from original_content in whitespace."
    return attrs.evolve(planned, text=report)


@attrs.frozen(kw_only=True)
class EditFile:
    """The tool `edit_file`; the rest of the file stays unchanged, byte for byte."""

    files: Files

    name: ClassVar = "edit_file"
    effect: ClassVar[Effect] = "write"
    description: ClassVar = (
        "Replace a text in a file. original_content must match exactly once unless all_occurrences "
        "is true: include enough surrounding lines to make it unique. Differences in leading and "
        "trailing whitespace of lines are tolerated if the match is unambiguous."
    )
    parameters: ClassVar[Mapping[str, Any]] = PARAMETERS

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Editing file NAME`."""
        return action_summary("Editing file", arguments)

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Find the passage and compute the change.

        Raises:
            ToolError: the passage is missing or ambiguous, or the file cannot be changed.
        """
        planned = await in_thread(plan_edit, self.files, arguments)
        return planned.prepared(self.summary(arguments))


@attrs.frozen(kw_only=True)
class PreviewFileChange:
    """The tool `preview_file_change`; it never writes."""

    files: Files

    name: ClassVar = "preview_file_change"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Show the user a change of a file without applying it. The parameters are those of "
        "edit_file. For a new file, leave original_content empty."
    )
    parameters: ClassVar[Mapping[str, Any]] = PARAMETERS

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Previewing change`."""
        return "Previewing change"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Compute the change.

        Raises:
            ToolError: the edit cannot be applied.
        """
        place, details = await in_thread(self._plan, arguments)

        async def run() -> ToolOutput:
            return ToolOutput.of(f"{_headline(details)}\n{details.diff}", details=details)

        return PreparedCall(
            run=run, summary=self.summary(arguments), places=(place,), details=details
        )

    def _plan(self, arguments: Mapping[str, Any]) -> tuple[Place, FileChangeDetails]:
        place = self.files.workspace.locate(arguments["path"])
        if self.files.read(place) is not None:
            planned = plan_edit(self.files, arguments)
            return planned.place, planned.details
        if arguments["original_content"]:
            raise ToolError(
                f"The file {str(place.path)!r} does not exist. To preview a new file, leave "
                "original_content empty."
            )
        path, new = printable(place.path), arguments["new_content"]
        return place, file_change(path, "", new, cap=self.files.cap, checkpoint=checkpoint)


def _headline(details: FileChangeDetails) -> str:
    return (
        f"Nothing was written. In {details.path} {counted(details.lines_added, 'line')} would be "
        f"added, {details.lines_removed} removed:"
    )
