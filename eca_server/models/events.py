"""The events of a model's answer, for all APIs.

The rules of their order, which every decoder keeps:

* `Started` comes first, `Finished` last, once each; a stream without `Finished` raised. Only
  `Progress` and `Note` may come before `Started`.
* Every `...Started` of a block has its `...Finished` before `Finished`. After an exception, or a
  cancellation, open blocks stay open and the consumer closes them.
* Text has no start and no end of its own: a run of `TextDelta` ends at any other event.
* An error is a `BackendError`, never an event; earlier events stay valid.

The vocabulary is the union of all APIs: a decoder emits the events that its API has. A source, a
generated image and a raw piece of the provider's message are events as the parts of the message
that they become.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from eca_server.models.history import BlockPart, CitationPart, ImagePart

FinishReason = Literal[
    "stop", "tool_calls", "length", "content_filter", "refusal", "pause", "context_window", "other"
]


@attrs.frozen(kw_only=True)
class Started:
    """The beginning of the model's answer."""

    response_id: str | None = None
    model: str | None = None


@attrs.frozen
class TextDelta:
    """A piece of visible text, never empty."""

    text: str


@attrs.frozen
class ReasoningStarted:
    """A block of reasoning; it may have no deltas at all."""

    key: str


@attrs.frozen
class ReasoningDelta:
    """A piece of the reasoning's text, never empty."""

    key: str
    text: str


@attrs.frozen(kw_only=True)
class ReasoningFinished:
    """The end of a block. `opaque`: JSON the provider wants back; `redacted`: no text by design."""

    key: str
    opaque: Any = None
    redacted: bool = False


@attrs.frozen(kw_only=True)
class ToolCallStarted:
    """A call, once its name is known. `key` is our own id, unique in the chat."""

    key: str
    name: str
    provider_id: str | None = None


@attrs.frozen
class ToolCallArguments:
    """A raw piece of the arguments' JSON; pieces of several calls may alternate."""

    key: str
    text: str


@attrs.frozen(kw_only=True)
class ToolCallFinished:
    """The end of a call.

    Attributes:
        key: as in `ToolCallStarted`.
        raw: all pieces of the arguments together.
        arguments: the parsed object; None if there is none, then `error` says why.
        error: the error for the model, which can then correct itself.
        opaque: JSON the provider wants back with the call.
    """

    key: str
    raw: str
    arguments: Mapping[str, Any] | None
    error: str | None = None
    opaque: Any = None


@attrs.frozen(kw_only=True)
class ServerTool:
    """A tool that the provider runs itself, such as web search."""

    kind: str
    phase: Literal["started", "finished"]
    raw: Any = None


@attrs.frozen
class RefusalDelta:
    """A piece of the model's refusal."""

    text: str


@attrs.frozen(kw_only=True)
class Usage:
    """Token counts that do not overlap; each replaces the previous one, None is unknown.

    Attributes:
        input: prompt tokens that came from no cache and went into none.
        cache_read: prompt tokens read from the provider's cache.
        cache_write: prompt tokens written to it.
        output: everything the model generated, reasoning included.
        reasoning: the part of `output` that was reasoning.
        cost: US dollars, if the provider says.
    """

    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cost: float | None = None


@attrs.frozen
class Progress:
    """A sign of life before the answer."""

    reason: Literal["ping", "loading", "queued"]


@attrs.frozen
class Note:
    """A note for the user on the request; it is no part of the answer."""

    text: str


@attrs.frozen(kw_only=True)
class Finished:
    """The end. Tools run for the calls that came, whatever the reason."""

    reason: FinishReason


Event = (
    Started
    | TextDelta
    | ReasoningStarted
    | ReasoningDelta
    | ReasoningFinished
    | ToolCallStarted
    | ToolCallArguments
    | ToolCallFinished
    | ServerTool
    | CitationPart
    | ImagePart
    | RefusalDelta
    | Usage
    | Progress
    | Note
    | BlockPart
    | Finished
)
