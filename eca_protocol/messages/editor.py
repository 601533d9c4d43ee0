"""What the server asks the editor for (chapter "Editor diagnostics"), and positions in files."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import UnknownValue, allowed, forgiven

__all__ = [
    "DiagnosticSeverity",
    "EditorDiagnostic",
    "EditorGetDiagnosticsParams",
    "EditorGetDiagnosticsResponse",
    "Position",
    "Range",
]

DiagnosticSeverity: TypeAlias = Literal["error", "warning", "info", "hint"] | UnknownValue


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
    severity: DiagnosticSeverity = attrs.field(metadata=allowed("W-42"))
    source: str = attrs.field(default="", metadata=forgiven("W-42"))
    range: Range
    code: str | int | None = attrs.field(default=None, metadata=allowed("W-42"))
    message: str


@attrs.frozen(kw_only=True)
class EditorGetDiagnosticsResponse:
    """The answer to `editor/getDiagnostics`."""

    diagnostics: tuple[EditorDiagnostic, ...]
