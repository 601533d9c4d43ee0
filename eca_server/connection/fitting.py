"""Messages that fit one read of a client (rulings W-6 and W-38).

Some clients lose a frame that does not arrive in one read. For them, displayed texts are cut with a
mark and lists are shortened; stored data is unchanged. Texts of a chat are split before they come
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eca_protocol import json
from eca_protocol.codec import MessageCodec
from eca_protocol.server.texts import pieces
from eca_server.agent.tools.output import cut_mark

ENVELOPE = 160
"""Bytes of a frame besides its params or its result."""

_LEAST = 32  # bytes that each text and list keeps at least
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
    """A codec whose messages are cut to a maximum size of their frames."""

    def __init__(self, codec: MessageCodec, size: int) -> None:
        self._codec = codec
        self._size = size - ENVELOPE
        self.decode_params = codec.decode_params
        self.decode_result = codec.decode_result
        self.incoming = codec.incoming

    def encode_params(self, method: str, params: Any) -> Any:
        """Encode params, cut to fit."""
        return fit(self._codec.encode_params(method, params), self._size)

    def encode_result(self, method: str, result: Any) -> Any:
        """Encode a result, cut to fit."""
        return fit(self._codec.encode_result(method, result), self._size)

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        """Return the outgoing messages, cut to fit."""
        return [(name, fit(raw, self._size)) for name, raw in self._codec.outgoing(method, params)]


def fit(raw: Any, size: int) -> Any:
    """Return raw params or a raw result, cut to at most `size` bytes where possible."""
    fitting, level = raw, size
    while level > _LEAST and isinstance(raw, Mapping) and len(json.dumps(fitting)) > size:
        level = max(level // 2, _LEAST)
        fitting = _cut(raw, level)
    return fitting


def _cut(raw: Mapping[str, Any], level: int) -> dict[str, Any]:
    """Return a message whose displayed texts and lists have at most `level` bytes each."""
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
        head = next(pieces(value, level), "")
        left_out = len(value[len(head) :].encode("utf-8", "surrogatepass"))
        return f"{head}\n{cut_mark(left_out)}" if left_out else value
    if isinstance(value, Mapping):
        return {key: _cut_texts(inner, level) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_cut_texts(inner, level) for inner in value]
    return value


def _cut_list(values: Iterable[Any], level: int, *, first: Any) -> list[Any]:
    """Return the beginning of a list, with its selected item first."""
    values = list(values)
    head: list[Any] = []
    size = 0
    for value in [first, *values] if first in values else values:
        size += len(json.dumps(value)) + 1
        if size > level and head:
            break
        if value not in head:
            head.append(value)
    return values if len(head) == len(values) else head
