"""`editor_definition` and `editor_references`: symbols, by the editor's language servers.

The rules of this module: the request is sent only to an editor with the capability, with a
deadline; an invalid answer is an error (ruling W-42). Lines and characters count from 1, in the
model's call and in the editor's answer, and characters are UTF-16 units.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import attrs
import trio

from eca_protocol.messages import (
    EditorCapabilities,
    EditorGetDefinitionParams,
    EditorGetDefinitionResponse,
    EditorGetReferencesParams,
    EditorGetReferencesResponse,
    EditorLocation,
    Position,
)
from eca_protocol.server.roots import path_of, uri_of
from eca_server.agent.tools.files import LARGEST, checkpoint, in_thread, printable
from eca_server.agent.tools.output import Cap, cut_end
from eca_server.agent.tools.schemas import boolean, integer, object_schema, string
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.client.session import REQUEST_ERRORS, Session
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.errors import FileError
from eca_server.workspace.reading import decode, read_file

Answer: TypeAlias = EditorGetDefinitionResponse | EditorGetReferencesResponse

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
    "path": string("The file that contains the symbol."),
    "line": integer("The line that contains the symbol, counted from 1.", minimum=1),
    "symbol": string("The symbol, exactly as written in that line."),
    "character": integer(
        "Start the search at this character of the line, counted from 1. Use it if "
        "the line contains the symbol more than once.",
        minimum=1,
    ),
}


def editor_navigates(session: Session, to: Literal["definition", "references"]) -> bool:
    """Return True if the client supports a request, in an edition that has it."""
    assistant = session.capabilities.code_assistant
    editor = assistant.editor if assistant else None
    return bool(editor and getattr(editor, to)) and session.writes(EditorCapabilities, to)


@attrs.frozen(kw_only=True)
class _Navigation(ABC):
    """The common base of both tools.

    Attributes:
        timeout: the deadline of the editor, in seconds.
    """

    session: Session
    workspace: Workspace
    timeout: float = 30
    cap: Cap = attrs.field(factory=Cap)

    effect: ClassVar[Effect] = "read"
    of: ClassVar[str]

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

        def look() -> Position:
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

    async def _answer(self, uri: str, position: Position, arguments: Mapping[str, Any]) -> Answer:
        """Return the editor's answer; repeat the request while its language server starts."""
        end = trio.current_time() + self.timeout
        while True:
            remaining = end - trio.current_time()
            answer = await self._ask(uri, position, arguments, deadline=remaining)
            if answer.status != "starting" or end - trio.current_time() <= PAUSE:
                return answer
            await trio.sleep(PAUSE)

    @abstractmethod
    async def _ask(
        self, uri: str, position: Position, arguments: Mapping[str, Any], *, deadline: float
    ) -> Answer:
        """Send the request once."""

    def _shown(self, locations: Iterable[EditorLocation]) -> str:
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


@attrs.frozen(kw_only=True)
class EditorDefinition(_Navigation):
    """The tool `editor_definition`; offered only if `editor_navigates`."""

    name: ClassVar = "editor_definition"
    of: ClassVar = "the definition"
    description: ClassVar = (
        "Find the definition of a symbol with the language server of the user's editor. Each "
        "location is a line `file:line:character: source line`. More precise than a text search."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema("path", "line", "symbol", **_WHERE)

    async def _ask(
        self, uri: str, position: Position, arguments: Mapping[str, Any], *, deadline: float
    ) -> Answer:
        params = EditorGetDefinitionParams(uri=uri, position=position)
        answer: Answer = await self.session.request(
            "editor/getDefinition", params, deadline=deadline
        )
        return answer


@attrs.frozen(kw_only=True)
class EditorReferences(_Navigation):
    """The tool `editor_references`; offered only if `editor_navigates`."""

    name: ClassVar = "editor_references"
    of: ClassVar = "the uses"
    description: ClassVar = (
        "Find the uses of a symbol in the whole workspace with the language server of the user's "
        "editor. Each location is a line `file:line:character: source line`. More precise than a "
        "text search."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        "path",
        "line",
        "symbol",
        **_WHERE,
        include_declaration=boolean("Include the declaration of the symbol. Default: true."),
    )

    async def _ask(
        self, uri: str, position: Position, arguments: Mapping[str, Any], *, deadline: float
    ) -> Answer:
        params = EditorGetReferencesParams(
            uri=uri, position=position, include_declaration=arguments.get("include_declaration")
        )
        answer: Answer = await self.session.request(
            "editor/getReferences", params, deadline=deadline
        )
        return answer


def _position(text: str, arguments: Mapping[str, Any]) -> Position:
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
    return Position(line=number, character=len(line[:index].encode("utf-16-le")) // 2 + 1)


def _name(uri: str) -> str:
    try:
        return str(path_of(uri))
    except ValueError:
        return uri
