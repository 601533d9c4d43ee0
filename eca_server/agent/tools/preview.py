"""`preview_file_change`: show an edit without applying it, for planning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from eca_protocol.messages import FileChangeDetails
from eca_server.agent.tools.diff import file_change
from eca_server.agent.tools.edit_file import PARAMETERS, EditRequest, plan_edit
from eca_server.agent.tools.files import Files, checkpoint, in_thread, printable
from eca_server.agent.tools.output import counted
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.workspace.boundary import Place


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
        request = EditRequest.of(arguments)
        place, details = await in_thread(self._plan, request)

        async def run() -> ToolOutput:
            return ToolOutput.of(f"{_headline(details)}\n{details.diff}", details=details)

        return PreparedCall(
            run=run, summary=self.summary(arguments), places=(place,), details=details
        )

    def _plan(self, request: EditRequest) -> tuple[Place, FileChangeDetails]:
        place = self.files.workspace.locate(request.path)
        if self.files.read(place) is not None:
            planned = plan_edit(self.files, request)
            return planned.place, planned.details
        if request.original:
            raise ToolError(
                f"The file {str(place.path)!r} does not exist. To preview a new file, leave "
                "original_content empty."
            )
        return place, file_change(
            printable(place.path), "", request.new, cap=self.files.cap, checkpoint=checkpoint
        )


def _headline(details: FileChangeDetails) -> str:
    return (
        f"Nothing was written. In {details.path} {counted(details.lines_added, 'line')} would be "
        f"added, {details.lines_removed} removed:"
    )
