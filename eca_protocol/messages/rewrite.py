"""Rewriting a part of a file (chapters "Rewrite" and "Rewrite Content Received", of CURRENT)."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.messages.editor import Range
from eca_protocol.messages.lifecycle import ChatModel
from eca_protocol.messages.marks import Unknown, UnknownValue, lenient, marked

RewritePromptStatus: TypeAlias = Literal["prompting"] | UnknownValue


@attrs.frozen(kw_only=True)
class RewritePromptParams:
    """`rewrite/prompt`: rewrite `text`, the `range` of the file at `path`, by `prompt`."""

    id: str
    text: str
    prompt: str
    path: str | None = None
    range: Range


@attrs.frozen(kw_only=True)
class RewritePromptResponse:
    """The answer to `rewrite/prompt`, which precedes the model's answer."""

    status: RewritePromptStatus
    model: ChatModel = marked(lenient("W-60"), default="")


@attrs.frozen(kw_only=True)
class RewriteStartedContent:
    """The start of the model's request."""

    type: ClassVar[Literal["started"]] = "started"


@attrs.frozen(kw_only=True)
class RewriteReasoningContent:
    """The start of the model's reasoning."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"


@attrs.frozen(kw_only=True)
class RewriteTextContent:
    """A piece of the new text; pieces are joined."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


@attrs.frozen(kw_only=True)
class RewriteReplaceContent:
    """The whole new text, which replaces all pieces so far."""

    type: ClassVar[Literal["replace"]] = "replace"
    text: str


@attrs.frozen(kw_only=True)
class RewriteErrorContent:
    """The failure of the rewriting."""

    type: ClassVar[Literal["error"]] = "error"
    message: str


@attrs.frozen(kw_only=True)
class RewriteFinishedContent:
    """The end of the new text, after `total_time_ms` milliseconds."""

    type: ClassVar[Literal["finished"]] = "finished"
    total_time_ms: float = marked(lenient("W-60"), default=0)


@attrs.frozen(kw_only=True)
class UnknownRewriteContent(Unknown):
    """A content of an unknown type; `raw` is written unchanged."""


RewriteContent: TypeAlias = (
    RewriteStartedContent
    | RewriteReasoningContent
    | RewriteTextContent
    | RewriteReplaceContent
    | RewriteErrorContent
    | RewriteFinishedContent
    | UnknownRewriteContent
)


@attrs.frozen(kw_only=True)
class RewriteContentReceivedParams:
    """`rewrite/contentReceived`: a content of the rewriting with this id of the client."""

    rewrite_id: str
    content: RewriteContent
