"""The tools that ask the user's editor: diagnostics, definitions and references.

The rules of this module: the request is sent only to an editor with the capability, with a
deadline; an invalid answer is an error (ruling W-42). The model sees lines and characters that
count from 1. So do those of definitions and references in the editor's answer, where characters
are UTF-16 units; diagnostics count as the editor does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeAlias

import attrs
import trio

from eca_protocol import messages as m
from eca_protocol.server.roots import path_of, uri_of
from eca_server.agent.tools.files import LARGEST, checkpoint, in_thread, printable
from eca_server.agent.tools.output import Cap, cut_end
from eca_server.agent.tools.schemas import boolean, integer, object_schema, required, string
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.client.session import REQUEST_ERRORS, Session
from eca_server.workspace.boundary import Place, Workspace
from eca_server.workspace.errors import FileError
from eca_server.workspace.reading import decode, read_file

Answer: TypeAlias = m.EditorGetDefinitionResponse | m.EditorGetReferencesResponse

MOST_PLACES = 500
PAUSE = 1.0
"""Seconds between two requests while the editor's language server is starting."""
_LINE_END = re.compile(r"\r\n|\n|\r")
_LONGEST_LINE = 200
_LARGEST_SHOWN = 1024 * 1024  # bytes of a file of which lines are shown
_NO = {
    "starting": "its language server is still starting: try again later",
    "no-server": "no language server handles this file: search with grep instead",
}
_WHERE: Mapping[str, Any] = {
    "path": required(string("The file that contains the symbol.")),
    "line": required(integer("The line that contains the symbol, counted from 1.", minimum=1)),
    "symbol": required(string("The symbol, exactly as written in that line.")),
    "character": integer(
        "Start the search at this character of the line, counted from 1. Use it if "
        "the line contains the symbol more than once.",
        minimum=1,
    ),
}


def editor_answers(session: Session, request: str) -> bool:
    """Return True if the client supports a request, in an edition that has it.

    `request`: `diagnostics`, `definition` or `references`.
    """
    assistant = session.capabilities.code_assistant
    editor = assistant.editor if assistant else None
    return bool(editor and getattr(editor, request)) and session.writes(
        m.EditorCapabilities, request
    )


@attrs.frozen(kw_only=True)
class _EditorTool:
    """The common base of the tools; each is offered only if `editor_answers`.

    Attributes:
        timeout: the deadline of the editor, in seconds.
    """

    session: Session
    workspace: Workspace
    timeout: float = 30
    cap: Cap = attrs.field(factory=Cap)

    effect: ClassVar[Effect] = "read"


