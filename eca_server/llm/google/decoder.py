"""The stream of Gemini: whole responses, each with some more parts of the answer. No I/O.

The rules it keeps, beside those of the events: the finish reason is the API's only mark, the end
of the bytes is none; what is signed keeps its place and its own bounds, and goes back as it came.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import attrs

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.sse import SSEvent
from eca_server.llm.backend import BackendError
from eca_server.llm.calls import new_call_key, read_arguments
from eca_server.llm.counts import token_count
from eca_server.llm.errors import error_in_payload
from eca_server.llm.events import (
    Block,
    Event,
    Finished,
    FinishReason,
    Image,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    ServerTool,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)
from eca_server.llm.google.sources import Sources

__all__ = ["MISTAKES", "GeminiDecoder", "read_usage"]

_SPELLINGS: Mapping[FinishReason, tuple[str, ...]] = {
    "stop": ("STOP",),
    "length": ("MAX_TOKENS",),
    "content_filter": (
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    ),
}
_REASONS = {raw: reason for reason, spellings in _SPELLINGS.items() for raw in spellings}

MISTAKES = frozenset(
    (
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    )
)
"""Finish reasons that mean: what came is not what the model meant to say."""

_FIELDS = frozenset(("candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"))
_SERVER_TOOLS: Mapping[str, bool] = {
    "executableCode": False,
    "codeExecutionResult": True,
    "toolCall": False,
    "toolResponse": True,
}
"""Parts that tell of the provider's own tools; whether they are an end."""


