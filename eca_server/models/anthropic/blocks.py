"""The content blocks of a message of the Messages API: pieces in, events out. No I/O.

A block is emitted raw only if it must be sent back as it came and cannot be rebuilt from our parts:
signatures, results of the provider's own tools, a text with its citations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_server.json_members import list_in, text_in
from eca_server.models.backend import BackendError
from eca_server.models.calls import read_arguments
from eca_server.models.events import (
    Event,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    ServerTool,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
)
from eca_server.models.history import BlockPart
from eca_server.models.stream_decoder import Citations

_THOUGHTS = ("thinking", "redacted_thinking")
_PROSE = ("text", *_THOUGHTS)
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
_SERVER_RESULT = "_tool_result"
CALL_FIELDS = ("caller", "toolset_name")
"""Fields of a call that the provider wants back."""


@attrs.define(kw_only=True)
class _OpenBlock:
    """An open block; `start` is its first event, `pieces` are its text or its input's JSON."""

    kind: str
    start: dict[str, Any]
    follows_text: bool
    key: str = ""
    pieces: list[str] = attrs.field(factory=list)
    signature: list[str] = attrs.field(factory=list)
    citations: list[Any] = attrs.field(factory=list)
    unknown_deltas: bool = False


class Blocks:
    """The blocks of one message, by their index.

    Args:
        new_key: makes the keys of tool calls.

    Attributes:
        calls: the number of calls of our tools.
    """

    def __init__(self, new_key: Callable[[], str]) -> None:
        self.calls = 0
        self.any = False
        self._new_key = new_key
        self._open: dict[Any, _OpenBlock] = {}
        self._last_call: _OpenBlock | None = None  # the next event shows whether it was truncated
        self._last_kind = ""
        self._reasonings = 0
        self._citations = Citations()

    def begin(self, index: Any, start: Any) -> list[Event]:
        """Open a block, which may already be complete.

        Raises:
            BackendError: the block is unreadable.
        """
        if not isinstance(start, dict) or not isinstance(start.get("type"), str):
            raise BackendError("protocol", f"expected a content block, got {str(start)[:60]}")
        events = [*self.end(index), *self._finish_call(truncated=False)]
        kind: str = start["type"]
        follows_text = self._last_kind == "text"
        block = _OpenBlock(kind=kind, start=start, follows_text=follows_text)
        self._open[index], self._last_kind = block, kind
        self.any = self.any or kind != "text"
        match kind:
            case "text":
                events += self.add(index, {**start, "type": "text_delta"})
                block.citations += list_in(start, "citations")
            case kind if kind in _THOUGHTS:
                self._reasonings += 1
                block.key = f"reasoning_{self._reasonings}"
                block.signature.append(text_in(start, "signature"))
                events.append(ReasoningStarted(block.key))
                events += self.add(index, {**start, "type": "thinking_delta"})
            case "tool_use":
                name, provider_id = text_in(start, "name"), text_in(start, "id") or None
                if not name:
                    raise BackendError("protocol", "a tool call came without a name")
                self.calls += 1
                block.key = self._new_key()
                events.append(ToolCallStarted(key=block.key, name=name, provider_id=provider_id))
        return events

    def add(self, index: Any, delta: Mapping[str, Any]) -> list[Event]:
        """Add a delta to a block; ignore a type of delta that the block does not have.

        Raises:
            BackendError: the block is not open.
        """
        block = self._open.get(index)
        if block is None:
            raise BackendError("protocol", f"a piece of block {index} came, which was never opened")
        match delta.get("type"):
            case "text_delta" if block.kind == "text":
                if text := text_in(delta, "text"):
                    self.any = True
                    block.pieces.append(text)
                    return [TextDelta(text)]
            case "thinking_delta" if block.kind in _THOUGHTS:
                if thought := text_in(delta, "thinking"):
                    block.pieces.append(thought)
                    return [ReasoningDelta(block.key, thought)]
            case "input_json_delta" if block.kind not in _PROSE:
                if piece := text_in(delta, "partial_json"):
                    block.pieces.append(piece)
                    return [ToolCallArguments(block.key, piece)] if block.key else []
            case "signature_delta":
                block.signature.append(text_in(delta, "signature"))
            case "citations_delta":
                block.citations.append(delta.get("citation"))
            case _:
                block.unknown_deltas = True
        return []

    def end(self, index: Any) -> list[Event]:
        """Close a block; return no events if it is not open."""
        block = self._open.pop(index, None)
        if block is None:
            return []
        events: list[Event] = []
        match block.kind:
            case "text":
                events = self._end_text(block)
            case "thinking":
                opaque: dict[str, Any] = {"signature": "".join(block.signature)}
                events.append(ReasoningFinished(key=block.key, opaque=opaque))
            case "redacted_thinking":
                opaque = {"data": block.start.get("data")}
                events.append(ReasoningFinished(key=block.key, opaque=opaque, redacted=True))
            case "tool_use":
                events = self._finish_call(truncated=False)
                self._last_call = block
                if read_arguments("".join(block.pieces), truncated=True)[1] is None:
                    events += self._finish_call(truncated=False)
            case kind if kind in _SERVER_CALLS:
                events = self._end_server_call(block)
            case kind if kind.endswith(_SERVER_RESULT):
                tool = kind.removesuffix(_SERVER_RESULT)
                events.append(ServerTool(kind=tool, phase="finished", raw=block.start))
            case _ if not block.unknown_deltas:
                events.append(BlockPart(raw=block.start))
        return events

    def finish(self, *, truncated: bool) -> list[Event]:
        """Close the message; `truncated`: it ended at a limit."""
        events = [event for index in list(self._open) for event in self.end(index)]
        return [*events, *self._finish_call(truncated=truncated)]

    def _finish_call(self, *, truncated: bool) -> list[Event]:
        block, self._last_call = self._last_call, None
        if block is None:
            return []
        events: list[Event] = []
        raw = "".join(block.pieces)
        if not raw.strip() and block.start.get("input"):
            raw = json.dumps(block.start["input"]).decode()
            events.append(ToolCallArguments(block.key, raw))
        arguments, error = read_arguments(raw, truncated=truncated)
        opaque = {name: block.start[name] for name in CALL_FIELDS if block.start.get(name)}
        finished = ToolCallFinished(
            key=block.key, raw=raw, arguments=arguments, error=error, opaque=opaque or None
        )
        return [*events, finished]

    def _end_text(self, block: _OpenBlock) -> list[Event]:
        events: list[Event] = []
        for citation in block.citations:
            if isinstance(citation, dict):
                events += self._citations.cite(citation.get("url"), citation.get("title"))
        text = "".join(block.pieces)
        if text.strip() and (block.citations or block.follows_text):
            citations = {"citations": block.citations} if block.citations else {}
            events.append(BlockPart(raw={"type": "text", "text": text, **citations}))
        return events

    def _end_server_call(self, block: _OpenBlock) -> list[Event]:
        written = "".join(block.pieces)
        arguments = block.start.get("input")
        if written.strip():
            try:
                arguments = json.loads(written)
            except InvalidJSON:
                return []  # it was truncated, and is not sent back
        arguments = arguments if isinstance(arguments, dict) else {}
        started = ServerTool(kind=text_in(block.start, "name"), phase="started")
        return [started, BlockPart(raw={**block.start, "input": arguments})]
