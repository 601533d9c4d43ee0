"""The stream of Gemini: each response has some more parts of the answer. No I/O.

The finish reason is the API's only end mark; the end of the bytes is none. Signed parts keep their
position and boundaries, and are sent back as they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any, Unpack

import attrs
from typing_extensions import override

from eca_protocol import json
from eca_server.json_members import list_in, object_in, text_in
from eca_server.models.backend import BackendError
from eca_server.models.calls import complete_call
from eca_server.models.errors import error_in_payload
from eca_server.models.events import (
    Event,
    FinishReason,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    ServerTool,
    TextDelta,
    Usage,
)
from eca_server.models.history import BlockPart
from eca_server.models.stream_decoder import (
    Citations,
    DecoderOptions,
    StreamDecoder,
    count_at,
    decoded_image,
)

_SPELLINGS: Mapping[FinishReason, tuple[str, ...]] = {
    "stop": ("STOP",),
    "length": ("MAX_TOKENS",),
    "content_filter": (
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    ),
}
_REASONS = {raw: reason for reason, spellings in _SPELLINGS.items() for raw in spellings}

MODEL_ERRORS = frozenset(
    (
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    )
)
"""Finish reasons of an answer that the model did not intend."""

_FIELDS = frozenset(("candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"))
_SERVER_TOOLS: Mapping[str, bool] = {
    "executableCode": False,
    "codeExecutionResult": True,
    "toolCall": False,
    "toolResponse": True,
}
"""Parts of the provider's own tools; True: the part ends the tool's run."""


class GeminiDecoder(StreamDecoder):
    """The decoder of one answer.

    Args:
        names: the names of tools by their names on the wire, where they differ.
    """

    def __init__(
        self, *, names: Mapping[str, str] | None = None, **options: Unpack[DecoderOptions]
    ) -> None:
        super().__init__(**options)
        self._names = names or {}
        self._calls = 0
        self._thought: str | None = None
        self._server_tools: dict[str, ServerTool] = {}
        self._server_tools_used = False
        self._citations = Citations()
        self._counts: Any = None
        self._raw_reason = ""
        self._finish_words = ""

    @override
    def _end_mark(self) -> list[Event]:
        return []  # sources may follow

    @override
    def _text_delta(self, value: Any) -> list[Event] | None:
        if self._thought is not None or not self.started:
            return None
        try:
            [candidate] = value["candidates"]
            [part] = candidate["content"]["parts"]
            text = part["text"]
            plain = (
                len(part) == 1
                and len(candidate) == 2
                and candidate["index"] == 0
                and "error" not in value
            )
        except (KeyError, TypeError, ValueError):
            return None
        if not plain or type(text) is not str or not text:
            return None
        if "usageMetadata" in value:
            self._counts = value["usageMetadata"]
        self._has_content = True
        return [TextDelta(text)]

    @override
    def _decode(self, value: Any, name: str) -> Iterable[Event]:
        """Decode a response, or an array with all responses of a stream."""
        if isinstance(value, list):
            return chain.from_iterable(map(self._response, value))
        return self._response(value)

    def _response(self, chunk: Any) -> list[Event]:
        if error := error_in_payload(chunk):
            raise error
        if not self.started and not chunk.keys() & _FIELDS:
            excerpt = json.dumps(chunk)[:100].decode("utf-8", "replace")
            raise BackendError("protocol", f"expected an answer of Gemini, got {excerpt}")
        names = {"id": chunk.get("responseId") or None, "model": chunk.get("modelVersion") or None}
        events = self._start(names)
        self._counts = chunk.get("usageMetadata", self._counts)
        _check_prompt(object_in(chunk, "promptFeedback"))
        for candidate in list_in(chunk, "candidates"):
            if isinstance(candidate, dict) and not candidate.get("index"):
                events += self._candidate(candidate)
        return events

    @override
    def _finish(self) -> list[Event]:
        events = [*self._end_thought(), *self._end_server_tools()]
        reason = _REASONS.get(self._raw_reason, "other")
        if not self._calls:
            self._check_content(reason)
        usage = read_usage(self._counts) if isinstance(self._counts, dict) else None
        return [*events, *self._end(reason, calls=self._calls, usage=usage)]

    @override
    def _check_content(self, reason: FinishReason, message: str = "") -> None:
        reason_text = self._raw_reason + (f": {self._finish_words}" if self._finish_words else "")
        if self._raw_reason in MODEL_ERRORS:
            text = f"the model wrote an unreadable answer ({reason_text})"
            raise BackendError("protocol", text, code=self._raw_reason)
        if reason == "content_filter" and not self._has_content:
            text = f"the answer was blocked ({reason_text})"
            raise BackendError("content_filter", text, code=self._raw_reason)
        super()._check_content(reason, f"the model answered nothing ({reason_text})")

    def _candidate(self, candidate: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = []
        for part in list_in(object_in(candidate, "content"), "parts"):
            if isinstance(part, dict):  # gateways write absent fields as nulls
                events += self._part({k: v for k, v in part.items() if v is not None})
        events += self._sources(candidate)
        reason = text_in(candidate, "finishReason")
        if reason and reason != "FINISH_REASON_UNSPECIFIED":
            self.finish_seen = True
            self._raw_reason = reason
            self._finish_words = text_in(candidate, "finishMessage")
            events += self._end_thought()
        return events

    def _sources(self, candidate: Mapping[str, Any]) -> list[Event]:
        """Emit the pages and the search, unless the search is a part of the answer."""
        events: list[Event] = []
        grounding = object_in(candidate, "groundingMetadata")
        queries = list_in(grounding, "webSearchQueries")
        if not self._server_tools_used and any(isinstance(query, str) for query in queries):
            events += [
                ServerTool(kind="web_search", phase="started"),
                ServerTool(kind="web_search", phase="finished"),
            ]
        pages = [object_in(chunk, "web") for chunk in list_in(grounding, "groundingChunks")]
        for source in (*pages, *list_in(object_in(candidate, "citationMetadata"), "citations")):
            events += self._citations.cite(text_in(source, "uri"), text_in(source, "title"))
        return events

    def _part(self, part: dict[str, Any]) -> list[Event]:
        extra = {k: v for k, v in part.items() if k not in ("text", "thought")}
        match part:
            case {"functionCall": dict(call)}:
                text = self._add_text(text_in(part, "text"), {})
                return [*text, *self._end_thought(), *self._call(call, part)]
            case {"text": str(text), "thought": True}:
                return self._add_thought(text, extra)
            case {"text": str(text)}:
                return self._add_text(text, extra)
            case {"inlineData": {"mimeType": str(kind), "data": str(data)}} if (
                kind.startswith("image/") and part.get("thought") is not True
            ):
                return [*self._end_thought(), *self._image(kind, data, extra)]
            case {"thoughtSignature": _} if len(part) == 1:
                return self._add_text("", extra)  # a part must not be empty when it is sent back
        tool = next((name for name in _SERVER_TOOLS if isinstance(part.get(name), dict)), None)
        events = self._end_thought()
        if tool is not None:
            events += self._server_tool(tool, part[tool])
        return [*events, *self._raw_block("part", part)]

    def _raw_block(self, what: str, raw: Any) -> list[Event]:
        """Emit a value to be sent back: a `part`, or the signature of the `picture` before it."""
        return [BlockPart(raw={what: raw})] if raw else []

    def _add_text(self, text: str, extra: Mapping[str, Any]) -> list[Event]:
        if not text and not extra:
            return []
        events = self._end_thought()
        if text:
            self._has_content = True
            events.append(TextDelta(text))
        return [*events, *self._raw_block("part", {"text": text, **extra} if extra else None)]

    def _add_thought(self, text: str, extra: Mapping[str, Any]) -> list[Event]:
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
        name = text_in(call, "name")
        if not name:
            raise BackendError("protocol", "a tool call came without a name")
        arguments = call.get("args")
        raw = "" if arguments is None else json.dumps(arguments).decode()
        signed = {k: v for k, v in part.items() if k not in ("functionCall", "text")}
        self._calls += 1
        self._has_content = True
        return complete_call(
            self._new_key(),
            self._names.get(name, name),
            raw,
            provider_id=text_in(call, "id") or None,
            opaque=_opaque(signed),
        )

    def _image(self, kind: str, data: str, extra: Mapping[str, Any]) -> list[Event]:
        image = decoded_image(kind, data)
        self._has_content = True
        signed = {name: value for name, value in extra.items() if name != "inlineData"}
        return [image, *self._raw_block("picture", signed)]

    def _server_tool(self, tool: str, value: Mapping[str, Any]) -> list[Event]:
        tool_id = text_in(value, "id")
        events: list[Event] = []
        if (tool_start := self._server_tools.pop(tool_id, None)) is not None:
            events.append(attrs.evolve(tool_start, phase="finished"))
        if not _SERVER_TOOLS[tool]:
            self._server_tools_used = True
            kind = text_in(value, "toolType").lower() or "code_execution"
            tool_start = ServerTool(kind=kind, phase="started")
            self._server_tools[tool_id] = tool_start
            events.append(tool_start)
        return events

    def _end_server_tools(self) -> list[Event]:
        events = [
            attrs.evolve(tool_start, phase="finished") for tool_start in self._server_tools.values()
        ]
        self._server_tools.clear()
        return list(events)


def _opaque(signed: Mapping[str, Any] | None) -> Any:
    """Return the fields that are sent back with a part of our own format."""
    return {"part": signed} if signed else None


def _check_prompt(feedback: Mapping[str, Any]) -> None:
    reason = text_in(feedback, "blockReason")
    if reason and reason != "BLOCKED_REASON_UNSPECIFIED":
        detail = text_in(feedback, "blockReasonMessage")
        message = f"the prompt was blocked ({reason}{f': {detail}' if detail else ''})"
        raise BackendError("content_filter", message, code=reason)


def read_usage(counts: Mapping[str, Any]) -> Usage:
    """Return token counts that do not overlap; on the wire only thoughts are counted apart."""
    number = partial(count_at, counts)
    prompt, read = number("promptTokenCount"), number("cachedContentTokenCount")
    answer, thought = number("candidatesTokenCount"), number("thoughtsTokenCount")
    uncached = (prompt or 0) - (read or 0) + (number("toolUsePromptTokenCount") or 0)
    return Usage(
        input=None if prompt is None else max(0, uncached),
        cache_read=read,
        output=None if answer is None and thought is None else (answer or 0) + (thought or 0),
        reasoning=thought,
    )
