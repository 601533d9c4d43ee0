"""The rules for each message of an agent: its form, its answers, and the order of a turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import attrs

from eca_protocol.acp import ACP, ACP_CODEC
from eca_protocol.errors import DecodeError
from eca_protocol.testing.conformance.recorder import id_key
from eca_protocol.testing.conformance.verdicts import shown
from eca_protocol.testing.members import at, object_at
from eca_protocol.testing.watching.observation import Observation, ObservationLog, Side

_Message: TypeAlias = Mapping[str, Any]

_CAPABILITIES: Final[Mapping[str, tuple[str, ...]]] = {
    "fs/read_text_file": ("fs", "readTextFile"),
    "fs/write_text_file": ("fs", "writeTextFile"),
    "terminal/create": ("terminal",),
    "elicitation/create": ("elicitation",),
}
"""The capability of the client that a request needs."""

_OF_A_TURN: Final = frozenset(
    {
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "session/request_permission",
        *_CAPABILITIES,
    }
)
"""Updates and requests that belong to a turn; the others may come at any time."""

_ENDS: Final = frozenset({"completed", "failed"})
_REPLAYS: Final = frozenset({"session/load", "session/resume"})


@attrs.define
class _Session:
    """A session: its unanswered prompts and loads, its past, and the status of its tool calls."""

    running: int = 0
    has_ended: bool = False
    calls: dict[str, str] = attrs.field(factory=dict)


class AcpWatcher:
    """A watcher of one conversation with an agent; see `Watcher`."""

    def __init__(self) -> None:
        self._log = ObservationLog()
        self._pending: dict[str, list[_Message]] = {}
        self._capabilities: _Message = {}
        self._sessions: dict[str, _Session] = {}

    def feed(self, side: Side, message: _Message, *, at: float | None = None) -> list[Observation]:
        """Judge a message."""
        self._log.next_entry(at)
        if side == "client":
            self._on_client(message)
        elif message.get("jsonrpc") != "2.0":
            self._report("ACP-1", 'the member `jsonrpc` with "2.0"', message)
        elif isinstance(message.get("method"), str):
            self._on_call(message["method"], message)
        else:
            self._on_answer(message)
        return self._log.drain()

    def feed_raw(self, side: Side, data: bytes, *, at: float | None = None) -> list[Observation]:
        """Judge bytes that are no message."""
        self._log.next_entry(at)
        if side == "server":
            self._report("ACP-1", "a JSON object in a line", data[:200])
        return self._log.drain()

    def feed_end(self, _: Side) -> list[Observation]:
        """Return nothing: a case judges the end."""
        return []

    def finish(self) -> list[Observation]:
        """Return nothing: cases wait for their answers."""
        return []

    def _report(self, row: str, expected: str, got: object) -> None:
        self._log.report(row, expected=expected, got=shown(got)[:600])

    def _session(self, message: _Message) -> _Session:
        return self._sessions.setdefault(id_key(at(message, "params", "sessionId")), _Session())

    def _on_client(self, message: _Message) -> None:
        method = message.get("method")
        if method is None or "id" not in message:
            return
        self._pending.setdefault(id_key(message["id"]), []).append(message)
        if method == "initialize":
            self._capabilities = object_at(message, "params", "clientCapabilities")
        elif method == "session/prompt" or method in _REPLAYS:
            session = self._session(message)
            session.running += 1
            if method in _REPLAYS:
                session.calls.clear()

    def _on_answer(self, message: _Message) -> None:
        if ("result" in message) == ("error" in message) or "id" not in message:
            self._report("ACP-1", "a method, or an id with a result or an error", message)
            return
        requests = self._pending.get(id_key(message["id"]))
        if not requests:
            if message["id"] is not None or "result" in message:
                self._report("ACP-3", "an answer to a pending request", message)
            return
        # the refusal of a duplicate id answers the newer request
        request = requests.pop(-1 if "error" in message else 0)
        if type(request["id"]) is not type(message["id"]):
            self._report("ACP-3", f"the id {request['id']!r}", message)
        self._check_answer(request, message)
        if request["method"] == "session/prompt" or request["method"] in _REPLAYS:
            self._on_end(request, message)

    def _check_answer(self, request: _Message, message: _Message) -> None:
        error = message.get("error", {})
        if "error" in message and not (
            isinstance(error, Mapping)
            and type(error.get("code")) is int
            and isinstance(error.get("message"), str)
        ):
            self._report("ACP-1", "an error with a code and a message", message)
        method = request["method"]
        if "result" in message and method in ACP.received_by("server"):
            try:
                ACP_CODEC.decode_result(method, message["result"])
            except DecodeError as fault:
                self._report("ACP-2", f"the result of `{method}`", fault)

    def _on_end(self, request: _Message, message: _Message) -> None:
        session = self._session(request)
        session.running -= 1
        session.has_ended = True
        result = message.get("result")
        is_whole = isinstance(result, Mapping) and result.get("stopReason") != "cancelled"
        is_open = [call for call, status in session.calls.items() if status not in _ENDS]
        if is_open and is_whole and request["method"] == "session/prompt":
            self._report("ACP-36", "an end of each tool call", f"no end of {', '.join(is_open)}")
        session.calls |= dict.fromkeys(is_open, "completed")

    def _on_call(self, method: str, message: _Message) -> None:
        if method not in ACP.received_by("client"):
            if not method.startswith(("_", "$/")):
                self._report("ACP-2", "a method of a client, or one that begins with `_`", method)
            return
        try:
            ACP_CODEC.decode_params(method, message.get("params"))
        except DecodeError as fault:
            self._report("ACP-2", f"the params of `{method}`", fault)
            return
        held = at(self._capabilities, *_CAPABILITIES.get(method, ()))
        if method in _CAPABILITIES and (held is None or held is False):
            self._report("ACP-16", "no request without its capability", method)
        session = self._session(message)
        update = message["params"].get("update", {})
        kind = update.get("sessionUpdate", method)
        if kind in _OF_A_TURN and session.has_ended and not session.running:
            self._report("ACP-31", "nothing of a turn without a running prompt", kind)
        if kind in {"tool_call", "tool_call_update"}:
            self._on_tool_call(session, update, is_new=kind == "tool_call")
        elif method == "session/request_permission":
            session.calls.setdefault(message["params"]["toolCall"]["toolCallId"], "pending")

    def _on_tool_call(self, session: _Session, update: _Message, *, is_new: bool) -> None:
        id_, status = update["toolCallId"], update.get("status")
        before = session.calls.get(id_)
        if before is None and not is_new:
            self._report("ACP-34", f"a `tool_call` of {id_} before its update", update)
        if before is not None and is_new:
            self._report("ACP-35", f"one `tool_call` of {id_}", update)
        if before in _ENDS and status not in {None, before}:
            self._report("ACP-35", f"no status of {id_} after {before}", update)
        session.calls[id_] = status or before or "pending"
