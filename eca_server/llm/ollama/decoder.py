"""The stream of Ollama's own API: one object a line. No I/O.

Only `done` ends an answer. Calls count in any object. An absent count is unknown, not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.sse import SSEvent
from eca_server.llm.backend import BackendError
from eca_server.llm.calls import new_call_key, read_arguments
from eca_server.llm.counts import token_count
from eca_server.llm.errors import error_in_payload
from eca_server.llm.events import (
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)
from eca_server.llm.think_tags import THINK_TAGS, ThinkTags

__all__ = ["OllamaDecoder"]

_REASONS: Mapping[str, FinishReason] = {"": "stop", "stop": "stop", "length": "length"}


class OllamaDecoder:
    """The objects of one answer in, our events out; an `answer_body.Decoder`.

    Args:
        context: the context size of the loaded model, in tokens; None: unknown.
        tags: the tags around reasoning in a text; None: the usual ones.
        may_be_empty: accept an answer without content (after tool results it means that the model
            has nothing to add).
        new_key: makes the keys of tool calls.
    """

    def __init__(
        self,
        *,
        context: int | None = None,
        tags: tuple[str, str] | None = None,
        may_be_empty: bool = False,
        new_key: Callable[[], str] = new_call_key,
    ) -> None:
        self.started = False
        self.finish_seen = False
        self.done = False
        self._context = context
        self._may_be_empty = may_be_empty
        self._new_key = new_key
        self._tags: ThinkTags | None = ThinkTags(tags=tags or THINK_TAGS)
        self._reasonings = 0
        self._reasoning_open = False
        self._calls = 0
        self._has_content = False
        self._plain = False  # no block is open and no text held back

    def feed(self, event: SSEvent) -> list[Event]:
        """Decode an event: some gateways send the objects as events."""
        try:
            value = json.loads(event.data)
        except InvalidJSON as fault:
            message = f"not JSON in the stream ({fault}): {event.data[:200]}"
            raise BackendError("protocol", message) from None
        return self.feed_object(value)

    def feed_object(self, value: Any) -> list[Event]:
        """Decode an object of the stream."""
        if self.done:
            return []
        if self._plain:
            try:  # the plain text delta, which is nearly all of a stream
                message = value["message"]
                text = message["content"]
                if type(text) is str and text and len(message) == 2 and value["done"] is False:
                    return [TextDelta(text)]
            except (KeyError, TypeError):
                pass
        return self._object(value)

    def close(self) -> list[Event]:
        """Raise BackendError unless the answer has ended."""
        if not self.done:
            message = "the answer broke off before its end"
            raise BackendError("premature_stop", message, retryable=True)
        return []

    def _object(self, value: Any) -> list[Event]:
        if error := error_in_payload(value):
            raise error
        events: list[Event] = []
        if not self.started:
            self.started = True
            model = value.get("model")
            events.append(Started(model=model if isinstance(model, str) else None))
        message = value.get("message")
        if isinstance(message, dict):
            events += self._message(message)
        return [*events, *self._finish(value)] if value.get("done") is True else events

    def _message(self, message: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = []
        if isinstance(thought := message.get("thinking"), str) and thought:
            events += [*self._end_tags(), *self._reason(thought)]
        if isinstance(content := message.get("content"), str):
            events += self._content(content)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            events += self._call(call)
        return events

    def _content(self, content: str) -> list[Event]:
        """Decode text; it contains reasoning between tags if Ollama does not know the template."""
        if self._tags is None or not content:
            return self._text(content)
        thought, text = self._tags.feed(content)
        if self._tags.done:
            self._tags = None
        return [*self._reason(thought), *self._text(text)]

    def _end_tags(self) -> list[Event]:
        """Emit the text that was held back as a possible tag; later text has no tags."""
        if self._tags is None:
            return []
        thought, text = self._tags.close()
        self._tags = None
        return [*self._reason(thought), *self._text(text)]

    def _text(self, text: str) -> list[Event]:
        if not text:
            return []
        self._has_content = True
        self._plain = self._tags is None
        return [*self._end_reasoning(), TextDelta(text)]

    def _reason(self, thought: str) -> list[Event]:
        if not thought:
            return []
        self._has_content = True
        events: list[Event] = []
        if not self._reasoning_open:
            self._reasonings += 1
            self._reasoning_open, self._plain = True, False
            events.append(ReasoningStarted(f"reasoning_{self._reasonings}"))
        return [*events, ReasoningDelta(f"reasoning_{self._reasonings}", thought)]

    def _end_reasoning(self) -> list[Event]:
        if not self._reasoning_open:
            return []
        self._reasoning_open = False
        return [ReasoningFinished(key=f"reasoning_{self._reasonings}")]

    def _call(self, call: Any) -> list[Event]:
        function = call.get("function") if isinstance(call, dict) else None
        function = function if isinstance(function, dict) else {}
        name = function.get("name")
        if not isinstance(name, str) or not name:
            excerpt = json.dumps(call)[:200].decode("utf-8", "replace")
            raise BackendError("protocol", f"expected a tool call with a name, got {excerpt}")
        self._has_content = True
        written = function.get("arguments")
        raw = written if isinstance(written, str) else json.dumps(written or {}).decode()
        arguments, error = read_arguments(raw, truncated=False)
        provider_id = call.get("id")
        key = self._new_key()
        start = ToolCallStarted(
            key=key, name=name, provider_id=provider_id if isinstance(provider_id, str) else None
        )
        pieces = [ToolCallArguments(key, raw)] if raw else []
        finish = ToolCallFinished(key=key, raw=raw, arguments=arguments, error=error)
        self._calls += 1
        return [*self._end_reasoning(), start, *pieces, finish]

    def _finish(self, value: Mapping[str, Any]) -> list[Event]:
        events = [*self._end_tags(), *self._end_reasoning()]
        raw_reason = value.get("done_reason")
        raw_reason = raw_reason if isinstance(raw_reason, str) else None
        reason = _REASONS.get(raw_reason or "", "other")
        if not self._has_content and not self._may_be_empty and reason != "length":
            message = "the model answered nothing; the prompt may be longer than its context"
            raise BackendError("empty_response", message, retryable=True)
        usage = Usage(input=_count(value, "prompt_eval_count"), output=_count(value, "eval_count"))
        if usage != Usage():
            events.append(usage)
        if reason == "length" and self._is_full(usage):
            reason = "context_window"
        elif self._calls and reason in ("stop", "other"):
            reason = "tool_calls"
        self.finish_seen = self.done = True
        return [*events, Finished(reason=reason, raw_reason=raw_reason)]

    def _is_full(self, usage: Usage) -> bool:
        used = (usage.input or 0) + (usage.output or 0)
        return self._context is not None and used >= self._context - 1


def _count(value: Mapping[str, Any], name: str) -> int | None:
    """Read a number of tokens; Ollama omits 0 and unknown alike."""
    return token_count(value.get(name))
