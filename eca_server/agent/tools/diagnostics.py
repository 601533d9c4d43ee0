"""`editor_diagnostics`: the diagnostics of the editor's linters and language servers (W-42).

The rules of this module: the request is sent only to an editor with the capability, with a
deadline; an invalid answer is an error. The model sees positions that count from 1, whatever the
editor counts from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from eca_protocol.messages import (
    EditorDiagnostic,
    EditorGetDiagnosticsParams,
    EditorGetDiagnosticsResponse,
)
from eca_protocol.server.roots import path_of, uri_of
from eca_server.agent.tools.files import in_thread
from eca_server.agent.tools.output import Cap, cut_end
from eca_server.agent.tools.schemas import object_schema, string
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.client.session import REQUEST_ERRORS, Session
from eca_server.workspace.boundary import Place, Workspace


def editor_has_diagnostics(session: Session) -> bool:
    """Return True if the client supports `editor/getDiagnostics`."""
    assistant = session.capabilities.code_assistant
    editor = assistant.editor if assistant else None
    return bool(editor and editor.diagnostics)


@attrs.frozen(kw_only=True)
class EditorDiagnostics:
    """The tool `editor_diagnostics`; offered only if `editor_has_diagnostics`.

    Attributes:
        timeout: the deadline of the editor, in seconds.
    """

    session: Session
    workspace: Workspace
    timeout: float = 30
    cap: Cap = attrs.field(factory=Cap)

    name: ClassVar = "editor_diagnostics"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Get the diagnostics of the linters and language servers of the user's editor for a file, "
        "or without a path for the whole workspace. Each diagnostic is a line "
        "`file:line:character: severity: [code] message`."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        path=string("The file to check. Default: the whole workspace.")
    )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Checking diagnostics of PATH`."""
        path = arguments.get("path")
        return f"Checking diagnostics of {path}" if path else "Checking diagnostics"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Resolve the path.

        Raises:
            ToolError: the editor has no diagnostics, or the path is invalid.
        """
        if not editor_has_diagnostics(self.session):
            raise ToolError("This editor does not support diagnostics. Run a linter instead.")
        path: str | None = arguments.get("path")
        place: Place | None = None
        if path is not None:
            place = await in_thread(lambda: self.workspace.locate(path))

        async def run() -> ToolOutput:
            uri = None
            if place is not None:
                await in_thread(lambda: self.workspace.ensure_unchanged(place))
                uri = uri_of(place.path)
            return ToolOutput.of(await self._ask(uri))

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
        except REQUEST_ERRORS as error:
            raise ToolError(f"Could not get the diagnostics from the editor: {error}") from error
        firsts = self.session.profile.first_position
        lines = [_line(each, *firsts(each.source)) for each in answer.diagnostics]
        return cut_end("\n".join(lines), self.cap) if lines else "No diagnostics."


def _line(diagnostic: EditorDiagnostic, line: int, character: int) -> str:
    """Return one diagnostic; `line` and `character` are the numbers that the editor counts from."""
    try:
        file = path_of(diagnostic.uri)
    except ValueError:
        file = diagnostic.uri
    start = diagnostic.range.start
    code = "" if diagnostic.code in (None, "") else f"[{diagnostic.code}] "
    message = " ".join(diagnostic.message.split())
    where = f"{file}:{start.line - line + 1}:{start.character - character + 1}"
    return f"{where}: {diagnostic.severity}: {code}{message}"
