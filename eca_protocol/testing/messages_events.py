"""The steps of a script as events of the Messages API.

Contents are numbered blocks, each with a start and a stop. The last event but one carries the token
counts and the stop reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from eca_protocol import json
from eca_protocol.errors import LocalProtocolError
from eca_protocol.testing.script import Step

__all__ = ["MessagesEvents"]

_REASONS: Final = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
"""The stop reasons of this API, by the finish reasons of a script."""

_SIGNATURE: Final = "c2lnbmVk"


class MessagesEvents:
    """The events of one answer.

    Args:
        model: the model's name in the request.
        number: the number of the answer at this endpoint.
    """

    def __init__(self, *, model: str, number: int) -> None:
        self._head: dict[str, Any] = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        self._has_started = False
        self._blocks = 0
        self._open = ""
        self._reason: str | None = None
        self._counts: dict[str, int] = {}

    def of(self, step: Step) -> list[bytes]:
        """Encode a step as events.

        Raises:
            LocalProtocolError: if the step writes nothing.
        """
        match step:
            case {"raw": data}:
                return [data.encode() if isinstance(data, str) else data]
            case {"chunk": value}:
                return [_event(value)]
            case {"text": piece}:
                return self._delta("text", "text_delta", {"text": piece})
            case {"reasoning": piece}:
                return self._delta("thinking", "thinking_delta", {"thinking": piece})
            case {"tool_call": name, "arguments": arguments}:
                return self._call(step.get("id", "call_1"), name, arguments)
            case {"finish": reason}:
                self._reason = _REASONS.get(reason, reason)
            case {"usage": counts}:
                self._counts = _counts(counts)
            case _:
                raise LocalProtocolError(f"expected a step that writes, got {step!r}")
        return self._start() + self._stop()

    def end(self) -> list[bytes]:
        """Return the events that end the answer; none if all its steps were raw."""
        if not self._has_started:
            return []
        delta = {"stop_reason": self._reason, "stop_sequence": None}
        return [
            *self._stop(),
            _event({"type": "message_delta", "delta": delta, "usage": self._counts}),
            _event({"type": "message_stop"}),
        ]

    def whole(self, steps: Iterable[Step]) -> dict[str, Any]:
        """Encode steps as the one JSON object of an answer without a stream."""
        blocks: list[dict[str, Any]] = []
        answer = {**self._head, "content": blocks, "stop_reason": "end_turn"}
        for step in steps:
            match step:
                case {"text": piece}:
                    if not blocks or blocks[-1]["type"] != "text":
                        blocks.append({"type": "text", "text": ""})
                    blocks[-1]["text"] += piece
                case {"reasoning": piece}:
                    if not blocks or blocks[-1]["type"] != "thinking":
                        blocks.append({"type": "thinking", "thinking": "", "signature": _SIGNATURE})
                    blocks[-1]["thinking"] += piece
                case {"tool_call": name, "arguments": arguments}:
                    parsed = json.loads(arguments.encode() or b"{}")
                    call_id = step.get("id", "call_1")
                    blocks.append(
                        {"type": "tool_use", "id": call_id, "name": name, "input": parsed}
                    )
                case {"finish": reason}:
                    answer["stop_reason"] = _REASONS.get(reason, reason)
                case {"usage": counts}:
                    answer["usage"] = _counts(counts)
        return answer

    def _start(self) -> list[bytes]:
        if self._has_started:
            return []
        self._has_started = True
        return [_event({"type": "message_start", "message": self._head})]

    def _delta(self, kind: str, type_: str, fields: Mapping[str, str]) -> list[bytes]:
        began = [] if self._open == kind else self._begin(kind, dict.fromkeys(fields, ""))
        return [*began, self._piece(type_, fields)]

    def _call(self, call_id: str, name: str, arguments: str) -> list[bytes]:
        half = len(arguments) // 2
        pieces = [arguments[:half], arguments[half:]]
        return [
            *self._begin("tool_use", {"id": call_id, "name": name, "input": {}}),
            *(self._piece("input_json_delta", {"partial_json": piece}) for piece in pieces),
            *self._stop(),
        ]

    def _begin(self, kind: str, fields: Mapping[str, Any]) -> list[bytes]:
        before = [*self._start(), *self._stop()]
        self._open = kind
        self._blocks += 1
        block = {"type": kind, **fields}
        return [*before, self._of_block("content_block_start", {"content_block": block})]

    def _piece(self, type_: str, fields: Mapping[str, str]) -> bytes:
        return self._of_block("content_block_delta", {"delta": {"type": type_, **fields}})

    def _stop(self) -> list[bytes]:
        kind, self._open = self._open, ""
        if not kind:
            return []
        signed = kind == "thinking"
        signature = [self._piece("signature_delta", {"signature": _SIGNATURE})] if signed else []
        return [*signature, self._of_block("content_block_stop", {})]

    def _of_block(self, type_: str, fields: Mapping[str, Any]) -> bytes:
        return _event({"type": type_, "index": self._blocks - 1, **fields})


def _counts(counts: Mapping[str, int]) -> dict[str, int]:
    return {
        "input_tokens": counts["prompt_tokens"],
        "output_tokens": counts["completion_tokens"],
    }


def _event(value: Mapping[str, Any]) -> bytes:
    type_ = str(value.get("type", "message")).encode()
    return b"event: %b\ndata: %b\n\n" % (type_, json.dumps(value))
