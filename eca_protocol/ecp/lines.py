"""The reader of an agent's standard output: messages, mixed with other printed text.

It reads the lines of a `LineDecoder`. The awaited answer is passed to the evaluator's peer, and so
are requests, which the peer answers with -32601. Text that is not a message is noise, counted and
harmless. A malformed message or an answer without a request is a protocol error, reported at once
instead of as a time-out later.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection
from typing import Any, Final

import attrs

from eca_protocol import json
from eca_protocol.ecp.errors import first_words
from eca_protocol.errors import InvalidJSON
from eca_protocol.framing import FrameError, Frames

MAX_MESSAGE: Final = 16 * 2**20
"""The default limit of an agent's message, in bytes."""

_MAX_EXCERPTS: Final = 5
_EXCERPT: Final = 200
_SHOWN: Final = 60
_BLANK: Final = b" \t\r\n"  # white space of JSON


def envelope_fault(value: dict[str, Any]) -> str | None:
    """Return the error of an answer's envelope, or None."""
    if value.get("jsonrpc") != "2.0":
        return f'jsonrpc: expected "2.0", got {_shown(value.get("jsonrpc"))}'
    if ("result" in value) == ("error" in value):
        both = "both" if "result" in value else "neither"
        return f"expected one of result and error, got {both}"
    return _error_fault(value["error"]) if "error" in value else None


def _shown(value: Any) -> str:
    return first_words(repr(value), _SHOWN)


def _error_fault(error: Any) -> str | None:
    if not isinstance(error, dict):
        return f"error: expected an object, got {_shown(error)}"
    if type(error.get("code")) is not int:
        return f"error.code: expected an integer, got {_shown(error.get('code'))}"
    if not isinstance(error.get("message"), str):
        return f"error.message: expected a string, got {_shown(error.get('message'))}"
    return None


@attrs.define(kw_only=True)
class AgentLineReader:
    """A reader of lines, which returns the messages for the evaluator's peer.

    Attributes:
        pending: returns the ids of the calls that wait for an answer.
        on_violation: called once, with the broken rule; later messages are dropped.
        on_warning: called for the first few unusual but allowed messages.
        max_noise: the limit of noise between two answers, in bytes; more is a protocol error.
        noise_count: the number of lines that were not messages.
        noise_excerpts: the first of these lines, shortened.
    """

    pending: Callable[[], Collection[int | str]]
    on_violation: Callable[[str], None]
    on_warning: Callable[[str], None]
    max_message: int = MAX_MESSAGE
    max_noise: int = 256 * 2**20
    noise_count: int = 0
    noise_excerpts: list[str] = attrs.field(factory=list)
    _last_answered: int = attrs.field(default=0, init=False)
    _noise_bytes: int = attrs.field(default=0, init=False)
    _duplicates: int = attrs.field(default=0, init=False)
    _is_past_first_line: bool = attrs.field(default=False, init=False)
    _broken: bool = attrs.field(default=False, init=False)

    def read(self, frames: Frames) -> list[Any]:
        """Return the messages in these lines."""
        messages: list[Any] = []
        for frame in frames:
            if self._broken:
                break
            if isinstance(frame, FrameError):
                self._report_violation(f"a line of more than {self.max_message} bytes")
            else:
                messages += self._messages(frame)
            self._is_past_first_line = True
        return messages

    def has_answered(self, ids: Collection[int | str]) -> bool:
        """Return True if the newest answer is to one of these calls."""
        return self._last_answered in ids

    def _report_violation(self, rule: str) -> None:
        self._broken = True
        self.on_violation(rule)

    def _messages(self, line: bytes) -> list[dict[str, Any]]:
        bom = b"" if self._is_past_first_line else codecs.BOM_UTF8
        text = line.removeprefix(bom).strip(_BLANK)
        try:
            value = json.loads(text, duplicate_keys="refuse")
        except InvalidJSON as fault:
            if text.startswith(b"{") and b'"jsonrpc"' in text:
                self._report_violation(f"a message that is not strict JSON: {fault}")
            else:
                self._count_noise(line)
            return []
        if isinstance(value, list) and any(_is_answer(item) for item in value):
            self._report_violation("an array of answers, where one answer is expected")
            return []
        if isinstance(value, dict) and "method" in value:
            return [value] if "id" in value else []
        if _is_answer(value):
            return [value] if self._is_awaited(value, line) else []
        self._count_noise(line)
        return []

    def _is_awaited(self, value: dict[str, Any], line: bytes) -> bool:
        answer_id = value.get("id")
        if type(answer_id) is int and 0 < answer_id <= self._last_answered:
            self._drop_duplicate(answer_id, line)
            return False
        if type(answer_id) is not int or answer_id not in self.pending():
            expected = " or ".join(map(str, self.pending())) or "none: no request is pending"
            self._report_violation(
                f"an answer with the id {_shown(answer_id)}, expected {expected}"
            )
            return False
        fault = envelope_fault(value)
        if fault is not None:
            self._report_violation(fault)
            return False
        self._last_answered = answer_id
        self._noise_bytes = 0
        return True

    def _drop_duplicate(self, answer_id: int, line: bytes) -> None:
        """Drop a second answer to a request; warn of the first few."""
        self._duplicates += 1
        if self._duplicates <= _MAX_EXCERPTS:
            self.on_warning(f"a second answer to request {answer_id} was ignored")
        self._spend_budget(line)

    def _count_noise(self, line: bytes) -> None:
        self.noise_count += 1
        if len(self.noise_excerpts) < _MAX_EXCERPTS:
            self.noise_excerpts.append(first_words(line, _EXCERPT))
        self._spend_budget(line)

    def _spend_budget(self, line: bytes) -> None:
        self._noise_bytes += len(line)
        if self._noise_bytes > self.max_noise:
            self._report_violation(f"more than {self.max_noise} bytes of noise before an answer")


def _is_answer(value: Any) -> bool:
    return (
        isinstance(value, dict) and "method" not in value and bool({"result", "error"} & {*value})
    )
