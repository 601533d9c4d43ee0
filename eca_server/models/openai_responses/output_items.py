"""The output items of an answer over Responses: pieces in, events out. No I/O.

Text that a server omits from the stream is taken from the completed item, so that the pieces join
to its text. Data to be sent back comes from the completed item, never from its first event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from eca_server.json_members import list_in, text_in
from eca_server.models.backend import BackendError
from eca_server.models.calls import read_arguments
from eca_server.models.events import (
    Event,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    RefusalDelta,
    ServerTool,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
)
from eca_server.models.history import BlockPart
from eca_server.models.stream_decoder import Citations, decoded_image

SEPARATOR = "\n\n"
"""The separator of two messages of one answer, and of two parts of one reasoning."""

_CLIENT_ITEMS = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "local_shell_call",
        "mcp_approval_request",
        "shell_call",
    }
)
"""Items that expect an output from the client; without it the server refuses them."""


class OutputItem:
    """One output item, from its first event to its end; by itself, of a kind that is not shown."""

    def begin(self) -> list[Event]:
        """Open the item; emit the events that are known at once."""
        return []

    def feed(self, kind: str, event: Mapping[str, Any]) -> list[Event]:
        """Decode an event of the item, such as `output_text.delta`; ignore unknown ones."""
        return []

    def end(self, whole: Mapping[str, Any] | None, *, truncated: bool) -> list[Event]:
        """Close the item; of an unknown kind, show only an image.

        `whole`: the completed item; None if the answer ended without it.
        """
        kind = None if whole is None or truncated else whole.get("type")
        if whole is None or not isinstance(kind, str) or not kind or kind in _CLIENT_ITEMS:
            return []
        block = BlockPart(raw=_without_nulls(whole))
        match whole:
            case {"type": "image_generation_call", "result": str(data)}:
                media_type = f"image/{whole.get('output_format') or 'png'}"
                return [decoded_image(media_type, data), block]
        return [block]


@attrs.define
class AnswerState:
    """State that the items of one answer share.

    Attributes:
        new_key: makes the keys of tool calls.
        has_text: a message had text.
        refused: a message was a refusal.
        citations: the sources so far.
        reasonings: the number of reasoning items so far.
    """

    new_key: Callable[[], str]
    has_text: bool = False
    refused: bool = False
    citations: Citations = attrs.field(factory=Citations)
    reasonings: int = 0

    def item(self, head: Mapping[str, Any]) -> OutputItem:
        """Make a new item; `head` is its known part."""
        match head.get("type"):
            case "message":
                return Message(self)
            case "reasoning":
                return _Reasoning(self)
            case "function_call":
                return _Call(self, head)
            case "web_search_call":
                return _Search()
        return OutputItem()


class Message(OutputItem):
    """A message of the model, which opens with its first text."""

    def __init__(self, answer: AnswerState) -> None:
        self._answer = answer
        self._text_length = 0
        self._refusal_length = 0

    def feed(self, kind: str, event: Mapping[str, Any]) -> list[Event]:
        """Decode a text, a refusal or a citation."""
        match kind, event:
            case "output_text.delta", {"delta": str(text)}:
                return self.text(text)
            case "refusal.delta", {"delta": str(text)}:
                return self._refusal(text)
            case "output_text.annotation.added", {"annotation": dict(annotation)}:
                return self._answer.citations.cite(annotation.get("url"), annotation.get("title"))
        return []

    def end(self, whole: Mapping[str, Any] | None, *, truncated: bool) -> list[Event]:
        """Emit the text that was not streamed, and the block to be sent back."""
        events: list[Event] = []
        if whole is None:
            return events
        text_length, refusal_length = self._text_length, self._refusal_length
        for part in list_in(whole, "content"):
            match part:
                case {"type": "output_text", "text": str(text)}:
                    events += self.text(text[text_length:])
                    text_length = max(0, text_length - len(text))
                    for each in list_in(part, "annotations"):
                        if isinstance(each, dict):
                            cite = self._answer.citations.cite
                            events += cite(each.get("url"), each.get("title"))
                case {"type": "refusal", "refusal": str(text)}:
                    events += self._refusal(text[refusal_length:])
                    refusal_length = max(0, refusal_length - len(text))
        if self._text_length:
            phase = whole.get("phase")
            raw = {"type": "message", **({"phase": phase} if phase else {})}
            events.append(BlockPart(raw=raw))
        return events

    def text(self, text: str) -> list[Event]:
        """Emit a piece of the text."""
        if not text:
            return []
        answer = self._answer
        separated = not self._text_length and answer.has_text
        self._text_length += len(text)
        answer.has_text = True
        return [TextDelta(SEPARATOR), TextDelta(text)] if separated else [TextDelta(text)]

    def _refusal(self, text: str) -> list[Event]:
        if not text:
            return []
        self._refusal_length += len(text)
        self._answer.refused = True
        return [RefusalDelta(text)]


class _Reasoning(OutputItem):
    def __init__(self, answer: AnswerState) -> None:
        answer.reasonings += 1
        self._key = f"reasoning_{answer.reasonings}"
        self._field = ""  # the summary or the text itself: only one of them is shown
        self._part: Any = None
        self._length = 0

    def begin(self) -> list[Event]:
        return [ReasoningStarted(self._key)]

    def feed(self, kind: str, event: Mapping[str, Any]) -> list[Event]:
        match kind, event:
            case "reasoning_summary_text.delta", {"delta": str(text)}:
                return self._text(text, "summary", event.get("summary_index"))
            case (("reasoning_text.delta" | "reasoning.delta"), {"delta": str(text)}):
                return self._text(text, "content", event.get("content_index"))
        return []

    def end(self, whole: Mapping[str, Any] | None, *, truncated: bool) -> list[Event]:
        events: list[Event] = []
        for field in ("summary", "content"):
            if self._length and field != self._field:
                continue
            parts = list_in(whole, field)
            text = SEPARATOR.join(filter(None, (text_in(part, "text") for part in parts)))
            events += self._text(text[self._length :], field, self._part)
        opaque = None if whole is None or truncated else _without_nulls(whole)
        return [*events, ReasoningFinished(key=self._key, opaque=opaque)]

    def _text(self, text: str, field: str, part: Any) -> list[Event]:
        if not text or (self._length and field != self._field):
            return []
        if self._length and part != self._part:
            text = SEPARATOR + text
        self._field, self._part = field, part
        self._length += len(text)
        return [ReasoningDelta(self._key, text)]


class _Call(OutputItem):
    def __init__(self, answer: AnswerState, head: Mapping[str, Any]) -> None:
        self._key = answer.new_key()
        self._head = head
        self._begun = False
        self._pieces: list[str] = []

    def begin(self) -> list[Event]:
        name = text_in(self._head, "name")
        if self._begun or not name:
            return []
        self._begun = True
        provider_id = text_in(self._head, "call_id") or None
        raw = "".join(self._pieces)  # includes pieces from before the name was known
        started = ToolCallStarted(key=self._key, name=name, provider_id=provider_id)
        return [started, ToolCallArguments(self._key, raw)] if raw else [started]

    def feed(self, kind: str, event: Mapping[str, Any]) -> list[Event]:
        match kind, event:
            case "function_call_arguments.delta", {"delta": str(text)} if text:
                self._pieces.append(text)
                return [ToolCallArguments(self._key, text)] if self._begun else []
            case "function_call_arguments.done", {"arguments": str(text)}:
                return self._rest(text)
        return []

    def end(self, whole: Mapping[str, Any] | None, *, truncated: bool) -> list[Event]:
        self._head = {**self._head, **(whole or {})}
        events = [*self._rest(self._head.get("arguments")), *self.begin()]
        raw = "".join(self._pieces)
        if not self._begun:
            raise BackendError("protocol", "a tool call came without a name", raw=raw)
        arguments, error = read_arguments(raw, truncated=truncated)
        finished = ToolCallFinished(key=self._key, raw=raw, arguments=arguments, error=error)
        return [*events, finished]

    def _rest(self, whole: Any) -> list[Event]:
        text = whole[sum(map(len, self._pieces)) :] if isinstance(whole, str) else ""
        if text:
            self._pieces.append(text)
        return [ToolCallArguments(self._key, text)] if text and self._begun else []


class _Search(OutputItem):
    def begin(self) -> list[Event]:
        return [ServerTool(kind="web_search", phase="started")]

    def end(self, whole: Mapping[str, Any] | None, *, truncated: bool) -> list[Event]:
        raw = None if whole is None else _without_nulls(whole)
        return [ServerTool(kind="web_search", phase="finished", raw=raw)]


def _without_nulls(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item as it is sent back: some servers refuse the nulls that they sent."""
    return {name: value for name, value in item.items() if value is not None}
