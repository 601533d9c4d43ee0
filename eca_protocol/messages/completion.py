"""Completion while the user types (chapter "Completion", of CURRENT)."""

from __future__ import annotations

import attrs

from eca_protocol.messages.editor import Position, Range
from eca_protocol.messages.marks import lenient


@attrs.frozen(kw_only=True)
class CompletionInlineParams:
    """`completion/inline`: request completions at `position` (counted from 1) of a document.

    Some clients spell the keys `doc-text` and `doc-version` (W-3).
    """

    doc_text: str = attrs.field(metadata=lenient("W-3", alias="doc-text"))
    doc_version: int = attrs.field(metadata=lenient("W-3", alias="doc-version"))
    position: Position


@attrs.frozen(kw_only=True)
class CompletionInlineItem:
    """A text to replace `range`, for that version of the document."""

    text: str
    doc_version: int
    range: Range


@attrs.frozen(kw_only=True)
class CompletionInlineResponse:
    """The answer to `completion/inline`."""

    items: tuple[CompletionInlineItem, ...]