class _Navigation(_EditorTool):
    """The tools that find a symbol.

    Attributes:
        of: the results, as the summary names them.
        method: the request to the editor, whose params are `params`.
    """

    of: ClassVar[str]
    method: ClassVar[str]
    params: ClassVar[type[m.EditorGetDefinitionParams | m.EditorGetReferencesParams]]

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Looking for the definition of SYMBOL`, or the uses."""
        symbol = arguments.get("symbol")
        name = printable(symbol)[:60] if isinstance(symbol, str) else "a symbol"
        return f"Looking for {self.of} of {name}"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Resolve the path; the file is read only when the call runs.

        Raises:
            ToolError: the path is invalid.
        """
        path: str = arguments["path"]
        place = await in_thread(lambda: self.workspace.locate(path))

        def look() -> m.Position:
            snapshot = read_file(place, limit=LARGEST, checkpoint=checkpoint)
            self.workspace.ensure_unchanged(place)
            return _position(decode(snapshot.data).text, arguments)

        async def run() -> ToolOutput:
            position = await in_thread(look)
            try:
                answer = await self._answer(uri_of(place.path), position, arguments)
            except REQUEST_ERRORS as error:
                raise ToolError(f"Could not ask the editor: {error}") from error
            if answer.status != "success":
                reason = answer.message or _NO.get(answer.status, "it gave no reason")
                raise ToolError(f"The editor could not answer: {reason}")
            text = await in_thread(lambda: self._shown(answer.locations or ()))
            return ToolOutput.of(cut_end(text, self.cap) or "No location found.")

        return PreparedCall(run=run, summary=self.summary(arguments), places=(place,))

    async def _answer(self, uri: str, position: m.Position, arguments: Mapping[str, Any]) -> Answer:
        """Return the editor's answer; repeat the request while its language server starts."""
        end = trio.current_time() + self.timeout
        options = {key: arguments[key] for key in ("include_declaration",) if key in arguments}
        params = self.params(uri=uri, position=position, **options)
        while True:
            remaining = end - trio.current_time()
            answer: Answer = await self.session.request(self.method, params, deadline=remaining)
            if answer.status != "starting" or end - trio.current_time() <= PAUSE:
                return answer
            await trio.sleep(PAUSE)

    def _shown(self, locations: Iterable[m.EditorLocation]) -> str:
        """Return a line for each location, with its source line if it is in the workspace."""
        files: dict[str, list[str]] = {}
        shown = []
        for location in list(locations)[:MOST_PLACES]:
            start = location.range.start
            if location.uri not in files:
                files[location.uri] = self._lines(location.uri)
            lines = files[location.uri]
            source = lines[start.line - 1].strip() if 0 < start.line <= len(lines) else ""
            where = f"{_name(location.uri)}:{start.line}:{start.character}"
            shown.append(f"{where}: {source[:_LONGEST_LINE]}" if source else where)
        return "\n".join(shown)

    def _lines(self, uri: str) -> list[str]:
        try:
            place = self.workspace.locate(path_of(uri))
            if not place.is_inside:
                return []
            data = read_file(place, limit=_LARGEST_SHOWN, checkpoint=checkpoint).data
            return _LINE_END.split(decode(data).text)
        except (FileError, OSError, ValueError):
            return []


class EditorDefinition(_Navigation):
    """The tool `editor_definition`."""

    name: ClassVar = "editor_definition"
    of: ClassVar = "the definition"
    method: ClassVar = "editor/getDefinition"
    params: ClassVar = m.EditorGetDefinitionParams
    description: ClassVar = (
        "Find the definition of a symbol with the language server of the user's editor. Each "
        "location is a line `file:line:character: source line`. More precise than a text search."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(**_WHERE)


class EditorReferences(_Navigation):
    """The tool `editor_references`."""

    name: ClassVar = "editor_references"
    of: ClassVar = "the uses"
    method: ClassVar = "editor/getReferences"
    params: ClassVar = m.EditorGetReferencesParams
    description: ClassVar = (
        "Find the uses of a symbol in the whole workspace with the language server of the user's "
        "editor. Each location is a line `file:line:character: source line`. More precise than a "
        "text search."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        **_WHERE,
        include_declaration=boolean("Include the declaration of the symbol. Default: true."),
    )


def _position(text: str, arguments: Mapping[str, Any]) -> m.Position:
    """Return the position of the symbol in the line, preferably as a whole word.

    Raises:
        ToolError: the line does not contain it.
    """
    number, symbol = arguments["line"], arguments["symbol"]
    lines = _LINE_END.split(text)
    if number > len(lines):
        raise ToolError(f"line: expected at most {len(lines)}, the last line, got {number}.")
    line = lines[number - 1]
    skipped = line.encode("utf-16-le")[: 2 * (arguments.get("character", 1) - 1)]
    first = len(skipped.decode("utf-16-le", "ignore"))
    word = re.compile(rf"(?<!\w){re.escape(symbol)}(?!\w)").search(line, first)
    index = word.start() if word and symbol else line.find(symbol or "\0", first)
    if index < 0:
        shown = line.strip()[:_LONGEST_LINE]
        raise ToolError(f"symbol: {symbol!r} is not in line {number}, which is: {shown}")
    return m.Position(line=number, character=len(line[:index].encode("utf-16-le")) // 2 + 1)


def _name(uri: str) -> str:
    try:
        return str(path_of(uri))
    except ValueError:
        return uri


class EditorDiagnostics(_EditorTool):
    """The tool `editor_diagnostics`."""

    name: ClassVar = "editor_diagnostics"
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
        if not editor_answers(self.session, "diagnostics"):
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

        places = () if place is None else (place,)
        return PreparedCall(run=run, summary=self.summary(arguments), places=places)

    async def _ask(self, uri: str | None) -> str:
        try:
            answer: m.EditorGetDiagnosticsResponse = await self.session.request(
                "editor/getDiagnostics",
                m.EditorGetDiagnosticsParams(uri=uri),
                deadline=self.timeout,
            )
        except REQUEST_ERRORS as error:
            raise ToolError(f"Could not get the diagnostics from the editor: {error}") from error
        firsts = self.session.profile.first_position
        lines = [_line(each, *firsts(each.source)) for each in answer.diagnostics]
        return cut_end("\n".join(lines), self.cap) if lines else "No diagnostics."


def _line(diagnostic: m.EditorDiagnostic, line: int, character: int) -> str:
    """Return one diagnostic; `line` and `character` are the numbers that the editor counts from."""
    start = diagnostic.range.start
    code = "" if diagnostic.code in (None, "") else f"[{diagnostic.code}] "
    message = " ".join(diagnostic.message.split())
    where = f"{_name(diagnostic.uri)}:{start.line - line + 1}:{start.character - character + 1}"
    return f"{where}: {diagnostic.severity}: {code}{message}"
