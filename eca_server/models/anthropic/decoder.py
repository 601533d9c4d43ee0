"""The stream of the Messages API. No I/O.

`message_stop` ends an answer; for servers without it, a stop reason does; the end of the bytes does
not. Token counts are replaced, never added up. Unknown events are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Unpack

from typing_extensions import override

from eca_server.json_members import list_in, object_in, text_in
from eca_server.models.anthropic.blocks import Blocks
from eca_server.models.errors import error_in_payload
from eca_server.models.events import Event, FinishReason, Progress, RefusalDelta, Usage
from eca_server.models.stream_decoder import DecoderOptions, StreamDecoder, count_at

_SPELLINGS: Mapping[FinishReason, tuple[str, ...]] = {
    "stop": ("end_turn", "stop_sequence", "stop"),
    "tool_calls": ("tool_use", "tool_calls"),
    "length": ("max_tokens", "length"),
    "content_filter": ("content_filter", "sensitive"),
    "refusal": ("refusal",),
    "pause": ("pause_turn",),
    "context_window": ("model_context_window_exceeded",),
}
_REASONS = {raw: reason for reason, spellings in _SPELLINGS.items() for raw in spellings}

_DELTA = "content_block_delta"
_BEFORE_STARTED = ("message_start", "message", "ping")
"""Events that emit `Started` themselves, or may precede it."""


class MessagesDecoder(StreamDecoder):
    """The decoder of one answer."""

    def __init__(self, **options: Unpack[DecoderOptions]) -> None:
        super().__init__(**options)
        self._blocks = blocks = Blocks(self._new_key)
        self._counts: dict[str, Any] = {}
        self._raw_reason: str | None = None
        self._stop_details: Any = None
        self._handlers: Mapping[str, Callable[[Mapping[str, Any]], list[Event]]] = {
            "message_start": self._begin,
            "content_block_start": lambda v: blocks.begin(_index(v), v.get("content_block")),
            _DELTA: self._add,
            "content_block_stop": lambda v: blocks.end(_index(v)),
            "message_delta": self._update,
            "message_stop": lambda _: self._finish(),
            "message": self._whole,
            "ping": lambda _: [Progress("ping")],
        }

    @override
    def _text_delta(self, value: Any) -> list[Event] | None:
        is_usable = self.started and isinstance(value, dict) and not value.get("error")
        return self._add(value) if is_usable and value.get("type") == _DELTA else None

    @override
    def _decode(self, value: Any, name: str) -> list[Event]:
        if isinstance(value, dict) and not value.get("error"):
            kind = value.get("type")  # some servers leave it out
            name = kind if isinstance(kind, str) else name
        else:
            name = "error"
        handle = self._handlers.get(name)
        if handle is not None:
            opening = [] if name in _BEFORE_STARTED else self._start({})
            return opening + handle(value)
        if error := error_in_payload(value, failed=name == "error"):
            raise error
        return []

    def _add(self, value: Mapping[str, Any]) -> list[Event]:
        return self._blocks.add(_index(value), object_in(value, "delta"))

    def _begin(self, value: Mapping[str, Any]) -> list[Event]:
        message = object_in(value, "message")
        self._count(message.get("usage"))
        return [*self._start(message), *([self._usage()] if self._counts else [])]

    def _whole(self, message: Mapping[str, Any]) -> list[Event]:
        self._count(message.get("usage"))
        events = self._start(message)
        for index, block in enumerate(list_in(message, "content")):
            events += [*self._blocks.begin(index, block), *self._blocks.end(index)]
        self._reason(message)
        return [*events, *self._finish()]

    def _update(self, value: Mapping[str, Any]) -> list[Event]:
        self._count(value.get("usage"))
        self._reason(value.get("delta"))
        return []

    def _reason(self, delta: Any) -> None:
        if reason := text_in(delta, "stop_reason"):
            self.finish_seen = True
            self._raw_reason = reason
            self._stop_details = delta.get("stop_details")

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._counts |= {name: count for name, count in usage.items() if count is not None}

    def _usage(self) -> Usage:
        """Return the counts so far; the API counts cache reads and writes apart from the input."""
        number = partial(count_at, self._counts)
        return Usage(
            input=number("input_tokens"),
            cache_read=number("cache_read_input_tokens"),
            cache_write=number("cache_creation_input_tokens"),
            output=number("output_tokens"),
            reasoning=number("output_tokens_details", "thinking_tokens"),
        )

    @override
    def _finish(self) -> list[Event]:
        reason = _REASONS.get((self._raw_reason or "").lower(), "other")
        self._has_content = self._blocks.any
        self._check_content(reason)
        events = self._blocks.finish(truncated=reason in ("length", "context_window"))
        if reason == "refusal":
            gap = "\n\n" if self._blocks.any else ""
            events.append(RefusalDelta(f"{gap}{self._refusal()}"))
        usage = self._usage() if self._counts else None
        return [*events, *self._end(reason, calls=self._blocks.calls, usage=usage)]

    def _refusal(self) -> str:
        category, explanation = (
            text_in(self._stop_details, name) for name in ("category", "explanation")
        )
        why = f" ({category})" if category else ""
        return f"The model refused to answer{why}. {explanation}".rstrip()


def _index(value: Mapping[str, Any]) -> int:
    index = value.get("index")
    return index if isinstance(index, int) else 0
