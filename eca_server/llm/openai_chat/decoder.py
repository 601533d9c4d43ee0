"""The stream of Chat Completions, in every known dialect. No I/O.

The finish reason and `[DONE]` are end marks; the end of the bytes is none. Token counts are
replaced, never added up. A block of reasoning has its text once, however many fields repeat it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Literal

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.sse import SSEvent
from eca_server.llm.backend import BackendError
from eca_server.llm.calls import new_call_key
from eca_server.llm.errors import error_from_payload, error_in_payload
from eca_server.llm.events import (
    Block,
    Citation,
    Event,
    Finished,
    FinishReason,
    Image,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    RefusalDelta,
    Started,
    TextDelta,
    Usage,
)
from eca_server.llm.openai_chat.pieces import ToolCalls, merge_details, read_usage
from eca_server.llm.think_tags import THINK_TAGS, ThinkTags

__all__ = ["ChatDecoder"]

_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")

_SPELLINGS: Mapping[FinishReason, tuple[str, ...]] = {
    "stop": ("stop", "eos", "eos_token", "end_turn", "stop_sequence"),
    "tool_calls": ("tool_calls", "function_call", "tool_use"),
    "length": ("length", "max_tokens", "model_length", "max_output_tokens"),
    "content_filter": ("content_filter", "sensitive", "safety"),
    "refusal": ("refusal",),
}
_REASONS = {raw: reason for reason, spellings in _SPELLINGS.items() for raw in spellings}

_FAILURES = frozenset({"error", "network_error", "insufficient_system_resource"})
"""Finish reasons of incomplete answers."""


class ChatDecoder:
    """Server-sent events of one answer in, our events out.

    Args:
        think_tags: `auto`: a tag at the start of the text opens reasoning; `open`: the text starts
            inside reasoning; `off`: tags are text.
        tags: the tags that the user configured; they are never text.
        may_be_empty: accept an answer without content (after tool results it means that the model
            has nothing to add).
        request_id: reported in `Started`.
        new_key: makes the keys of tool calls.

    Attributes:
        started: `Started` was emitted.
        finish_seen: a finish reason came; only usage and `[DONE]` may follow.
        done: `Finished` was emitted; nothing follows.
    """

    def __init__(
        self,
        *,
        think_tags: Literal["auto", "open", "off"] = "auto",
        tags: tuple[str, str] | None = None,
        may_be_empty: bool = False,
        request_id: str | None = None,
        new_key: Callable[[], str] = new_call_key,
    ) -> None:
        self.finish_seen = False
        self.done = False
        self._tags = (
            None
            if think_tags == "off" and tags is None
            else ThinkTags(open_from_start=think_tags == "open", tags=tags or THINK_TAGS)
        )
        self._may_be_empty = may_be_empty
        self._request_id = request_id
        self._calls = ToolCalls(new_key)
        self.started = False
        self._has_content = False
        self._refused = False
        self._raw_reason: str | None = None
        self._usage: Usage | None = None
        self._reasonings = 0
        self._reasoning_open = False
        self._reasoning_field = ""
        self._details: list[dict[str, Any]] = []
        self._opaque: str | None = None  # from Copilot
        self._cited: set[str] = set()
        self._blocks = 0

    def feed(self, event: SSEvent) -> list[Event]:
        """Decode the next event of the stream.

        Raises:
            BackendError: the stream carries an error, or is unreadable.
        """
        if self.done:
            return []
        data = event.data
        if data.strip() == "[DONE]":
            return self._finish() if self.started else self.close()
        try:
            chunk = json.loads(data)
        except InvalidJSON as fault:
            excerpt = data[:200]
            raise BackendError("protocol", f"not JSON in the stream ({fault}): {excerpt}") from None
        return self._decode_text(chunk) or self.feed_object(chunk, failed=event.event == "error")

    def feed_object(self, chunk: Any, *, failed: bool = False) -> list[Event]:
        """Decode a JSON chunk: one of the stream, or a whole answer.

        Raises:
            BackendError: as `feed`.
        """
        if error := error_in_payload(chunk, failed=failed):
            raise error
        events: list[Event] = []
        if not self.started:
            self.started = True
            started = Started(
                response_id=_text_or_none(chunk.get("id")),
                model=_text_or_none(chunk.get("model")),
                request_id=self._request_id,
            )
            events.append(started)
        for choice in _items(chunk, "choices"):
            events += self._choice(choice)
        groq = chunk.get("x_groq")
        for counts in (chunk.get("usage"), groq.get("usage") if isinstance(groq, dict) else None):
            if isinstance(counts, dict):
                self._usage = read_usage(counts)
        for url in _items(chunk, "citations"):
            if isinstance(url, str):
                events += self._cite({"url": url})
        return events

    def close(self) -> list[Event]:
        """Handle the end of the bytes.

        Raises:
            BackendError: `premature_stop`, the answer is incomplete; or as `feed`.
        """
        if self.done:
            return []
        if not self.finish_seen:
            raise BackendError(
                "premature_stop", "the answer broke off before its end", retryable=True
            )
        return self._finish()

    def _decode_text(self, chunk: Any) -> list[Event] | None:
        """Decode a plain text delta, which is nearly all of a stream; None for everything else."""
        if self._tags is not None or self._reasoning_open or not self.started:
            return None
        try:
            [choice] = chunk["choices"]
            delta = choice["delta"]
            text = delta["content"]
            plain = (
                choice["finish_reason"] is None
                and len(delta) == 1
                and chunk.get("usage") is None
                and "error" not in chunk
            )
        except (KeyError, TypeError, ValueError):
            return None
        if not plain or type(text) is not str or not text:
            return None
        self._has_content = True
        return [TextDelta(text)]

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
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if reason.lower() in _FAILURES:
                message = f"the provider ended the answer with {reason}"
                raise BackendError("overloaded", message, code=reason, retryable=True)
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
        fragments = _items(delta, "tool_calls")
        if isinstance(legacy := delta.get("function_call"), dict):
            fragments = [{"index": 0, "function": legacy}]
        for fragment in fragments:
            events += [*self._end_reasoning(), *self._calls.feed(fragment)]
            self._has_content = True
        for image in _items(delta, "images"):
            events += self._image(image)
        for annotation in _items(delta, "annotations"):
            if isinstance(annotation, dict):
                cited = annotation.get("url_citation")
                events += self._cite(cited if isinstance(cited, dict) else annotation)
        if extra := delta.get("extra_content"):
            events.append(Block(raw={"extra_content": extra}, position=self._blocks))
            self._blocks += 1
        return events

    def _content(self, content: str) -> list[Event]:
        if self._tags is None:
            return self._text(content)
        reasoning, text = self._tags.feed(content)
        if self._tags.done:
            self._tags = None
        return [*self._reason(reasoning, "tags"), *self._text(text)]

    def _content_part(self, part: Any) -> list[Event]:
        match part:
            case {"type": "text", "text": str(text)}:
                return self._text(text)
            case {"type": "thinking", "thinking": list(pieces)}:
                texts = [piece.get("text") for piece in pieces if isinstance(piece, dict)]
                known = (text for text in texts if isinstance(text, str))
                return self._reason("".join(known), "content")
            case {"type": "thinking", "thinking": str(text)}:
                return self._reason(text, "content")
        return []

    def _text(self, text: str) -> list[Event]:
        if not text:
            return []
        self._has_content = True
        return [*self._end_reasoning(), TextDelta(text)]

    def _reasoning_of(self, delta: Mapping[str, Any]) -> list[Event]:
        detailed = merge_details(self._details, delta.get("reasoning_details"))
        if isinstance(opaque := delta.get("reasoning_opaque"), str) and opaque:
            self._opaque = opaque
        for field in _REASONING_FIELDS:
            text = delta.get(field)
            if isinstance(text, str) and text:
                return self._reason(text, field)
        return self._reason(detailed, "reasoning_details")

    def _reason(self, text: str, field: str) -> list[Event]:
        if not text:
            return []
        self._has_content = True
        events: list[Event] = []
        if not self._reasoning_open:
            self._reasonings += 1
            self._reasoning_open, self._reasoning_field = True, field
            events.append(ReasoningStarted(f"reasoning_{self._reasonings}"))
        return [*events, ReasoningDelta(f"reasoning_{self._reasonings}", text)]

    def _end_reasoning(self) -> list[Event]:
        if not self._reasoning_open:
            return []
        self._reasoning_open = False
        opaque: dict[str, Any] = {"field": self._reasoning_field}
        if self._details:
            opaque["details"], self._details = self._details, []
        if self._opaque is not None:
            opaque["reasoning_opaque"], self._opaque = self._opaque, None
        return [ReasoningFinished(key=f"reasoning_{self._reasonings}", opaque=opaque)]

    def _image(self, image: Any) -> list[Event]:
        match image:
            case {"image_url": {"url": str(url)}} if url.startswith("data:"):
                head, _, data = url.removeprefix("data:").partition(",")
                try:
                    decoded = base64.b64decode(data, validate=True)
                except binascii.Error:
                    raise BackendError("protocol", "an image is not valid base64") from None
                self._has_content = True
                return [Image(media_type=head.partition(";")[0], data=decoded)]
        return []

    def _cite(self, source: Mapping[str, Any]) -> list[Event]:
        url = source.get("url")
        if not isinstance(url, str) or url in self._cited:
            return []
        self._cited.add(url)
        start, end = source.get("start_index"), source.get("end_index")
        span = (start, end) if isinstance(start, int) and isinstance(end, int) else None
        return [Citation(url=url, title=str(source.get("title") or ""), span=span)]

    def _finish(self) -> list[Event]:
        events: list[Event] = []
        if self._tags is not None:
            reasoning, text = self._tags.close()
            events += [*self._reason(reasoning, "tags"), *self._text(text)]
        events += self._end_reasoning()
        if self._details or self._opaque:  # they came after the text, and must be sent back, too
            events += [ReasoningStarted(f"reasoning_{self._reasonings + 1}")]
            self._reasonings, self._reasoning_open = self._reasonings + 1, True
            self._reasoning_field = "reasoning_details" if self._details else "reasoning_text"
            events += self._end_reasoning()
        reason = _REASONS.get((self._raw_reason or "").lower(), "other")
        if not self._has_content and not self._may_be_empty and reason in ("stop", "other"):
            message = "the model answered nothing; the prompt may be longer than its context"
            raise BackendError("empty_response", message, retryable=True)
        events += self._calls.finish(truncated=reason == "length")
        if self._calls and reason in ("stop", "other"):
            reason = "tool_calls"
        elif not self._calls and reason == "tool_calls":
            reason = "other"
        elif self._refused and reason == "stop":
            reason = "refusal"
        if self._usage is not None:
            events.append(self._usage)
        self.done = True
        return [*events, Finished(reason=reason, raw_reason=self._raw_reason)]


def _items(holder: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list; null, absent or any other value is an empty one."""
    value = holder.get(name)
    return value if isinstance(value, list) else []


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
