"""The server's requests to the editor and its user, and positions in files.

Chapters "Editor diagnostics" to "Chat ask question".
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import UnknownValue, by_ruling, lenient, marked

DiagnosticSeverity: TypeAlias = Literal["error", "warning", "info", "hint"] | UnknownValue
NavigationStatus: TypeAlias = Literal["success", "starting", "no-server", "error"] | UnknownValue


@attrs.frozen(kw_only=True)
class Position:
    """A position in a file; the message defines if counting starts at 0 or 1."""

    line: int
    character: int


@attrs.frozen(kw_only=True)
class Range:
    """A range from `start` to `end`, which are equal for an empty selection."""

    start: Position
    end: Position


@attrs.frozen(kw_only=True)
class EditorGetDiagnosticsParams:
    """`editor/getDiagnostics`: the diagnostics of one file, or without `uri` of all files."""

    uri: str | None = None


@attrs.frozen(kw_only=True)
class EditorDiagnostic:
    """One finding of a linter, compiler or language server.

    The specification counts `range` from 1; several editors send it counted from 0 (W-42).
    """

    uri: str
    severity: DiagnosticSeverity = attrs.field(metadata=by_ruling("W-42"))
    source: str = marked(lenient("W-42"), default="")
    range: Range
    code: str | int | None = marked(by_ruling("W-42"))
    message: str


@attrs.frozen(kw_only=True)
class EditorGetDiagnosticsResponse:
    """The answer to `editor/getDiagnostics`."""

    diagnostics: tuple[EditorDiagnostic, ...]


@attrs.frozen(kw_only=True)
class EditorGetDefinitionParams:
    """`editor/getDefinition`: the definition of the name at `position`.

    Lines and characters (UTF-16 units) are counted from 1, also in the answer.
    """

    uri: str
    position: Position


@attrs.frozen(kw_only=True)
class EditorGetReferencesParams(EditorGetDefinitionParams):
    """`editor/getReferences`: the uses of the name at `position`, also counted from 1.

    `include_declaration`: the name's declaration counts as a use; true by default.
    """

    include_declaration: bool | None = None


@attrs.frozen(kw_only=True)
class EditorLocation:
    """A range in a file."""

    uri: str
    range: Range


@attrs.frozen(kw_only=True)
class EditorGetDefinitionResponse:
    """The answer to `editor/getDefinition`; `message` explains a failed search."""

    status: NavigationStatus
    locations: tuple[EditorLocation, ...] | None = None
    message: str | None = None


@attrs.frozen(kw_only=True)
class EditorGetReferencesResponse(EditorGetDefinitionResponse):
    """The answer to `editor/getReferences`; `message` explains a failed search."""


@attrs.frozen(kw_only=True)
class ChatAskQuestionOption:
    """One of the possible answers."""

    label: str
    description: str | None = None


@attrs.frozen(kw_only=True)
class ChatAskQuestionParams:
    """`chat/askQuestion`: a question to the user; `allow_freeform` allows any text as answer."""

    chat_id: str
    question: str
    options: tuple[ChatAskQuestionOption, ...] | None = None
    tool_call_id: str | None = None
    allow_freeform: bool = marked(lenient("W-60"), default=True)


@attrs.frozen(kw_only=True)
class ChatAskQuestionResponse:
    """The answer to `chat/askQuestion`; null if the user gave none."""

    answer: str | None = marked(lenient("W-42", nullable=True))
    cancelled: bool = marked(lenient("W-42"), default=False)
