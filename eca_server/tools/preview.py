"""`preview_file_change`: what an edit would do, shown and not done; for planning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from eca_protocol.messages import FileChangeDetails
from eca_server.llm.history import TextPart
from eca_server.tools.diff import file_change
from eca_server.tools.edit_file import PARAMETERS, Wanted, look
from eca_server.tools.files import Files, checkpoint, in_thread, printable
from eca_server.tools.output import counted
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput
from eca_server.workspace import Place

__all__ = ["PreviewFileChange"]


@attrs.frozen(kw_only=True)
class PreviewFileChange:
    """The tool `preview_file_change`; it never writes."""

    files: Files

    name: ClassVar = "preview_file_change"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Show the user what a change of a file would be, without doing it. Arguments are those "
        "of edit_file; for a file that does not exist yet original_content is empty."
    )
    parameters: ClassVar[Mapping[str, Any]] = PARAMETERS

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Previewing change`, whatever the arguments."""
        return "Previewing change"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Look at what would change.

        Raises:
            ToolFault: the edit could not be done.
        """
        wanted = Wanted.of(arguments)
        place, details = await in_thread(lambda: self._look(wanted))

        async def run() -> ToolOutput:
            return ToolOutput(
                parts=(TextPart(f"{_words(details)}\n{details.diff}"),), details=details
            )

        return PreparedCall(
            run=run, summary=self.summary(arguments), places=(place,), details=details
        )

    def _look(self, wanted: Wanted) -> tuple[Place, FileChangeDetails]:
        place = self.files.workspace.locate(wanted.path)
        if self.files.read(place) is not None:
            looked_at = look(self.files, wanted)
            return looked_at.place, looked_at.details
        if wanted.original:
            raise ToolFault(
                f"There is no file {str(place.path)!r}: for a new one original_content is empty."
            )
        return place, file_change(
            printable(place.path), "", wanted.new, cap=self.files.cap, checkpoint=checkpoint
        )


def _words(details: FileChangeDetails) -> str:
    return (
        f"Nothing was written. In {details.path} {counted(details.lines_added, 'line')} would be "
        f"added, {details.lines_removed} removed:"
    )
