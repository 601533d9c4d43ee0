"""Events -> the message that the history keeps of them.

The rule it keeps: only what is complete is remembered as more than text. Reasoning and calls that
were cut are not in the message, since no provider takes them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from eca_server.llm.events import (
    Block,
    Citation,
    Event,
    Finished,
    Image,
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
from eca_server.llm.history import (
    BlockPart,
    CitationPart,
    ImagePart,
    Message,
    Origin,
    Part,
    ReasoningPart,
    RefusalPart,
    ServerToolPart,
    TextPart,
    ToolCallPart,
)

__all__ = ["Answer"]


class Answer:
    """One answer as it grows.

    Attributes:
        usage: the last token counts.
        finished: how it ended; None while it has not.
        calls: the complete calls, those with unreadable arguments too.
        open_reasonings: keys of the blocks begun and not ended, oldest first.
        open_calls: names of the calls begun and not ended, by key.
    """

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.finished: Finished | None = None
        self.calls: list[ToolCallFinished] = []
        self.open_reasonings: dict[str, list[str]] = {}
        self.open_calls: dict[str, ToolCallStarted] = {}
        self._reasons: dict[int, str] = {}
        self._parts: list[Part] = []
        self._run: list[str] = []
        self._run_is_refusal = False

    @property
    def text(self) -> str:
        """All visible text so far."""
        self._end_run()
        return "".join(part.text for part in self._parts if isinstance(part, TextPart))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it for the user: no text, picture, source or call."""
        self._end_run()
        texts = (part.text for part in self._parts if isinstance(part, TextPart | RefusalPart))
        is_shown = any(isinstance(part, ImagePart | CitationPart) for part in self._parts)
        return not (self.calls or is_shown or any(text.strip() for text in texts))

    def feed(self, event: Event) -> None:
        """Takes the next event of the stream."""
        match event:
            case TextDelta(text) | RefusalDelta(text):
                is_refusal = isinstance(event, RefusalDelta)
                if is_refusal != self._run_is_refusal:
                    self._end_run()
                    self._run_is_refusal = is_refusal
                self._run.append(text)
            case ReasoningStarted(key):
                self.open_reasonings[key] = []
            case ReasoningDelta(key, text):
                self.open_reasonings[key].append(text)
            case ToolCallStarted():
                self.open_calls[event.key] = event
            case Usage():
                self.usage = event
            case Finished():
                self.finished = event
            case Note() | Progress():
                pass  # they cut no text in two
            case _:
                self._add(event)

    def message(
        self,
        origin: Origin,
        *,
        interrupted: bool = False,
        thoughts: Mapping[str, tuple[str, int]] = MappingProxyType({}),
    ) -> Message:
        """The answer as it stands; it may be taken at any time.

        Args:
            origin: who made it.
            interrupted: whether it was cut short.
            thoughts: the id and the milliseconds of each block of reasoning, by its key.
        """
        self._end_run()
        return Message(
            role="assistant",
            parts=tuple(
                _shown_as(part, thoughts.get(self._reasons[place]))
                if isinstance(part, ReasoningPart)
                else part
                for place, part in enumerate(self._parts)
            ),
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
                    ReasoningPart(text=text, opaque=event.opaque, redacted=event.redacted)
                )
            case ToolCallFinished():
                begun = self.open_calls.pop(event.key)
                self.calls.append(event)
                self._parts.append(
                    ToolCallPart(
                        id=event.key,
                        name=begun.name,
                        raw=event.raw,
                        arguments=event.arguments,
                        provider_id=begun.provider_id,
                        opaque=event.opaque,
                    )
                )
            case ServerTool(phase="finished"):
                self._parts.append(ServerToolPart(kind=event.kind, raw=event.raw))
            case Citation():
                self._parts.append(CitationPart(url=event.url, title=event.title))
            case Image():
                self._parts.append(ImagePart(media_type=event.media_type, data=event.data))
            case Block():
                self._parts.append(BlockPart(raw=event.raw))

    def _end_run(self) -> None:
        if self._run:
            text = "".join(self._run)
            self._run.clear()
            self._parts.append(RefusalPart(text) if self._run_is_refusal else TextPart(text))


def _shown_as(part: ReasoningPart, thought: tuple[str, int] | None) -> ReasoningPart:
    if thought is None:
        return part
    name, spent_ms = thought
    return attrs.evolve(part, id=name, total_time_ms=spent_ms)
