"""Scripts for the scripted model: replies made of steps, and the encoding of a step.

A step is a plain JSON object with one verb. A script is written in Python, with the functions of
this module, or stored in a file.
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
    """The response to one request.

    Attributes:
        status: the HTTP status code.
        headers: headers to add to, or to replace, `content-type` and `x-request-id`.
        body: a complete body, text or any JSON value; `steps` is then ignored.
        steps: the steps of the response, in order. Unless a step ends the stream, the
            terminal `[DONE]` and the end of the body are sent automatically.
        before_headers: steps before the headers (`delay`, `wait`, `hang`, `reset`, `close`, `raw`).
        close_delimited: whether the end of the connection ends the body, instead of chunks.
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
    """Return a streamed answer; bare strings are text deltas.

    `finish("stop")` and a `usage` are added unless a step finishes or ends the stream.
    """
    made: list[Step] = [text(step) if isinstance(step, str) else step for step in steps]
    if not any(step.keys() & _ENDINGS for step in made):
        made += [finish("stop"), usage(10, len(made))]
    return Reply(steps=tuple(made), **reply_fields)


def text(piece: str, *, torn: bool = False) -> Step:
    """Return a step that sends a delta of visible text.

    `torn` sends its bytes in two parts, the first of which ends within a character.
    """
    return {"text": piece, "torn": True} if torn else {"text": piece}


def reasoning(piece: str, field: str = "reasoning_content") -> Step:
    """Return a step that sends a delta of reasoning, in the field of the imitated server."""
    return {"reasoning": piece, "field": field}


def tool_call(name: str, arguments: str, *, call_id: str = "call_1", index: int = 0) -> Step:
    """Return a step that sends a tool call: its head, then its arguments in two pieces."""
    return {"tool_call": name, "arguments": arguments, "id": call_id, "index": index}


def usage(prompt: int, completion: int, **details: Any) -> Step:
    """Return a step that sends the token counts in a chunk without choices."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {"usage": {**counts, "total_tokens": prompt + completion, **details}}


def finish(reason: str) -> Step:
    """Return a step that sends the finish reason."""
    return {"finish": reason}


def chunk(value: Mapping[str, Any]) -> Step:
    """Return a step that sends a JSON object as one event."""
    return {"chunk": value}


def burst(count: int, piece: str) -> Step:
    """Return a step that sends a text delta `count` times, as fast as the socket accepts them."""
    return {"burst": count, "piece": piece}


def raw(data: str | bytes) -> Step:
    """Return a step that sends bytes unchanged: half an event, garbage, a comment."""
    return {"raw": data}


def delay(seconds: float) -> Step:
    """Return a step that pauses for some seconds. Prefer `wait`."""
    return {"delay": seconds}


def wait(gate: str) -> Step:
    """Return a step that waits for `open(gate)`; `reached` then contains the gate."""
    return {"wait": gate}


def hang() -> Step:
    """Return a step that waits until the client disconnects."""
    return {"hang": True}


def reset() -> Step:
    """Return a step that aborts the connection; the client sees a reset."""
    return {"reset": True}


def close() -> Step:
    """Return a step that closes the connection, even inside the body."""
    return {"close": True}


_ENDINGS = frozenset({"finish", "close", "reset", "hang"})
_VERBS = _ENDINGS | {
    "burst", "chunk", "delay", "raw", "reasoning", "text", "tool_call", "usage", "wait",
}  # fmt: skip


def events(step: Step, head: Mapping[str, Any]) -> list[bytes]:
    """Encode a step as server-sent events.

    Args:
        step: a step that writes; the endpoint runs those of time and of the connection.
        head: the fields of every chunk of the answer.

    Raises:
        LocalProtocolError: if the step writes nothing.
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
            raise LocalProtocolError(f"expected a step that writes, got {step!r}")
    return [b"data: " + json.dumps(value) + b"\n\n" for value in values]


def whole(steps: Iterable[Step], head: Mapping[str, Any]) -> dict[str, Any]:
    """Encode steps as the one JSON object of an answer without a stream; see `events`."""
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
