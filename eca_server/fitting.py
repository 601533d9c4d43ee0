"""Messages that fit one read of a client's (rulings W-6 and W-38).

For the clients that lose a frame which one read does not bring them whole. What is shown is cut and
says so, lists lose their end; what is done and remembered is untouched. The text of a chat is no
affair of this room: it is split before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eca_protocol import json
from eca_protocol.codec import MessageCodec
from eca_server.spelling import pieces
from eca_server.tools.output import cut_mark

__all__ = ["FittingCodec", "fit"]

ENVELOPE = 160
"""Bytes of a frame around its params or its result."""

_LEAST = 32  # bytes that are left of each text and list, however many there are
_SHOWN = ("arguments", "outputs", "details", "output", "error")
_LISTED = (
    "models",
    "tools",
    "prompts",
    "resources",
    "contexts",
    "files",
    "commands",
    "chats",
    "jobs",
)


class FittingCodec:
    """A codec whose messages are cut until their frames have a size at most."""

    def __init__(self, codec: MessageCodec, size: int) -> None:
        self._codec = codec
        self._size = size - ENVELOPE
        self.decode_params = codec.decode_params
        self.decode_result = codec.decode_result
        self.incoming = codec.incoming

    def encode_params(self, method: str, params: Any) -> Any:
        """As the codec behind it does, cut to fit."""
        return fit(self._codec.encode_params(method, params), self._size)

    def encode_result(self, method: str, result: Any) -> Any:
        """As the codec behind it does, cut to fit."""
        return fit(self._codec.encode_result(method, result), self._size)

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        """As the codec behind it does, cut to fit."""
        return [(name, fit(raw, self._size)) for name, raw in self._codec.outgoing(method, params)]


def fit(raw: Any, size: int) -> Any:
    """Raw params or a raw result, of `size` bytes at most unless there is too little to cut."""
    fitting, level = raw, size
    while level > _LEAST and isinstance(raw, Mapping) and len(json.dumps(fitting)) > size:
        level = max(level // 2, _LEAST)
        fitting = _cut(raw, level)
    return fitting


def _cut(raw: Mapping[str, Any], level: int) -> dict[str, Any]:
    """With no text that is shown, and no list, of more than so many bytes."""
    cut = dict(raw)
    for key in ("content", "chat"):
        if isinstance(cut.get(key), Mapping):
            cut[key] = _cut(cut[key], level)
    for key in _SHOWN:
        if key in cut:
            cut[key] = _cut_texts(cut[key], level)
    for key in _LISTED:
        if isinstance(cut.get(key), Sequence):
            cut[key] = _cut_list(cut[key], level, first=cut.get("selectModel"))
    if isinstance(cut.get("message"), str):
        cut["message"] = _cut_texts(cut["message"], level)
    return cut


def _cut_texts(value: Any, level: int) -> Any:
    if isinstance(value, str):
        kept = next(pieces(value, level), "")
        left_out = len(value[len(kept) :].encode("utf-8", "surrogatepass"))
        return f"{kept}\n{cut_mark(left_out)}" if left_out else value
    if isinstance(value, Mapping):
        return {key: _cut_texts(inner, level) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_cut_texts(inner, level) for inner in value]
    return value


def _cut_list(values: Iterable[Any], level: int, *, first: Any) -> list[Any]:
    """The beginning of a list; what is selected of it stays, at its head."""
    values = list(values)
    kept: list[Any] = []
    size = 0
    for value in [first, *values] if first in values else values:
        size += len(json.dumps(value)) + 1
        if size > level and kept:
            break
        if value not in kept:
            kept.append(value)
    return values if len(kept) == len(values) else kept
