"""`editor_definition` and `editor_references`: where the editor's language servers find a name.

The rules it keeps: the editor is asked only if it said that it can, and not waited for without
end; an answer that makes no sense is a no (ruling W-42). Lines and characters count from 1, and
characters are UTF-16 units, here and there.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import attrs
import trio

from eca_protocol.errors import ConnectionClosed, DeadlineExceeded, DecodeError, RequestFailed
from eca_protocol.messages import (
    EditorCapabilities,
    EditorGetDefinitionParams,
    EditorGetDefinitionResponse,
    EditorGetReferencesParams,
    EditorGetReferencesResponse,
    EditorLocation,
    Position,
)
from eca_server.llm.history import TextPart
from eca_server.session import Session
from eca_server.tools.files import LARGEST, checkpoint, in_thread, printable
from eca_server.tools.output import Cap, cut_end
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput
from eca_server.workspace import FileError, Workspace, decode, path_of, read_file, uri_of

__all__ = ["EditorDefinition", "EditorReferences", "editor_navigates"]

Answer: TypeAlias = EditorGetDefinitionResponse | EditorGetReferencesResponse

MOST_PLACES = 500
PAUSE = 1.0
"""Seconds before an editor whose language server starts is asked again."""
_LINE_END = re.compile(r"\r\n|\n|\r")
_LONGEST_LINE = 200
_LARGEST_SHOWN = 1024 * 1024  # bytes of a file of which lines are shown
_NO = {
    "starting": "its language server is still starting: try again a little later",
    "no-server": "no language server looks after this file",
}
_WHERE: Mapping[str, Any] = {
    "path": {"type": "string", "description": "The file in which the name stands."},
    "line": {
        "type": "integer",
        "minimum": 1,
        "description": "The line in which it stands, the first one is 1.",
    },
    "symbol": {"type": "string", "description": "The name, exactly as it stands in that line."},
    "character": {
        "type": "integer",
        "minimum": 1,
        "description": "From which character of the line on, if the name stands there twice.",
    },
}


def editor_navigates(session: Session, to: Literal["definition", "references"]) -> bool:
    """Whether the client has announced that it answers this, in an edition that has it."""
    assistant = session.capabilities.code_assistant
    editor = assistant.editor if assistant else None
    return bool(editor and getattr(editor, to)) and session.writes(EditorCapabilities, to)


@attrs.frozen(kw_only=True)
class _Navigation(ABC):
    """What both tools share.

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

    effect: ClassVar[Effect] = "read"
    of: ClassVar[str]

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """What is looked for, of which name."""
        symbol = arguments.get("symbol")
        name = printable(symbol)[:60] if isinstance(symbol, str) else "a name"
        return f"Looking for {self.of} of {name}"

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Look where the file lies; what stands in it is looked at when the call may run.

        Raises:
            ToolFault: the path leads nowhere.
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
            except (ConnectionClosed, DeadlineExceeded, DecodeError, RequestFailed) as fault:
                raise ToolFault(f"The editor did not say: {fault}") from fault
            if answer.status != "success":
                why = answer.message or _NO.get(answer.status, "it gave no reason")
                raise ToolFault(f"The editor cannot say: {why}")
            text = await in_thread(lambda: self._shown(answer.locations or ()))
            return ToolOutput(parts=(TextPart(cut_end(text, self.cap) or "No place found."),))

        return PreparedCall(run=run, summary=self.summary(arguments), places=(place,))

    async def _answer(self, uri: str, position: Position, arguments: Mapping[str, Any]) -> Answer:
        """Return the editor's answer; while its language server starts it is asked again."""
        end = trio.current_time() + self.timeout
        while True:
            left = end - trio.current_time()
            answer = await self._ask(uri, position, arguments, deadline=left)
            if answer.status != "starting" or end - trio.current_time() <= PAUSE:
                return answer
            await trio.sleep(PAUSE)

    @abstractmethod
    async def _ask(
        self, uri: str, position: Position, arguments: Mapping[str, Any], *, deadline: float
    ) -> Answer:
        """Ask the editor once."""

    def _shown(self, locations: Iterable[EditorLocation]) -> str:
        """A line for each place, with what stands there if it is in the workspace."""
        files: dict[str, list[str]] = {}
        shown = []
        for location in list(locations)[:MOST_PLACES]:
            start = location.range.start
            if location.uri not in files:
                files[location.uri] = self._lines(location.uri)
            lines = files[location.uri]
            words = lines[start.line - 1].strip() if 0 < start.line <= len(lines) else ""
            where = f"{_name(location.uri)}:{start.line}:{start.character}"
            shown.append(f"{where}: {words[:_LONGEST_LINE]}" if words else where)
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
    """The tool `editor_definition`; to be offered where `editor_navigates`."""

    name: ClassVar = "editor_definition"
    of: ClassVar = "the definition"
    description: ClassVar = (
        "Ask the user's editor where a name that stands in a file is defined. Each place is a line "
        "`file:line:character: what stands there`. It knows the language, where a search finds "
        "words."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": _WHERE,
        "required": ["path", "line", "symbol"],
    }

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
    """The tool `editor_references`; to be offered where `editor_navigates`."""

    name: ClassVar = "editor_references"
    of: ClassVar = "the uses"
    description: ClassVar = (
        "Ask the user's editor where a name that stands in a file is used, in the whole workspace. "
        "Each place is a line `file:line:character: what stands there`. It knows the language, "
        "where a search finds words."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            **_WHERE,
            "include_declaration": {
                "type": "boolean",
                "description": "Whether its own declaration counts. Default: yes.",
            },
        },
        "required": ["path", "line", "symbol"],
    }

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
    """Where the name stands, as a whole word if it does so anywhere in the line.

    Raises:
        ToolFault: it does not stand there.
    """
    number, symbol = arguments["line"], arguments["symbol"]
    lines = _LINE_END.split(text)
    if number > len(lines):
        raise ToolFault(f"line: expected at most {len(lines)}, the file's last, got {number}.")
    line = lines[number - 1]
    passed = line.encode("utf-16-le")[: 2 * (arguments.get("character", 1) - 1)]
    first = len(passed.decode("utf-16-le", "ignore"))
    word = re.compile(rf"(?<!\w){re.escape(symbol)}(?!\w)").search(line, first)
    place = word.start() if word and symbol else line.find(symbol or "\0", first)
    if place < 0:
        shown = line.strip()[:_LONGEST_LINE]
        raise ToolFault(f"symbol: {symbol!r} does not stand in line {number}, which is: {shown}")
    return Position(line=number, character=len(line[:place].encode("utf-16-le")) // 2 + 1)


def _name(uri: str) -> str:
    try:
        return str(path_of(uri))
    except ValueError:
        return uri
