"""The stream of Responses. No I/O.

One of four events ends an answer; the end of the bytes does not. An item is identified by its
position in the output, since some servers give it a new id in each event. Content that appears only
in the last event counts, too. Unknown events are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

from typing_extensions import override

from eca_protocol import json
from eca_server.json_members import list_in, object_in, text_in
from eca_server.models.backend import BackendError
from eca_server.models.errors import error_from_payload, error_in_payload
from eca_server.models.events import (
    Event,
    FinishReason,
    Progress,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallStarted,
    Usage,
)
from eca_server.models.history import ImagePart
from eca_server.models.openai_responses.output_items import AnswerState, Message, OutputItem
from eca_server.models.stream_decoder import DecoderOptions, StreamDecoder, cost, count_at

_CONTENT = (TextDelta, ReasoningDelta, RefusalDelta, ToolCallStarted, ImagePart)

_ITEM_TYPES = {
    "output_text": "message",
    "refusal": "message",
    "function_call_arguments": "function_call",
}
"""Types of items without an opening event, by the first word of an event's name."""

_INCOMPLETE_REASONS: Mapping[str, FinishReason] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
"""Finish reasons of incomplete answers."""


class ResponsesDecoder(StreamDecoder):
    """The decoder of one answer; the end mark comes with all content."""

    def __init__(self, **options: Unpack[DecoderOptions]) -> None:
        super().__init__(**options)
        self._answer = AnswerState(self._new_key)
        self._open: dict[int | str, OutputItem] = {}
        self._ended: set[int | str] = set()
        self._calls = 0

    @override
    def _text_delta(self, value: Any) -> list[Event] | None:
        try:
            if value["type"] != "response.output_text.delta":
                return None
            text, item = value["delta"], self._open[value["output_index"]]
        except (KeyError, TypeError):
            return None
        if type(item) is not Message or type(text) is not str or not text:
            return None
        self._has_content = True
        return item.text(text)

    @override
    def _decode(self, value: Any, name: str) -> list[Event]:
        if isinstance(value, dict) and "type" not in value and name not in ("", "message"):
            value["type"] = name
        kind = value.get("type") if isinstance(value, dict) else None
        if not isinstance(kind, str) or not kind.startswith("response."):
            return self._other(value)
        events = self._start(object_in(value, "response"))
        events += self._event(kind.removeprefix("response."), value)
        self._has_content = self._has_content or any(isinstance(e, _CONTENT) for e in events)
        return events

    def _other(self, value: Any) -> list[Event]:
        """Decode a value that is no event: an error, a sign of life, a whole response."""
        if error := error_in_payload(value):
            raise error
        if isinstance(value.get("output"), list):
            return [*self._start(value), *self._end_with(value, str(value.get("status")))]
        if "type" in value:
            return []
        excerpt = json.dumps(value)[:200].decode("utf-8", "replace")
        raise BackendError("protocol", f"expected an event of Responses, got {excerpt}")

    def _event(self, kind: str, event: Mapping[str, Any]) -> list[Event]:
        match kind, event:
            case "output_item.added", {"item": dict(item)}:
                self._ended.discard(key := _item_key(event, item))
                return self._begin(key, item)
            case "output_item.done", {"item": dict(item)}:
                return self._finish_item(_item_key(event, item), item)
            case (("completed" | "incomplete" | "failed"), {"response": dict(response)}):
                return self._end_with(response, kind)
            case "queued", _:
                return [Progress("queued")]
        return self._piece(kind, event)

    def _piece(self, kind: str, event: Mapping[str, Any]) -> list[Event]:
        key = _item_key(event, {})
        if key in self._ended:
            return []
        opening: list[Event] = []
        if key not in self._open:
            word = kind.partition(".")[0]
            of = "reasoning" if word.startswith("reasoning") else _ITEM_TYPES.get(word)
            if of is None or not kind.endswith(".delta"):
                return []
            opening = self._begin(key, {"type": of})
        return [*opening, *self._open[key].feed(kind, event)]

    def _begin(self, key: int | str, head: Mapping[str, Any]) -> list[Event]:
        if key in self._open or key in self._ended:
            return []
        item = self._open[key] = self._answer.item(head)
        self._calls += head.get("type") == "function_call"
        return item.begin()

    def _finish_item(self, key: int | str, whole: Mapping[str, Any]) -> list[Event]:
        if key in self._ended:
            return []
        opening = self._begin(key, whole)
        self._ended |= {key, str(whole.get("id") or key)}
        truncated = whole.get("status") == "incomplete"
        return [*opening, *self._open.pop(key).end(whole, truncated=truncated)]

    def _end_with(self, response: Mapping[str, Any], status: str) -> list[Event]:
        error = response.get("error")
        if status in ("failed", "cancelled") or error:
            detail = error or {"message": f"the provider ended the answer as {status}"}
            raise error_from_payload({"error": detail})
        events: list[Event] = []
        for index, item in enumerate(list_in(response, "output")):
            item_id = str(item.get("id")) if isinstance(item, dict) else ""
            if isinstance(item, dict) and item_id not in self._ended:
                key = item_id if item_id in self._open else index
                events += self._finish_item(key, item)
        reason = _reason(response, status)
        for key in list(self._open):
            events += self._open.pop(key).end(None, truncated=reason != "stop")
        if any(isinstance(event, _CONTENT) for event in events):
            self._has_content = True
        if reason == "stop":
            self._check_content(reason)
        calls = self._calls if reason == "stop" else 0
        if reason == "stop" and not calls and self._answer.refused:
            reason = "refusal"
        counts = response.get("usage")
        usage = read_usage(counts) if isinstance(counts, dict) else None
        return [*events, *self._end(reason, calls=calls, usage=usage)]


def _item_key(event: Mapping[str, Any], item: Mapping[str, Any]) -> int | str:
    """Return the key of an item: its position in the output, else its id."""
    index = event.get("output_index")
    return index if isinstance(index, int) else str(event.get("item_id") or item.get("id") or "")


def _reason(response: Mapping[str, Any], status: str) -> FinishReason:
    if "incomplete" not in (status, response.get("status")):
        return "stop"
    raw = text_in(object_in(response, "incomplete_details"), "reason")
    return _INCOMPLETE_REASONS.get(raw, "other")


def read_usage(counts: Mapping[str, Any]) -> Usage:
    """Return token counts that do not overlap; on the wire the input includes the cached tokens."""
    number = partial(count_at, counts)
    prompt, read = number("input_tokens"), number("input_tokens_details", "cached_tokens")
    written = number("input_tokens_details", "cache_write_tokens")
    return Usage(
        input=None if prompt is None else max(0, prompt - (read or 0) - (written or 0)),
        cache_read=read,
        cache_write=written,
        output=number("output_tokens"),
        reasoning=number("output_tokens_details", "reasoning_tokens"),
        cost=cost(counts.get("cost")),
    )
