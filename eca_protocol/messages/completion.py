"""Completion while the user types (chapter "Completion", of CURRENT)."""

from __future__ import annotations

import attrs

from eca_protocol.messages.editor import Position, Range

__all__ = ["CompletionInlineItem", "CompletionInlineParams", "CompletionInlineResponse"]


@attrs.frozen(kw_only=True)
class CompletionInlineParams:
    """`completion/inline`: what could stand at `position` (counted from 1) of a document."""

    doc_text: str
    doc_version: int
    position: Position


@attrs.frozen(kw_only=True)
class CompletionInlineItem:
    """A text to put in place of `range`, for that version of the document."""

    text: str
    doc_version: int
    range: Range


@attrs.frozen(kw_only=True)
class CompletionInlineResponse:
    """The answer to `completion/inline`."""

    items: tuple[CompletionInlineItem, ...]
