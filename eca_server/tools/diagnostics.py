"""`editor_diagnostics`: what the editor's linters and language servers find wrong (ruling W-42).

The rule it keeps: the editor is asked only if it said that it can, and not waited for without
end; an answer that makes no sense is a no. The model sees positions that count from 1, whatever
the editor counts from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from eca_protocol.errors import ConnectionClosed, DeadlineExceeded, DecodeError, RequestFailed
from eca_protocol.messages import (
    EditorDiagnostic,
    EditorGetDiagnosticsParams,
    EditorGetDiagnosticsResponse,
)
from eca_server.llm.history import TextPart
from eca_server.session import Session
from eca_server.tools.files import in_thread
from eca_server.tools.output import Cap, cut_end
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput
from eca_server.workspace import Place, Workspace, path_of, uri_of

__all__ = ["EditorDiagnostics", "editor_has_diagnostics"]


def editor_has_diagnostics(session: Session) -> bool:
    """Whether the client has announced that it answers `editor/getDiagnostics`."""
    assistant = session.capabilities.code_assistant
    editor = assistant.editor if assistant else None
    return bool(editor and editor.diagnostics)


@attrs.frozen(kw_only=True)
class EditorDiagnostics:
    """The tool `editor_diagnostics`; to be offered where `editor_has_diagnostics`.

    Attributes:
        session: the editor that is asked.
        workspace: where a relative path starts.
        timeout: how long the editor may take, in seconds.
        cap: how much of what it says is kept.
    """

    session: Session
    workspace: Workspace
    timeout: float = 30
    cap: Cap = attrs.field(factory=Cap)

    name: ClassVar = "editor_diagnostics"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Ask the user's editor for what its linters and language servers find wrong, in one file "
        "or, without a path, in all of the workspace. Each finding is a line "
        "`file:line:character: severity: [code] message`."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "description": "The file to ask about. Default: all of the workspace.",
            }
        },
    }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Checking diagnostics`, and of what."""
        path = arguments.get("path")
        return f"Checking diagnostics of {path}" if path else "Checking diagnostics"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Look whether the editor can be asked, and about what.

        Raises:
            ToolFault: it cannot, or the path is none.
        """
        if not editor_has_diagnostics(self.session):
            raise ToolFault("This editor has no diagnostics to give.")
        path: str | None = arguments.get("path")
        place: Place | None = None
        if path is not None:
            place = await in_thread(lambda: self.workspace.locate(path))

        async def run() -> ToolOutput:
            uri = None
            if place is not None:
                await in_thread(lambda: self.workspace.ensure_unchanged(place))
                uri = uri_of(place.path)
            return ToolOutput(parts=(TextPart(await self._ask(uri)),))

        return PreparedCall(
            run=run,
            summary=self.summary(arguments),
            places=() if place is None else (place,),
        )

    async def _ask(self, uri: str | None) -> str:
        try:
            answer: EditorGetDiagnosticsResponse = await self.session.request(
                "editor/getDiagnostics",
                EditorGetDiagnosticsParams(uri=uri),
                deadline=self.timeout,
            )
        except (ConnectionClosed, DeadlineExceeded, DecodeError, RequestFailed) as fault:
            raise ToolFault(f"The editor gave no diagnostics: {fault}") from fault
        firsts = self.session.profile.first_position
        lines = [_line(found, *firsts(found.source)) for found in answer.diagnostics]
        return cut_end("\n".join(lines), self.cap) if lines else "No diagnostics."


def _line(found: EditorDiagnostic, line: int, character: int) -> str:
    """One finding; `line` and `character` are the numbers of the first ones."""
    try:
        file = path_of(found.uri)
    except ValueError:
        file = found.uri
    start = found.range.start
    code = "" if found.code in (None, "") else f"[{found.code}] "
    message = " ".join(found.message.split())
    where = f"{file}:{start.line - line + 1}:{start.character - character + 1}"
    return f"{where}: {found.severity}: {code}{message}"
