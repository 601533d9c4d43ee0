"""`edit_file`: one passage of a file replaced by another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from eca_protocol.messages import FileChangeDetails
from eca_server.llm.history import TextPart
from eca_server.tools.diff import file_change
from eca_server.tools.editing import Edited, edit
from eca_server.tools.files import Files, checkpoint, in_thread, naming, printable
from eca_server.tools.output import counted
from eca_server.tools.tool import Effect, FileChange, PreparedCall, ToolFault, ToolOutput
from eca_server.workspace import (
    Fingerprint,
    NotText,
    Place,
    decode,
    replace_file,
)

__all__ = ["PARAMETERS", "EditFile", "LookedAt", "Wanted", "look"]

PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "description": "The file: absolute, or relative to the first workspace root.",
        },
        "original_content": {
            "type": "string",
            "description": "The text to replace, as it stands in the file; unique in it.",
        },
        "new_content": {"type": "string", "description": "What stands there afterwards."},
        "all_occurrences": {
            "type": "boolean",
            "description": "Replace the text wherever it stands. Default: false.",
        },
    },
    "required": ["path", "original_content", "new_content"],
}


@attrs.frozen(kw_only=True)
class Wanted:
    """A replacement as the model asks for it."""

    path: str
    original: str
    new: str
    all_occurrences: bool

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Wanted:
        """What a call asks for; its arguments fit `PARAMETERS`."""
        return cls(
            path=arguments["path"],
            original=arguments["original_content"],
            new=arguments["new_content"],
            all_occurrences=arguments.get("all_occurrences", False),
        )


@attrs.frozen(kw_only=True)
class LookedAt:
    """An edit that could be done.

    Attributes:
        place: the file.
        expected: its content now.
        data: its content afterwards.
        edited: the same as text.
        details: what changes, for people.
        change: what changes, for whoever undoes it.
    """

    place: Place
    expected: Fingerprint
    data: bytes = attrs.field(repr=False)
    edited: Edited = attrs.field(repr=False)
    details: FileChangeDetails
    change: FileChange


def look(files: Files, wanted: Wanted) -> LookedAt:
    """What an edit would do. For a thread.

    Raises:
        ToolFault: it cannot be done, or the file has changed since the model read it.
    """
    place = files.workspace.locate(wanted.path)
    snapshot = files.read(place)
    if snapshot is None:
        raise ToolFault(f"There is no file {str(place.path)!r}; write_file creates one.")
    try:
        text = decode(snapshot.data)
    except NotText as fault:
        raise ToolFault(f"Expected a text file, {fault}: {str(place.path)!r}.") from fault
    try:
        edited = edit(
            text,
            wanted.original,
            wanted.new,
            all_occurrences=wanted.all_occurrences,
            checkpoint=checkpoint,
        )
    except ToolFault:
        if place.is_inside or files.ledger.last_seen(place.real_path) is not None:
            raise
        raise ToolFault(  # the user has not been asked yet, so nothing is told of what it holds
            f"original_content is not what stands in {str(place.path)!r}: read that file first."
        ) from None
    data = text.encode(edited.text)
    details = file_change(
        printable(place.path), text.text, edited.text, cap=files.cap, checkpoint=checkpoint
    )
    change = FileChange(path=place.real_path, before=snapshot, after=Fingerprint.of(data))
    return LookedAt(
        place=place,
        expected=snapshot.fingerprint,
        data=data,
        edited=edited,
        details=details,
        change=change,
    )


@attrs.frozen(kw_only=True)
class EditFile:
    """The tool `edit_file`; the rest of the file stays as it is, byte for byte."""

    files: Files

    name: ClassVar = "edit_file"
    effect: ClassVar[Effect] = "write"
    description: ClassVar = (
        "Replace a text in a file by another one. It must stand in the file once, unless "
        "all_occurrences is set: give enough lines around it. Differences in blanks at the ends "
        "and beginnings of lines are forgiven where the place is clear all the same."
    )
    parameters: ClassVar[Mapping[str, Any]] = PARAMETERS

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Editing file NAME`."""
        return naming("Editing file", arguments)

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Look for the passage, and at what would change.

        Raises:
            ToolFault: it is not there, or not clear which one is meant, or the file cannot be
                changed.
        """
        wanted = Wanted.of(arguments)
        looked_at = await in_thread(lambda: look(self.files, wanted))

        async def run() -> ToolOutput:
            return await in_thread(lambda: self._write(looked_at))

        return PreparedCall(
            run=run,
            summary=self.summary(arguments),
            places=(looked_at.place,),
            details=looked_at.details,
            changes=(looked_at.change,),
        )

    def _write(self, looked_at: LookedAt) -> ToolOutput:
        place, edited = looked_at.place, looked_at.edited
        after = replace_file(
            place, looked_at.data, expected=looked_at.expected, checkpoint=checkpoint
        )
        self.files.ledger.saw(place.real_path, after)
        details = looked_at.details
        words = (
            f"Edited {details.path}: {counted(details.lines_added, 'line')} added, "
            f"{details.lines_removed} removed."
        )
        if edited.count > 1:
            words += f" {edited.count} places were changed."
        if not edited.exact:
            words += " The text was found with other blanks than given."
        return ToolOutput(parts=(TextPart(words),), details=details)
