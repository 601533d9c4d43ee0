"""The stream of Ollama's own API: one object a line. No I/O.

Only `done` ends an answer. Calls count in any object. An absent count is unknown, not zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from typing_extensions import override

from eca_protocol import json
from eca_server.json_members import list_in, object_in, text_in
from eca_server.models.backend import BackendError
from eca_server.models.calls import complete_call
from eca_server.models.errors import error_in_payload
from eca_server.models.events import Event, FinishReason, TextDelta, Usage
from eca_server.models.stream_decoder import DecoderOptions, count_at
from eca_server.models.think_tags import THINK_TAGS, TaggedDecoder, ThinkTags

_REASONS: Mapping[str, FinishReason] = {"": "stop", "stop": "stop", "length": "length"}


class OllamaDecoder(TaggedDecoder):
    """The decoder of one answer; some gateways send the objects as events.

    Args:
        context: the context size of the loaded model, in tokens; None: unknown.
        tags: the tags around reasoning in a text; None: the usual ones.
    """

    def __init__(
        self,
        *,
        context: int | None = None,
        tags: tuple[str, str] | None = None,
        **options: Unpack[DecoderOptions],
    ) -> None:
        super().__init__(tags=ThinkTags(tags=tags or THINK_TAGS), **options)
        self._context = context
        self._calls = 0

    @override
    def _text_delta(self, value: Any) -> list[Event] | None:
        if not self._is_plain:
            return None
        try:
            message = value["message"]
            text = message["content"]
            if type(text) is str and text and len(message) == 2 and value["done"] is False:
                self._has_content = True
                return [TextDelta(text)]
        except (KeyError, TypeError):
            pass
        return None

    @override
    def _decode(self, value: Any, name: str) -> list[Event]:
        if error := error_in_payload(value):
            raise error
        events = self._start({"model": value.get("model")})
        message = value.get("message")
        if isinstance(message, dict):
            events += self._message(message)
        return [*events, *self._end_with(value)] if value.get("done") is True else events

    def _message(self, message: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = []
        if thought := text_in(message, "thinking"):
            events += [*self._end_tags(), *self._reason(thought, "thinking")]
        if isinstance(content := message.get("content"), str):
            events += self._content(content)
        for call in list_in(message, "tool_calls"):
            events += self._call(call)
        return events

    def _call(self, call: Any) -> list[Event]:
        function = object_in(call, "function")
        name = text_in(function, "name")
        if not name:
            excerpt = json.dumps(call)[:200].decode("utf-8", "replace")
            raise BackendError("protocol", f"expected a tool call with a name, got {excerpt}")
        self._has_content = True
        self._calls += 1
        written = function.get("arguments")
        raw = written if isinstance(written, str) else json.dumps(written or {}).decode()
        provider_id = text_in(call, "id") or None
        call_events = complete_call(self._new_key(), name, raw, provider_id=provider_id)
        return [*self._end_reasoning(), *call_events]

    def _end_with(self, value: Mapping[str, Any]) -> list[Event]:
        events = [*self._end_tags(), *self._end_reasoning()]
        reason = _REASONS.get(text_in(value, "done_reason"), "other")
        self._check_content(reason)
        usage = Usage(  # Ollama omits 0 and unknown alike
            input=count_at(value, "prompt_eval_count"),
            output=count_at(value, "eval_count"),
        )
        if reason == "length" and self._is_full(usage):
            reason = "context_window"
        counted = usage if usage != Usage() else None
        return [*events, *self._end(reason, calls=self._calls, usage=counted)]

    def _is_full(self, usage: Usage) -> bool:
        used = (usage.input or 0) + (usage.output or 0)
        return self._context is not None and used >= self._context - 1
