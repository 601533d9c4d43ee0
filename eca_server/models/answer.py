"""The message that a stream of events adds up to.

Only complete reasoning and calls become parts of the message, since no provider takes back
truncated ones. Truncated text stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from eca_server.models import history
from eca_server.models.events import (
    Event,
    Finished,
    Note,
    Progress,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    RefusalDelta,
    ServerTool,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)

_MOST_PIECES = 1000


class Answer:
    """One answer while it is received.

    Attributes:
        usage: the last token counts.
        finished: the end of the answer; None until then.
        calls: the complete calls, including those with unreadable arguments.
        open_reasonings: the text pieces of the open blocks of reasoning by key, oldest first.
    """

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.finished: Finished | None = None
        self.calls: list[ToolCallFinished] = []
        self.open_reasonings: dict[str, list[str]] = {}
        self.open_calls: dict[str, ToolCallStarted] = {}
        self._reasons: dict[int, str] = {}
        self._parts: list[history.Part] = []
        self._run: list[str] = []
        self._run_is_refusal = False

    @property
    def text(self) -> str:
        """All visible text so far."""
        self._end_run()
        return "".join(part.text for part in self._parts if isinstance(part, history.TextPart))

    @property
    def is_empty(self) -> bool:
        """True if the answer has no text, image, source or call."""
        self._end_run()
        texts = (
            part.text
            for part in self._parts
            if isinstance(part, history.TextPart | history.RefusalPart)
        )
        is_shown = any(
            isinstance(part, history.ImagePart | history.CitationPart) for part in self._parts
        )
        return not (self.calls or is_shown or any(text.strip() for text in texts))

    def feed(self, event: Event) -> None:
        """Take the next event of the stream."""
        match event:
            case TextDelta(text) | RefusalDelta(text):
                is_refusal = isinstance(event, RefusalDelta)
                if is_refusal != self._run_is_refusal:
                    self._end_run()
                    self._run_is_refusal = is_refusal
                _append(self._run, text)
            case ReasoningStarted(key):
                self.open_reasonings[key] = []
            case ReasoningDelta(key, text):
                _append(self.open_reasonings[key], text)
            case ToolCallStarted():
                self.open_calls[event.key] = event
            case Usage():
                self.usage = event
            case Finished():
                self.finished = event
            case Note() | Progress():
                pass  # they do not separate text
            case _:
                self._add(event)

    def message(
        self,
        origin: history.Origin,
        *,
        interrupted: bool = False,
        thoughts: Mapping[str, tuple[str, int]] = MappingProxyType({}),
    ) -> history.Message:
        """Return the answer so far; it may be taken at any time.

        Args:
            origin: the model that made it.
            interrupted: whether it was cut short.
            thoughts: the id and the duration in milliseconds of each block of reasoning, by key.
        """
        self._end_run()
        parts = tuple(
            _shown_as(part, thoughts.get(self._reasons[place]))
            if isinstance(part, history.ReasoningPart)
            else part
            for place, part in enumerate(self._parts)
        )
        unfinished = (
            _shown_as(history.ReasoningPart(text="".join(pieces)), thoughts.get(key))
            for key, pieces in self.open_reasonings.items()
            if pieces and interrupted
        )
        return history.Message(
            role="assistant",
            parts=(*parts, *unfinished),
            origin=origin,
            interrupted=interrupted,
        )

    def _add(self, event: Event) -> None:
        self._end_run()
        match event:
            case ReasoningFinished():
                text = "".join(self.open_reasonings.pop(event.key))
                self._reasons[len(self._parts)] = event.key
                self._parts.append(
                    history.ReasoningPart(text=text, opaque=event.opaque, redacted=event.redacted)
                )
            case ToolCallFinished():
                start = self.open_calls.pop(event.key)
                self.calls.append(event)
                self._parts.append(
                    history.ToolCallPart(
                        id=event.key,
                        name=start.name,
                        raw=event.raw,
                        arguments=event.arguments,
                        provider_id=start.provider_id,
                        opaque=event.opaque,
                    )
                )
            case ServerTool(phase="finished"):
                self._parts.append(history.ServerToolPart(kind=event.kind, raw=event.raw))
            case history.CitationPart() | history.ImagePart() | history.BlockPart():
                self._parts.append(event)

    def _end_run(self) -> None:
        if self._run:
            text = "".join(self._run)
            self._run.clear()
            self._parts.append(
                history.RefusalPart(text) if self._run_is_refusal else history.TextPart(text)
            )


def _append(pieces: list[str], text: str) -> None:
    """Append a piece of text; join many, since a small piece costs ten times its size."""
    pieces.append(text)
    if len(pieces) >= _MOST_PIECES:
        pieces[:] = ["".join(pieces)]


def _shown_as(
    part: history.ReasoningPart, thought: tuple[str, int] | None
) -> history.ReasoningPart:
    if thought is None:
        return part
    name, spent_ms = thought
    return attrs.evolve(part, id=name, total_time_ms=spent_ms)
