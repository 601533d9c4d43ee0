"""The JSON-RPC dialect of MCP, and a lenient reader of messages before our peer.

Careless servers print to stdout. Other lines are counted and never answered: a server that logs
its input would log the answer, and so on for ever. Slightly wrong messages are repaired: a byte
order mark, invalid UTF-8, an id of the wrong type, a missing `jsonrpc`. An unreadable answer fails
its call at once.
"""

from __future__ import annotations

import codecs
import json as lenient_json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import attrs

from eca_protocol import json
from eca_protocol.endpoint import Dialect
from eca_protocol.errors import INTERNAL_ERROR, InvalidJSON
from eca_protocol.framing import FrameError, Frames
from eca_server.agent.mcp.methods import TABLE

MCP_DIALECT: Final = Dialect(
    cancel_method="notifications/cancelled",
    cancel_key="requestId",
    answers_cancelled=False,
    answers_invalid=False,
    not_cancelled=frozenset({"initialize"}),
)

_OURS: Final = frozenset(m.name for m in TABLE if m.direction == "client_to_server")
_ANSWER: Final = frozenset({"id", "result", "error"})
_FIRST_ID: Final = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,'
)
_LAST_ID: Final = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*\}\s*\Z')
_EDGE: Final = 100  # bytes at the end of a message in which its id is looked for


@attrs.define(kw_only=True)
class LenientReader:
    """A reader of frames, which returns repaired messages.

    Attributes:
        pending: returns the ids of our unanswered calls.
        on_noise: called with each frame that is not a message, and the reason.
        on_oversized: called with the reason when an oversized message was skipped.
    """

    pending: Callable[[], Collection[int | str]]
    on_noise: Callable[[bytes, str], None]
    on_oversized: Callable[[str], None]

    def read(self, frames: Frames) -> list[dict[str, Any]]:
        """Return the messages in these frames."""
        messages: list[dict[str, Any]] = []
        for frame in frames:
            if isinstance(frame, FrameError):
                self.on_oversized(frame.message)
            else:
                messages += self._messages(frame)
        return messages

    def _messages(self, frame: bytes) -> Iterable[dict[str, Any]]:
        text = frame.removeprefix(codecs.BOM_UTF8)
        if text.lstrip()[:1] not in {b"{", b"["}:
            self.on_noise(frame, "not a JSON object")
            return ()
        try:
            value = json.loads(text)
        except InvalidJSON:
            try:
                text = text.decode("utf-8", "replace").encode()
                value = json.loads(text)
            except InvalidJSON as error:
                return self._damaged(frame, text, str(error))
        if isinstance(value, list):  # a batch, which one revision had
            return [each for part in value for each in self._message(part, json.dumps(part))]
        return self._message(value, text)

    def _message(self, value: Any, text: bytes) -> Sequence[dict[str, Any]]:
        """Return a value as a message, or report it as noise."""
        if not _is_message(value):
            self.on_noise(text, "JSON, but not a message")
        elif value.get("method") in _OURS:
            self.on_noise(
                text, "our own message comes back: is a terminal between us (`docker run -t`)?"
            )
        else:
            return (self._repaired(value),)
        return ()

    def _repaired(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return a repaired message, or the same object if it is valid."""
        changes: dict[str, Any] = {}
        if value.get("jsonrpc") != "2.0":
            changes["jsonrpc"] = "2.0"
        if "method" not in value:
            answered = value.get("id")
            meant = self._call_meant(answered, failed=value.get("error") is not None)
            if meant is not answered:
                changes["id"] = meant
            if "result" not in value and value.get("error") is None:
                changes["error"] = _error("it was answered with neither a result nor an error")
        return {**value, **changes} if changes else value

    def _call_meant(self, answered: Any, *, failed: bool) -> Any:
        if type(answered) is int:
            return answered
        pending = self.pending()
        if answered is None and failed and len(pending) == 1:
            return next(iter(pending))
        if isinstance(answered, str | float):
            for call in pending:
                if answered in (str(call), call):
                    return call
        return answered

    def _damaged(self, frame: bytes, text: bytes, why: str) -> Iterator[dict[str, Any]]:
        """Yield the failure of the call that an invalid frame answers, or report noise."""
        if json.holds_too_many_values(text):
            yield from self._failure_of(_id_at_an_edge(text), frame, why)
            return
        try:
            value = lenient_json.loads(text)
        except lenient_json.JSONDecodeError as error:
            hint = {"Extra data": "two messages in one line"}.get(error.msg, why)
            if error.pos >= len(text.rstrip()) - 1:
                hint = "half a message: JSON over several lines?"
            self.on_noise(frame, hint)
            return
        except (ValueError, RecursionError):
            self.on_noise(frame, why)
            return
        answered = value.get("id") if isinstance(value, dict) and "method" not in value else None
        yield from self._failure_of(answered, frame, why)

    def _failure_of(self, answered: Any, frame: bytes, why: str) -> Iterator[dict[str, Any]]:
        """Yield an error for the call with this id; report noise if no such call is pending."""
        if type(answered) is int and answered in self.pending():
            yield {"jsonrpc": "2.0", "id": answered, "error": _error(why)}
        else:
            self.on_noise(frame, why)


def _id_at_an_edge(text: bytes) -> int | None:
    """Return the id at the usual places of an answer that is too large to read, or None."""
    match = _FIRST_ID.match(text) or _LAST_ID.search(text, len(text) - _EDGE)
    return int(match[1]) if match else None


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if "method" in value:
        return isinstance(value["method"], str)
    return not _ANSWER.isdisjoint(value)


def _error(why: str) -> dict[str, Any]:
    return {"code": INTERNAL_ERROR, "message": f"the answer cannot be read: {why}"}
