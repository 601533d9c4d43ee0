"""The script of a scripted model: replies made of steps, and the bytes a step becomes.

A step is a plain JSON object with one verb, so that a script can be written in Python, by the
functions here, or kept in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from eca_protocol import json
from eca_protocol.errors import LocalProtocolError

__all__ = [
    "Reply",
    "Step",
    "burst",
    "chunk",
    "close",
    "delay",
    "events",
    "finish",
    "hang",
    "raw",
    "reasoning",
    "reply",
    "reset",
    "text",
    "tool_call",
    "usage",
    "wait",
    "whole",
]

Step = Mapping[str, Any]


def _as_tuple(steps: Iterable[Step]) -> tuple[Step, ...]:
    return tuple(steps)


@attrs.frozen(kw_only=True)
class Reply:
    """What one request gets.

    Attributes:
        status: the status code.
        headers: added to, or replacing, `content-type` and `x-request-id`.
        body: a whole body, text or any JSON value; then there are no steps.
        steps: what happens, one after the other. If no step ends the stream, the
            terminal `[DONE]` and the end of the body follow by themselves.
        before_headers: steps (`delay`, `wait`, `hang`, `reset`, `close`, `raw`) that happen first.
        close_delimited: no chunks: the body ends where the connection does.
    """

    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: Any = None
    steps: tuple[Step, ...] = attrs.field(default=(), converter=_as_tuple)
    before_headers: tuple[Step, ...] = attrs.field(default=(), converter=_as_tuple)
    close_delimited: bool = False

    def __attrs_post_init__(self) -> None:
        for step in (*self.before_headers, *self.steps):
            if not _VERBS & step.keys():
                raise LocalProtocolError(
                    f"a step: expected one of {', '.join(sorted(_VERBS))}, got {sorted(step)}"
                )


def reply(*steps: Step | str, **reply_fields: Any) -> Reply:
    """A streamed answer; bare strings are text deltas.

    A `finish("stop")` and a usage are added unless a step finishes or ends the stream otherwise.
    """
    made: list[Step] = [text(step) if isinstance(step, str) else step for step in steps]
    if not any(step.keys() & _ENDINGS for step in made):
        made += [finish("stop"), usage(10, len(made))]
    return Reply(steps=tuple(made), **reply_fields)


def text(piece: str) -> Step:
    """One delta of visible text."""
    return {"text": piece}


def reasoning(piece: str, field: str = "reasoning_content") -> Step:
    """One delta of reasoning, in the field that the imitated server uses."""
    return {"reasoning": piece, "field": field}


def tool_call(name: str, arguments: str, *, call_id: str = "call_1", index: int = 0) -> Step:
    """A whole tool call: its head, then the arguments in two pieces."""
    return {"tool_call": name, "arguments": arguments, "id": call_id, "index": index}


def usage(prompt: int, completion: int, **details: Any) -> Step:
    """The chunk without choices that carries the token counts."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {"usage": {**counts, "total_tokens": prompt + completion, **details}}


def finish(reason: str) -> Step:
    """The chunk that carries the finish reason."""
    return {"finish": reason}


def chunk(value: Mapping[str, Any]) -> Step:
    """Any JSON object as one event."""
    return {"chunk": value}


def burst(count: int, piece: str) -> Step:
    """The same text delta `count` times, as fast as the socket takes them."""
    return {"burst": count, "piece": piece}


def raw(data: str | bytes) -> Step:
    """Bytes of the body as they are: half an event, garbage, comments."""
    return {"raw": data}


def delay(seconds: float) -> Step:
    """Nothing for a while. Prefer `wait`."""
    return {"delay": seconds}


def wait(gate: str) -> Step:
    """Nothing until the test calls `open(gate)`; `reached` tells the test we are here."""
    return {"wait": gate}


def hang() -> Step:
    """Nothing more, until the client hangs up."""
    return {"hang": True}


def reset() -> Step:
    """The connection is aborted; the client sees a reset."""
    return {"reset": True}


def close() -> Step:
    """The connection is closed, whatever is missing."""
    return {"close": True}


_ENDINGS = frozenset({"finish", "close", "reset", "hang"})
_VERBS = _ENDINGS | {
    "burst", "chunk", "delay", "raw", "reasoning", "text", "tool_call", "usage", "wait",
}  # fmt: skip


def events(step: Step, head: Mapping[str, Any]) -> list[bytes]:
    """The server-sent events that a step becomes.

    Args:
        step: one that writes; the verbs of time and of the connection are the endpoint's.
        head: the fields that every chunk of the answer carries.

    Raises:
        LocalProtocolError: no such step.
    """

    def delta(fields: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": fields, "finish_reason": finish_reason}
        return {**head, "choices": [choice]}

    match step:
        case {"raw": data}:
            return [data.encode() if isinstance(data, str) else data]
        case {"chunk": value}:
            values = [value]
        case {"text": piece}:
            values = [delta({"content": piece})]
        case {"reasoning": piece}:
            values = [delta({step.get("field", "reasoning_content"): piece})]
        case {"finish": reason}:
            values = [delta({}, reason)]
        case {"usage": counts}:
            values = [{**head, "choices": [], "usage": counts}]
        case {"tool_call": name, "arguments": arguments}:
            values = [delta({"tool_calls": [call]}) for call in _call_pieces(step, name, arguments)]
        case _:
            raise LocalProtocolError(f"no step that writes: {step!r}")
    return [b"data: " + json.dumps(value) + b"\n\n" for value in values]


def whole(steps: Iterable[Step], head: Mapping[str, Any]) -> dict[str, Any]:
    """The one JSON object that steps become where no stream is asked for; see `events`."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    answer: dict[str, Any] = {**head, "object": "chat.completion"}
    reason = "stop"
    for step in steps:
        match step:
            case {"text": piece}:
                message["content"] = (message["content"] or "") + piece
            case {"reasoning": piece}:
                field = step.get("field", "reasoning_content")
                message[field] = message.get(field, "") + piece
            case {"finish": reason}:
                pass
            case {"usage": counts}:
                answer["usage"] = counts
            case {"tool_call": name, "arguments": arguments}:
                function = {"name": name, "arguments": arguments}
                call = {"id": step.get("id", "call_1"), "type": "function", "function": function}
                message.setdefault("tool_calls", []).append(call)
    return {**answer, "choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def _call_pieces(step: Step, name: str, arguments: str) -> list[dict[str, Any]]:
    index, half = step.get("index", 0), len(arguments) // 2
    return [
        {
            "index": index,
            "id": step.get("id", "call_1"),
            "type": "function",
            "function": {"name": name, "arguments": ""},
        },
        {"index": index, "function": {"arguments": arguments[:half]}},
        {"index": index, "function": {"arguments": arguments[half:]}},
    ]
