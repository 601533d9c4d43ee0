"""The stream of Chat Completions, in every known dialect. No I/O.

The finish reason and `[DONE]` are end marks; the end of the bytes is none. Token counts are
replaced, never added up. A block of reasoning has its text once, however many fields repeat it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Unpack

from typing_extensions import override

from eca_server.json_members import list_in, object_in, text_in
from eca_server.models.backend import BackendError
from eca_server.models.errors import error_from_payload, error_in_payload
from eca_server.models.events import Event, FinishReason, RefusalDelta, TextDelta, Usage
from eca_server.models.history import BlockPart
from eca_server.models.openai_chat.pieces import (
    ReasoningDetails,
    ToolCalls,
    is_sealed,
    joined,
    merge_thinking,
    read_usage,
)
from eca_server.models.stream_decoder import Citations, DecoderOptions, decoded_image
from eca_server.models.think_tags import THINK_TAGS, TaggedDecoder, ThinkTags

_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")

_SPELLINGS: Mapping[FinishReason, tuple[str, ...]] = {
    "stop": ("stop", "eos", "eos_token", "end_turn", "stop_sequence"),
    "tool_calls": ("tool_calls", "function_call", "tool_use"),
    "length": ("length", "max_tokens", "model_length", "max_output_tokens"),
    "content_filter": (
        *("content_filter", "sensitive"),
        *("safety", "recitation", "blocklist", "prohibited_content", "spii"),  # from Gemini
    ),
    "refusal": ("refusal",),
    "context_window": ("model_context_window_exceeded",),
}
_REASONS = {raw: reason for reason, spellings in _SPELLINGS.items() for raw in spellings}

_CUT_OFF = ("length", "context_window", "content_filter")
"""Finish reasons that may come before the arguments of a call."""

UNREADABLE_CALL = "function_call_filter"
"""The finish reason of Gemini whose model wrote no readable call."""

_FAILURES = frozenset({"abort", "error", "network_error", "insufficient_system_resource"})
"""Finish reasons of incomplete answers."""


class ChatDecoder(TaggedDecoder):
    """The decoder of one answer.

    Args:
        think_tags: `auto`: a tag at the start of the text opens reasoning; `open`: the text starts
            inside reasoning; `off`: tags are text.
        tags: the tags that the user configured; they are never text.
    """

    def __init__(
        self,
        *,
        think_tags: Literal["auto", "open", "off"] = "auto",
        tags: tuple[str, str] | None = None,
        **options: Unpack[DecoderOptions],
    ) -> None:
        is_text = think_tags == "off" and tags is None
        opened = think_tags == "open"
        splitter = None if is_text else ThinkTags(open_from_start=opened, tags=tags or THINK_TAGS)
        super().__init__(tags=splitter, **options)
        self._calls = ToolCalls(self._new_key)
        self._refused = False
        self._raw_reason: str | None = None
        self._usage: Usage | None = None
        self._details = ReasoningDetails()
        self._thinking: list[dict[str, Any]] = []
        self._opaque: str | None = None  # from Copilot
        self._citations = Citations()

    @override
    def _end_mark(self) -> list[Event]:
        return self._finish() if self.started else self.close()

    @override
    def _text_delta(self, value: Any) -> list[Event] | None:
        if not self._is_plain:
            return None
        try:
            [choice] = value["choices"]
            delta = choice["delta"]
            text = delta["content"]
            plain = (
                choice["finish_reason"] is None
                and len(delta) == 1
                and value.get("usage") is None
                and "error" not in value
            )
        except (KeyError, TypeError, ValueError):
            return None
        if not plain or type(text) is not str or not text:
            return None
        self._has_content = True
        return [TextDelta(text)]

    @override
    def _decode(self, value: Any, name: str) -> list[Event]:
        if error := error_in_payload(value, failed=name == "error"):
            raise error
        events = self._start(value)
        for choice in list_in(value, "choices"):
            events += self._choice(choice)
        for counts in (value.get("usage"), object_in(value, "x_groq").get("usage")):
            if isinstance(counts, dict):
                self._usage = read_usage(counts)
        for url in list_in(value, "citations"):
            events += self._citations.cite(url, "")
        return events

    def _choice(self, choice: Any) -> list[Event]:
        if not isinstance(choice, dict):
            return []
        if error := choice.get("error"):
            raise error_from_payload({"error": error})
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            # A whole message is an answer that was not streamed, or repeats the deltas.
            whole = choice.get("message")
            delta = whole if isinstance(whole, dict) and not self._has_content else {}
        events = self._delta(delta)
        if isinstance(choice.get("usage"), dict):
            self._usage = read_usage(choice["usage"])
        if reason := text_in(choice, "finish_reason"):
            if reason.lower() in _FAILURES:
                message = f"the provider ended the answer with {reason}"
                raise BackendError("overloaded", message, code=reason, retryable=True)
            filtered, _, why = reason.partition(": ")
            if filtered == UNREADABLE_CALL:
                message = f"the model wrote an unreadable answer ({why})"
                raise BackendError("protocol", message, code=filtered)
            self.finish_seen = True
            self._raw_reason = reason
        return events

    def _delta(self, delta: Mapping[str, Any]) -> list[Event]:
        events = self._reasoning_of(delta)
        content = delta.get("content")
        if isinstance(content, str):
            events += self._content(content)
        elif isinstance(content, list):
            for part in content:
                events += self._content_part(part)
        if isinstance(refusal := delta.get("refusal"), str) and refusal:
            events += [*self._end_reasoning(), RefusalDelta(refusal)]
            self._has_content = self._refused = True
        fragments = list_in(delta, "tool_calls")
        if isinstance(legacy := delta.get("function_call"), dict):
            fragments = [{"index": 0, "function": legacy}]
        for fragment in fragments:
            events += [*self._end_reasoning(), *self._calls.feed(fragment)]
            self._has_content = True
        for image in list_in(delta, "images"):
            events += self._image(image)
        for annotation in list_in(delta, "annotations"):
            if isinstance(annotation, dict):
                cited = object_in(annotation, "url_citation") or annotation
                events += self._citations.cite(cited.get("url"), cited.get("title"))
        if extra := delta.get("extra_content"):
            events.append(BlockPart(raw={"extra_content": extra}))
        return events

    def _content_part(self, part: Any) -> list[Event]:
        match part:
            case {"type": "text", "text": str(text)}:
                return self._text(text)
            case {"type": "thinking", "thinking": list(pieces)}:
                return self._reason(_joined(pieces), "content")
            case {"type": "reasoning", "summary": list(pieces)}:  # from Databricks
                return self._reason(_joined(pieces), "summary")
            case {"type": "thinking", "thinking": str(text)}:
                return self._reason(text, "content")
        return []

    def _reasoning_of(self, delta: Mapping[str, Any]) -> list[Event]:
        detailed = self._details.feed(delta.get("reasoning_details"))
        merge_thinking(self._thinking, delta.get("thinking_blocks"))
        if isinstance(opaque := delta.get("reasoning_opaque"), str) and opaque:
            self._opaque = opaque
        for field in _REASONING_FIELDS:
            if isinstance(text := delta.get(field), str) and text:
                return self._reason(text, field)
        return self._reason(detailed, "reasoning_details")

    @override
    def _reasoning_opaque(self) -> Any:
        opaque: dict[str, Any] = {"field": self._reasoning_field}
        if self._details:
            opaque["details"] = self._details.take()
        if self._opaque is not None:
            opaque["reasoning_opaque"], self._opaque = self._opaque, None
        return opaque

    def _image(self, image: Any) -> list[Event]:
        match image:
            case {"image_url": {"url": str(url)}} if url.startswith("data:"):
                head, _, data = url.removeprefix("data:").partition(",")
                event = decoded_image(head.partition(";")[0], data)
                self._has_content = True
                return [event]
        return []

    @override
    def _finish(self) -> list[Event]:
        events = [*self._end_tags(), *self._end_reasoning()]
        if self._details or self._opaque:  # they came after the text, and must be sent back, too
            field = "reasoning_details" if self._details else "reasoning_text"
            events += [*self._begin_reasoning(field), *self._end_reasoning()]
        if sealed := [joined(block) for block in self._thinking if is_sealed(block)]:
            events.append(BlockPart(raw={"thinking_blocks": sealed}))
        named = (self._raw_reason or "").partition(":")[0]  # Gemini adds its own reason
        reason = _REASONS.get(named.lower(), "other")
        self._check_content(reason)
        events += self._calls.finish(truncated=reason in _CUT_OFF)
        if self._refused and reason == "stop" and not self._calls:
            reason = "refusal"
        calls = len(self._calls)
        return [*events, *self._end(reason, calls=calls, usage=self._usage)]


def _joined(pieces: Iterable[Any]) -> str:
    """Return the texts of a list of content parts."""
    return "".join(text_in(piece, "text") for piece in pieces)
