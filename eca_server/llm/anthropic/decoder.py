"""The stream of the Messages API. No I/O.

`message_stop` ends an answer; for servers without it, a stop reason does; the end of the bytes does
not. Token counts are replaced, never added up. Unknown events are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.sse import SSEvent
from eca_server.llm.anthropic.blocks import Blocks
from eca_server.llm.backend import BackendError
from eca_server.llm.calls import new_call_key
from eca_server.llm.counts import token_count
from eca_server.llm.errors import error_in_payload
from eca_server.llm.events import (
    Event,
    Finished,
    FinishReason,
    Progress,
    RefusalDelta,
    Started,
    Usage,
)

__all__ = ["MessagesDecoder"]

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

_BEFORE_STARTED = ("message_start", "message", "ping")
"""Events that emit `Started` themselves, or may precede it."""


class MessagesDecoder:
    """Server-sent events of one answer in, our events out.

    Args:
        may_be_empty: accept an answer without content (after tool results it means that the model
            has nothing to add).
        request_id: reported in `Started`.
        new_key: makes the keys of tool calls.

    Attributes:
        started: `Started` was emitted.
        finish_seen: a stop reason came; only counts and `message_stop` may follow.
        done: `Finished` was emitted; nothing follows.
    """

    def __init__(
        self,
        *,
        may_be_empty: bool = False,
        request_id: str | None = None,
        new_key: Callable[[], str] = new_call_key,
    ) -> None:
        self.started = False
        self.finish_seen = False
        self.done = False
        self._may_be_empty = may_be_empty
        self._request_id = request_id
        self._blocks = Blocks(new_key)
        self._counts: dict[str, Any] = {}
        self._raw_reason: str | None = None
        self._stop_details: Any = None
        blocks = self._blocks
        self._handlers: Mapping[str, Callable[[Mapping[str, Any]], list[Event]]] = {
            "message_start": self._begin,
            "content_block_start": lambda v: blocks.begin(_index(v), v.get("content_block")),
            "content_block_delta": self._add,
            "content_block_stop": lambda v: blocks.end(_index(v)),
            "message_delta": self._update,
            "message_stop": lambda _: self._finish(),
            "message": self._whole,
            "ping": lambda _: [Progress("ping")],
        }

    def feed(self, event: SSEvent) -> list[Event]:
        """Decode the next event of the stream.

        Raises:
            BackendError: the stream carries an error, or is unreadable.
        """
        if self.done:
            return []
        data = event.data
        try:
            value = json.loads(data)
        except InvalidJSON as fault:
            if data.strip() == "[DONE]":  # sent by gateways that also speak other APIs
                return self.close()
            excerpt = data[:200]
            raise BackendError("protocol", f"not JSON in the stream ({fault}): {excerpt}") from None
        return self._take(value, event.event)

    def feed_object(self, value: Any) -> list[Event]:
        """Decode a JSON value: an event of the stream, or a whole answer.

        Raises:
            BackendError: as `feed`.
        """
        return [] if self.done else self._take(value, "")

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

    def _take(self, value: Any, name: str) -> list[Event]:
        """Decode a value; `name` is its event's, for servers that leave out `type`."""
        if isinstance(value, dict) and not value.get("error"):
            kind = value.get("type")
            name = kind if isinstance(kind, str) else name
        else:
            name = "error"
        if name == "content_block_delta" and self.started:  # nearly all of a stream
            return self._add(value)
        handle = self._handlers.get(name)
        if handle is not None:
            opening = [] if self.started or name in _BEFORE_STARTED else self._start_once()
            return opening + handle(value)
        if error := error_in_payload(value, failed=name == "error"):
            raise error
        return []

    def _add(self, value: Mapping[str, Any]) -> list[Event]:
        delta = value.get("delta")
        return self._blocks.add(_index(value), delta if isinstance(delta, dict) else {})

    def _start_once(self, message: Mapping[str, Any] | None = None) -> list[Event]:
        """Return `Started` if it was not emitted yet."""
        if self.started:
            return []
        self.started = True
        names = message or {}
        response_id, model = names.get("id"), names.get("model")
        return [
            Started(
                response_id=response_id if isinstance(response_id, str) else None,
                model=model if isinstance(model, str) else None,
                request_id=self._request_id,
            )
        ]

    def _begin(self, value: Mapping[str, Any]) -> list[Event]:
        message = value.get("message")
        message = message if isinstance(message, dict) else {}
        self._count(message.get("usage"))
        return [*self._start_once(message), *([self._usage()] if self._counts else [])]

    def _whole(self, message: Mapping[str, Any]) -> list[Event]:
        """Decode an answer that was not streamed."""
        self._count(message.get("usage"))
        events = self._start_once(message)
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            events += [*self._blocks.begin(index, block), *self._blocks.end(index)]
        self._reason(message)
        return [*events, *self._finish()]

    def _update(self, value: Mapping[str, Any]) -> list[Event]:
        self._count(value.get("usage"))
        self._reason(value.get("delta"))
        return []

    def _reason(self, delta: Any) -> None:
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if isinstance(reason, str) and reason:
            self.finish_seen = True
            self._raw_reason = reason
            self._stop_details = delta.get("stop_details")

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._counts |= {name: count for name, count in usage.items() if count is not None}

    def _usage(self) -> Usage:
        """Return the counts so far; the API counts cache reads and writes apart from the input."""

        def number(*path: str) -> int | None:
            value: Any = self._counts
            for name in path:
                value = value.get(name) if isinstance(value, dict) else None
            return token_count(value)

        return Usage(
            input=number("input_tokens"),
            cache_read=number("cache_read_input_tokens"),
            cache_write=number("cache_creation_input_tokens"),
            output=number("output_tokens"),
            reasoning=number("output_tokens_details", "thinking_tokens"),
        )

    def _finish(self) -> list[Event]:
        reason = _REASONS.get((self._raw_reason or "").lower(), "other")
        if not self._blocks.any and not self._may_be_empty and reason in ("stop", "other"):
            message = "the model answered nothing; the prompt may be longer than its context"
            raise BackendError("empty_response", message, retryable=True)
        events = self._blocks.finish(truncated=reason in ("length", "context_window"))
        if self._blocks.calls and reason in ("stop", "other", "pause"):
            reason = "tool_calls"
        elif not self._blocks.calls and reason == "tool_calls":
            reason = "other"
        if reason == "refusal":
            events.append(RefusalDelta(self._refusal()))
        if self._counts:
            events.append(self._usage())
        self.done = True
        return [*events, Finished(reason=reason, raw_reason=self._raw_reason)]

    def _refusal(self) -> str:
        details = self._stop_details if isinstance(self._stop_details, dict) else {}
        category, explanation = details.get("category"), details.get("explanation")
        why = f" ({category})" if category else ""
        return f"The model refused to answer{why}. {explanation or ''}".rstrip()


def _index(value: Mapping[str, Any]) -> int:
    index = value.get("index")
    return index if isinstance(index, int) else 0