class GeminiDecoder:
    """Server-sent events of one answer in, our events out.

    Args:
        names: of tools, by what they are called on the wire, where that differs.
        may_be_empty: whether an answer without any content is fine (after tool results it means
            that the model has nothing to add).
        new_key: makes the keys of tool calls and of reasoning.

    Attributes:
        started: `Started` was given.
        finish_seen: a finish reason came; what may follow is token counts and sources.
        done: `Finished` was given; nothing follows.
    """

    def __init__(
        self,
        *,
        names: Mapping[str, str] | None = None,
        may_be_empty: bool = False,
        new_key: Callable[[], str] = new_call_key,
    ) -> None:
        self.started = False
        self.finish_seen = False
        self.done = False
        self._names = names or {}
        self._may_be_empty = may_be_empty
        self._new_key = new_key
        self._has_content = False
        self._calls = 0
        self._blocks = 0
        self._thought: str | None = None
        self._server_tools: dict[str, ServerTool] = {}
        self._server_tools_used = 0
        self._sources = Sources()
        self._counts: Any = None
        self._raw_reason = ""
        self._finish_words = ""

    def feed(self, event: SSEvent) -> Iterable[Event]:
        """Takes the next event of the stream.

        Raises:
            BackendError: the stream carries an error, or what cannot be read.
        """
        data = event.data
        try:
            value = json.loads(data)
        except InvalidJSON as fault:
            if data.strip() == "[DONE]":
                return []  # a server in between added it
            excerpt = data[:200]
            raise BackendError("protocol", f"not JSON in the stream ({fault}): {excerpt}") from None
        return self._fast(value) or self.feed_object(value)

    def feed_object(self, value: Any) -> Iterable[Event]:
        """Takes a response that is JSON already, or all of a stream's as one array.

        Raises:
            BackendError: as `feed`.
        """
        if isinstance(value, list):
            return chain.from_iterable(map(self._response, value))
        return self._response(value)

    def close(self) -> list[Event]:
        """Takes the end of the bytes.

        Raises:
            BackendError: `premature_stop`, the answer had not come to its end; or what it ended
                with is no answer.
        """
        if self.done:
            return []
        if not self.finish_seen:
            raise BackendError(
                "premature_stop", "the answer broke off before its end", retryable=True
            )
        events = [*self._end_thought(), *self._end_server_tools()]
        reason = _REASONS.get(self._raw_reason, "other")
        if self._calls:
            reason = "tool_calls" if reason in ("stop", "other") else reason
        else:
            self._check_content(reason)
        if isinstance(self._counts, dict):
            events.append(read_usage(self._counts))
        self.done = True
        return [*events, Finished(reason=reason, raw_reason=self._raw_reason)]

    def _check_content(self, reason: FinishReason) -> None:
        ended = self._raw_reason + (f": {self._finish_words}" if self._finish_words else "")
        if self._raw_reason in MISTAKES:
            words = f"the model wrote what cannot be read ({ended})"
            raise BackendError("protocol", words, code=self._raw_reason)
        if self._has_content:
            return
        if reason == "content_filter":
            words = f"the answer was held back ({ended})"
            raise BackendError("content_filter", words, code=self._raw_reason)
        if reason != "length" and not self._may_be_empty:
            raise BackendError(
                "empty_response", f"the model answered nothing ({ended})", retryable=True
            )

    def _fast(self, chunk: Any) -> list[Event] | None:
        """Some more plain text, which is nearly all of a stream; None for everything else."""
        if self._thought is not None or not self.started:
            return None
        try:
            [candidate] = chunk["candidates"]
            [part] = candidate["content"]["parts"]
            text = part["text"]
            plain = (
                len(part) == 1
                and len(candidate) == 2
                and candidate["index"] == 0
                and "error" not in chunk
            )
        except (KeyError, TypeError, ValueError):
            return None
        if not plain or type(text) is not str or not text:
            return None
        if "usageMetadata" in chunk:
            self._counts = chunk["usageMetadata"]
        self._has_content = True
        self._sources.text.append(text)
        return [TextDelta(text)]

    def _response(self, chunk: Any) -> list[Event]:
        if error := error_in_payload(chunk):
            raise error
        events: list[Event] = []
        if not self.started:
            if not chunk.keys() & _FIELDS:
                excerpt = json.dumps(chunk)[:100].decode("utf-8", "replace")
                raise BackendError("protocol", f"expected an answer of Gemini, got {excerpt}")
            self.started = True
            made = _text(chunk, "responseId") or None, _text(chunk, "modelVersion") or None
            events.append(Started(response_id=made[0], model=made[1]))
        self._counts = chunk.get("usageMetadata", self._counts)
        _check_prompt(_object(chunk, "promptFeedback"))
        for candidate in _items(chunk, "candidates"):
            if isinstance(candidate, dict) and not candidate.get("index"):
                events += self._candidate(candidate)
        return events

    def _candidate(self, candidate: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = []
        for part in _items(_object(candidate, "content"), "parts"):
            if isinstance(part, dict):
                events += self._part(part)
        events += self._sources.read(candidate, searches=not self._server_tools_used)
        reason = _text(candidate, "finishReason")
        if reason and reason != "FINISH_REASON_UNSPECIFIED":
            self.finish_seen = True
            self._raw_reason = reason
            self._finish_words = _text(candidate, "finishMessage")
            events += self._end_thought()
        return events

    def _part(self, part: dict[str, Any]) -> list[Event]:
        extra = {k: v for k, v in part.items() if k not in ("text", "thought")}
        match part:
            case {"text": str(text), "thought": True}:
                return self._think(text, extra)
            case {"text": str(text)}:
                return self._say(text, extra)
            case {"functionCall": dict(call)}:
                return [*self._end_thought(), *self._call(call, part)]
            case {"inlineData": {"mimeType": str(kind), "data": str(data)}} if (
                kind.startswith("image/") and part.get("thought") is not True
            ):
                return [*self._end_thought(), *self._image(kind, data, extra)]
            case {"thoughtSignature": _} if len(part) == 1:
                return self._say("", extra)  # a part has to be something when it goes back
        told = next((name for name in _SERVER_TOOLS if isinstance(part.get(name), dict)), None)
        events = self._end_thought()
        if told is not None:
            events += self._server_tool(told, part[told])
        return [*events, *self._kept("part", part)]

    def _kept(self, what: str, raw: Any) -> list[Event]:
        """What goes back as it is: a `part`, or what belongs to the `picture` before."""
        if not raw:
            return []
        self._blocks += 1
        return [Block(raw={what: raw}, position=self._blocks - 1)]

    def _say(self, text: str, extra: Mapping[str, Any]) -> list[Event]:
        if not text and not extra:
            return []
        events = self._end_thought()
        if text:
            self._has_content = True
            self._sources.text.append(text)
            events.append(TextDelta(text))
        return [*events, *self._kept("part", {"text": text, **extra} if extra else None)]

    def _think(self, text: str, extra: Mapping[str, Any]) -> list[Event]:
        events = self._end_thought() if extra else []
        if not text and not extra:
            return []
        if self._thought is None:
            self._thought = f"reasoning_{self._new_key()}"
            events.append(ReasoningStarted(self._thought))
        if text:
            events.append(ReasoningDelta(self._thought, text))
        return [*events, *self._end_thought(extra)] if extra else events

    def _end_thought(self, signed: Mapping[str, Any] | None = None) -> list[Event]:
        if self._thought is None:
            return []
        key, self._thought = self._thought, None
        return [ReasoningFinished(key=key, opaque=_opaque(signed))]

    def _call(self, call: Mapping[str, Any], part: Mapping[str, Any]) -> list[Event]:
        name = _text(call, "name")
        if not name:
            raise BackendError("protocol", "a tool call came without a name")
        key, given = self._new_key(), call.get("args")
        raw = "" if given is None else json.dumps(given).decode()
        arguments, error = read_arguments(raw, truncated=False)
        signed = {name: value for name, value in part.items() if name != "functionCall"}
        self._calls += 1
        self._has_content = True
        return [
            ToolCallStarted(
                key=key,
                name=self._names.get(name, name),
                provider_id=_text(call, "id") or None,
            ),
            *([ToolCallArguments(key, raw)] if raw else []),
            ToolCallFinished(
                key=key, raw=raw, arguments=arguments, error=error, opaque=_opaque(signed)
            ),
        ]

    def _image(self, kind: str, data: str, extra: Mapping[str, Any]) -> list[Event]:
        try:
            decoded = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise BackendError("protocol", "an image came that is no base64") from None
        self._has_content = True
        signed = {name: value for name, value in extra.items() if name != "inlineData"}
        return [Image(media_type=kind, data=decoded), *self._kept("picture", signed)]

    def _server_tool(self, told: str, value: Mapping[str, Any]) -> list[Event]:
        tool_id = _text(value, "id")
        events: list[Event] = []
        if (begun := self._server_tools.pop(tool_id, None)) is not None:
            events.append(attrs.evolve(begun, phase="finished"))
        if not _SERVER_TOOLS[told]:
            self._server_tools_used += 1
            key = f"tool_{self._server_tools_used}"
            kind = _text(value, "toolType").lower() or "code_execution"
            begun = ServerTool(key=key, kind=kind, phase="started")
            self._server_tools[tool_id] = begun
            events.append(begun)
        return events

    def _end_server_tools(self) -> list[Event]:
        events = [attrs.evolve(begun, phase="finished") for begun in self._server_tools.values()]
        self._server_tools.clear()
        return list(events)


def _opaque(signed: Mapping[str, Any] | None) -> Any:
    """What goes back with a part that is told in our own words."""
    return {"part": signed} if signed else None


def _check_prompt(feedback: Mapping[str, Any]) -> None:
    reason = _text(feedback, "blockReason")
    if reason and reason != "BLOCKED_REASON_UNSPECIFIED":
        told = _text(feedback, "blockReasonMessage")
        words = f"the prompt was blocked ({reason}{f': {told}' if told else ''})"
        raise BackendError("content_filter", words, code=reason)


def read_usage(counts: Mapping[str, Any]) -> Usage:
    """Token counts in parts that do not overlap, as here only thoughts do not."""

    def number(name: str) -> int | None:
        return token_count(counts.get(name))

    prompt, read = number("promptTokenCount"), number("cachedContentTokenCount")
    said, thought = number("candidatesTokenCount"), number("thoughtsTokenCount")
    uncached = (prompt or 0) - (read or 0) + (number("toolUsePromptTokenCount") or 0)
    return Usage(
        input=None if prompt is None else max(0, uncached),
        cache_read=read,
        output=None if said is None and thought is None else (said or 0) + (thought or 0),
        reasoning=thought,
    )


def _object(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def _items(holder: Mapping[str, Any], name: str) -> list[Any]:
    """A list; null, absent or something else altogether is an empty one."""
    value = holder.get(name)
    return value if isinstance(value, list) else []


def _text(holder: Mapping[str, Any], name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""
