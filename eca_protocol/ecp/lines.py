"""What an agent's standard output is made of: messages, and whatever else it prints.

An evaluator's decoder behind `LineDecoder`. It passes on what a peer may see: the one answer that
is awaited, and requests, which are answered -32601. Text that is no message is noise, counted and
never held against the agent. What begins like a message and is none, or answers what was never
asked, breaks the protocol: it is said at once, in place of a time-out later.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection
from typing import Any, Final

import attrs

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.framing import FrameError, Frames, LineDecoder

__all__ = ["MAX_MESSAGE", "AgentLines", "envelope_fault"]

MAX_MESSAGE: Final = 16 * 2**20
"""The longest message an agent may send, in bytes, unless told otherwise."""

NOISE_BUDGET: Final = 256 * 2**20
"""Bytes of noise between two answers above which an agent is given up."""

_KEPT_NOISE: Final = 5
_EXCERPT: Final = 200
_BLANK: Final = b" \t\r\n"  # what JSON takes for white space


def envelope_fault(value: dict[str, Any]) -> str | None:
    """What is wrong with the envelope of an answer, or None."""
    if value.get("jsonrpc") != "2.0":
        return f'jsonrpc: expected "2.0", got {value.get("jsonrpc")!r:.60}'
    if ("result" in value) == ("error" in value):
        both = "both" if "result" in value else "neither"
        return f"expected one of result and error, got {both}"
    return _error_fault(value["error"]) if "error" in value else None


def _error_fault(error: Any) -> str | None:
    if not isinstance(error, dict):
        return f"error: expected an object, got {error!r:.60}"
    if type(error.get("code")) is not int:
        return f"error.code: expected an integer, got {error.get('code')!r:.60}"
    if not isinstance(error.get("message"), str):
        return f"error.message: expected a string, got {error.get('message')!r:.60}"
    return None


@attrs.define(kw_only=True)
class AgentLines:
    """Bytes in, the messages for our peer out.

    Attributes:
        pending: the ids of our calls that wait for an answer.
        on_violation: told, once, which rule was broken; nothing is passed on from then on.
        on_warning: told of what is odd and allowed, not without end.
        noise: how many lines were no messages.
        heard: the first of them, shortened.
    """

    pending: Callable[[], Collection[int | str]]
    on_violation: Callable[[str], None]
    on_warning: Callable[[str], None]
    max_message: int = MAX_MESSAGE
    noise: int = 0
    heard: list[str] = attrs.field(factory=list)
    _frames: LineDecoder = attrs.field(init=False)
    _last_answered: int = attrs.field(default=0, init=False)
    _noise_bytes: int = attrs.field(default=0, init=False)
    _passed_over: int = attrs.field(default=0, init=False)
    _has_begun: bool = attrs.field(default=False, init=False)
    _broken: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._frames = LineDecoder(max_line=self.max_message)

    @property
    def closed(self) -> bool:
        """Whether the stream has ended."""
        return self._frames.closed

    def feed(self, data: bytes) -> Frames:
        """Take the next bytes; give the messages that they complete."""
        return self._messages(self._frames.feed(data))

    def feed_eof(self) -> Frames:
        """Take the end of the stream, which may complete a message."""
        return self._messages(self._frames.feed_eof())

    def has_answered(self, ids: Collection[int | str]) -> bool:
        """Whether the newest answer is to one of these calls."""
        return self._last_answered in ids

    def _messages(self, frames: Frames) -> Frames:
        passed: Frames = []
        for frame in frames:
            if self._broken:
                break
            if isinstance(frame, FrameError):
                self._violated(f"a line of more than {self.max_message} bytes")
            elif self._passes(frame):
                passed.append(self._without_mark(frame))
            self._has_begun = True
        return passed

    def _without_mark(self, line: bytes) -> bytes:
        return line if self._has_begun else line.removeprefix(codecs.BOM_UTF8)

    def _violated(self, what: str) -> None:
        self._broken = True
        self.on_violation(what)

    def _passes(self, line: bytes) -> bool:
        """Whether our peer is to see the line."""
        text = self._without_mark(line).strip(_BLANK)
        try:
            value = json.loads(text, duplicate_keys="refuse")
        except InvalidJSON as fault:
            if text.startswith(b"{") and b'"jsonrpc"' in text:
                self._violated(f"a message that is not strict JSON: {fault}")
            else:
                self._hear(line)
            return False
        if isinstance(value, list) and any(_is_answer(item) for item in value):
            self._violated("an array of answers, where one answer is expected")
            return False
        if not isinstance(value, dict):
            self._hear(line)
            return False
        if "method" in value:
            return "id" in value
        if _is_answer(value):
            return self._is_awaited(value, line)
        self._hear(line)
        return False

    def _is_awaited(self, value: dict[str, Any], line: bytes) -> bool:
        answered = value.get("id")
        if type(answered) is int and 0 < answered <= self._last_answered:
            self._pass_over(answered, line)
            return False
        if type(answered) is not int or answered not in self.pending():
            expected = " or ".join(map(str, self.pending())) or "none: nothing was asked"
            self._violated(f"an answer with the id {answered!r:.60}, expected {expected}")
            return False
        fault = envelope_fault(value)
        if fault is not None:
            self._violated(fault)
            return False
        self._last_answered = answered
        self._noise_bytes = 0
        return True

    def _pass_over(self, answered: int, line: bytes) -> None:
        """A second answer, of which the first few are told."""
        self._passed_over += 1
        if self._passed_over <= _KEPT_NOISE:
            self.on_warning(f"a second answer to the request {answered} was passed over")
        self._spend(line)

    def _hear(self, line: bytes) -> None:
        self.noise += 1
        if len(self.heard) < _KEPT_NOISE:
            self.heard.append(line[:_EXCERPT].decode("utf-8", "replace"))
        self._spend(line)

    def _spend(self, line: bytes) -> None:
        self._noise_bytes += len(line)
        if self._noise_bytes > NOISE_BUDGET:
            self._violated(f"more than {NOISE_BUDGET} bytes of noise before an answer")


def _is_answer(value: Any) -> bool:
    return (
        isinstance(value, dict) and "method" not in value and bool({"result", "error"} & {*value})
    )
