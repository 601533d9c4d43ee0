"""What the server asks the editor and its user, and positions in files.

Chapters "Editor diagnostics" to "Chat ask question".
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import UnknownValue, by_ruling, lenient

__all__ = [
    "ChatAskQuestionOption",
    "ChatAskQuestionParams",
    "ChatAskQuestionResponse",
    "DiagnosticSeverity",
    "EditorDiagnostic",
    "EditorGetDefinitionParams",
    "EditorGetDefinitionResponse",
    "EditorGetDiagnosticsParams",
    "EditorGetDiagnosticsResponse",
    "EditorGetReferencesParams",
    "EditorGetReferencesResponse",
    "EditorLocation",
    "NavigationStatus",
    "Position",
    "Range",
]

DiagnosticSeverity: TypeAlias = Literal["error", "warning", "info", "hint"] | UnknownValue
NavigationStatus: TypeAlias = Literal["success", "starting", "no-server", "error"] | UnknownValue


@attrs.frozen(kw_only=True)
class Position:
    """A place in a file; whether counting starts at 0 or 1 is the message's affair."""

    line: int
    character: int


@attrs.frozen(kw_only=True)
class Range:
    """From `start` to `end`; equal where nothing is selected."""

    start: Position
    end: Position


@attrs.frozen(kw_only=True)
class EditorGetDiagnosticsParams:
    """`editor/getDiagnostics`: what is wrong in one file, or without `uri` everywhere."""

    uri: str | None = None


@attrs.frozen(kw_only=True)
class EditorDiagnostic:
    """One finding of a linter, compiler or language server.

    The specification counts `range` from 1; several editors send it counted from 0 (W-42).
    """

    uri: str
    severity: DiagnosticSeverity = attrs.field(metadata=by_ruling("W-42"))
    source: str = attrs.field(default="", metadata=lenient("W-42"))
    range: Range
    code: str | int | None = attrs.field(default=None, metadata=by_ruling("W-42"))
    message: str


@attrs.frozen(kw_only=True)
class EditorGetDiagnosticsResponse:
    """The answer to `editor/getDiagnostics`."""

    diagnostics: tuple[EditorDiagnostic, ...]


@attrs.frozen(kw_only=True)
class EditorGetDefinitionParams:
    """`editor/getDefinition`: where the name at `position` is defined.

    Lines and characters (UTF-16 units) are counted from 1, in the answer too.
    """

    uri: str
    position: Position


@attrs.frozen(kw_only=True)
class EditorGetReferencesParams:
    """`editor/getReferences`: where the name at `position` is used; counted from 1, too.

    `include_declaration`: whether its own declaration counts; yes where nothing is said.
    """

    uri: str
    position: Position
    include_declaration: bool | None = None


@attrs.frozen(kw_only=True)
class EditorLocation:
    """A place in a file."""

    uri: str
    range: Range


@attrs.frozen(kw_only=True)
class EditorGetDefinitionResponse:
    """The answer to `editor/getDefinition`; `message` says what a failed search was lacking."""

    status: NavigationStatus
    locations: tuple[EditorLocation, ...] | None = None
    message: str | None = None


@attrs.frozen(kw_only=True)
class EditorGetReferencesResponse:
    """The answer to `editor/getReferences`; as for `editor/getDefinition`."""

    status: NavigationStatus
    locations: tuple[EditorLocation, ...] | None = None
    message: str | None = None


@attrs.frozen(kw_only=True)
class ChatAskQuestionOption:
    """One of the answers to choose from."""

    label: str
    description: str | None = None


@attrs.frozen(kw_only=True)
class ChatAskQuestionParams:
    """`chat/askQuestion`: the model asks the user; with `allow_freeform` any text is an answer."""

    chat_id: str
    question: str
    options: tuple[ChatAskQuestionOption, ...] | None = None
    tool_call_id: str | None = None
    allow_freeform: bool = attrs.field(default=True, metadata=lenient("W-60"))


@attrs.frozen(kw_only=True)
class ChatAskQuestionResponse:
    """The answer to `chat/askQuestion`, which is null where the user gave none."""

    answer: str | None = attrs.field(default=None, metadata=lenient("W-42", nullable=True))
    cancelled: bool = attrs.field(default=False, metadata=lenient("W-42"))
