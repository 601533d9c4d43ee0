"""A turn's tool calls: prepared, announced, and ended one way; the automaton is that of `fold`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs

from eca_protocol.fold.chat import FOLLOWING
from eca_protocol.fold.views import CallState
from eca_protocol.revisions import Revision
from eca_protocol.testing.watching.observation import Notes

__all__ = ["Calls"]

_TWICE: Final = {
    "toolCallRun": "TOOL-3",
    "toolCallRunning": "TOOL-5",
    "toolCalled": "TOOL-6",
    "toolCallRejected": "TOOL-8",
}
_STAND_INS: Final = ("left out", "***")
"""What stands in place of what was cut (W-38), and of a secret that a record does not keep."""

_DETAILS: Final = ("params.content.details",)


@attrs.define(kw_only=True)
class _Call:
    id: str
    name: str
    server: str
    origin: str
    state: CallState = "preparing"
    seen: set[str] = attrs.field(factory=set)
    pieces: list[str] = attrs.field(factory=list)
    change: Any = None
    change_is_known: bool = False
    was_approved: bool = False
    was_rejected: bool = False
    misnamed: tuple[str, str] | None = None  # the row, and the name that it wants
    is_flawed: bool = False


class Calls:
    """Judges the tool calls of one turn.

    Attributes:
        was_stopped: whether the client stopped the turn.
        may_decide_itself: whether calls may be approved without a word to this call: the client
            trusts the chat, or approved one for the whole session.
    """

    def __init__(
        self,
        notes: Notes,
        chat_id: str,
        revision: Revision,
        *,
        native: Collection[str],
        mcp_servers: Collection[str],
    ) -> None:
        self.was_stopped = False
        self.may_decide_itself = False
        self._notes = notes
        self._chat_id = chat_id
        self._revision = revision
        self._native = native
        self._mcp_servers = mcp_servers
        self._calls: dict[str, _Call] = {}
        self._strange: set[str] = set()
        self._prepared: str | None = None

    @property
    def has_open(self) -> bool:
        """Whether a call's end is still to come."""
        return any(call.state not in {"called", "rejected"} for call in self._calls.values())

    def decided(self, call_id: str, *, approved: bool) -> None:
        """The client approves or rejects a call."""
        call = self._calls.get(call_id)
        if call is None or call.was_rejected or call.was_approved:
            return
        if approved:
            call.was_approved = True
        else:
            call.was_rejected = call.state == "waiting"

    def take(self, kind: str, content: Mapping[str, Any]) -> None:
        """A content of a call."""
        call_id = content.get("id")
        if not isinstance(call_id, str) or call_id in self._strange:
            return
        if kind == "toolCallPrepare":
            self._prepare(call_id, content)
            return
        call = self._calls.get(call_id)
        if call is None:
            self._strange.add(call_id)
            self._tell("W-30a", f"toolCallPrepare of {call_id!r} before", kind)
        else:
            self._goes_on(call, kind, content)

    def _prepare(self, call_id: str, content: Mapping[str, Any]) -> None:
        texts = {key: _text(content, key) for key in ("name", "server", "origin")}
        missing = [key for key in ("id", "name", "server") if content.get(key) == ""]
        if missing:
            got = f"no {' and no '.join(missing)}"
            self._tell("W-30b", "id, name and server", got, harms=False)
        call = self._calls.get(call_id)
        if call is None:
            call = self._calls[call_id] = _Call(
                id=call_id, name=texts["name"], server=texts["server"], origin=texts["origin"]
            )
            self._names(call, content)
        else:
            self._same(call, texts)
            if call.state == "preparing" and call_id != self._prepared:
                got = f"one of {call_id!r} behind {self._prepared!r}"
                self._tell("W-30h", "the pieces of one call together", got)
            elif call.state != "preparing" and not call.is_flawed:
                self._misplaced(call, "toolCallPrepare")
        self._prepared = call_id
        call.pieces.append(_text(content, "argumentsText"))

    def _names(self, call: _Call, content: Mapping[str, Any]) -> None:
        name, server = content.get("name"), content.get("server")
        details = content.get("details")
        if (server, name) == ("eca", "task") and _text(details, "type") != "task":
            expected = "details of a task for the tool eca/task"
            self._tell("W-35b", expected, "others", about=_DETAILS, harms=False)
        if content.get("origin") != "native" or not isinstance(name, str):
            return
        if isinstance(server, str) and server in self._mcp_servers:
            self._tell("TOOL-10", f"the origin mcp for a tool of {server!r}", "native")
        elif isinstance(server, str) and server and server != "eca":
            self._tell("W-33a", "the server eca for a native tool", repr(server), harms=False)
        if self._revision < Revision.CURRENT:
            if f"eca_{name}" in self._native and name not in self._native:
                call.misnamed = "W-33c", f"eca_{name}"
        elif name.startswith("eca_") and name[4:] in self._native:
            call.misnamed = "W-33d", name[4:]

    def _is_known(self, call: _Call, kind: str, state: CallState) -> None:
        """A misnamed call may be one of a tool that the model made up, until this shows it."""
        is_refused = kind == "toolCallRejected" and not self.was_stopped
        if call.misnamed and (kind == "toolCallRunning" or state == "waiting" or is_refused):
            (row, name), call.misnamed = call.misnamed, None
            self._tell(row, f"the name {name}", repr(call.name), harms=False)

    def _same(self, call: _Call, texts: Mapping[str, str]) -> None:
        for key, value in texts.items():
            known = getattr(call, key)
            if value and not known:
                setattr(call, key, value)
            elif value and value != known:
                self._tell("W-30a", f"the {key} {known!r} all through a call", repr(value))

    def _goes_on(self, call: _Call, kind: str, content: Mapping[str, Any]) -> None:
        state: CallState = "running"
        if kind == "toolCallRun":
            state = "waiting" if content.get("manualApproval") is True else "ready"
        elif kind == "toolCalled":
            state = "called"
        elif kind == "toolCallRejected":
            state = "rejected"
        if call.is_flawed or (state == call.state == "running" and _is_step(content)):
            pass
        elif kind in call.seen:
            self._tell(_TWICE[kind], f"one {kind} of {call.id!r}", "a second one")
        elif state not in FOLLOWING[call.state] or _never_ran(call, kind, content):
            self._misplaced(call, kind)
        else:
            if content.get("server") == "":
                self._tell("TOOL-11", "the tool's server", "none")
            self._same(call, {key: _text(content, key) for key in ("name", "server", "origin")})
            self._is_known(call, kind, state)
            self._decision(call, kind, content)
            if kind == "toolCallRun":
                self._arguments(call, content)
            self._change(call, kind, content)
        call.seen.add(kind)
        call.state = state

    def _misplaced(self, call: _Call, kind: str) -> None:
        self._tell("W-30a", f"what follows {call.state} in a call", kind)
        call.is_flawed = True

    def _decision(self, call: _Call, kind: str, content: Mapping[str, Any]) -> None:
        """The user's word, and what became of the call."""
        if kind == "toolCallRejected":
            reason = content.get("reason")
            is_users = call.was_rejected or self.was_stopped
            if call.was_rejected and reason == "user-config":
                self._tell("W-30f", "the reason user-choice", repr(reason), harms=False)
            elif self.was_stopped and call.state == "waiting" and reason == "user-config":
                self._tell("W-30g", "the reason user-choice", repr(reason), harms=False)
            elif reason == "user-choice" and not is_users and not call.was_approved:
                expected = "the user's no before the reason user-choice"
                self._tell("TOOL-9", expected, "none", harms=False)
        elif kind in {"toolCallRunning", "toolCalled"} and call.state == "waiting":
            if call.was_rejected and kind == "toolCallRunning":
                self._tell("TOOL-18", "a rejected call not to run", kind, harms=False)
            elif kind == "toolCallRunning" and not (call.was_approved or self.may_decide_itself):
                self._tell("TOOL-4", "the user's yes before it runs", "none", harms=False)

    def _arguments(self, call: _Call, content: Mapping[str, Any]) -> None:
        arguments, written = content.get("arguments"), "".join(call.pieces)
        if not isinstance(arguments, dict):
            return
        try:
            read = json.loads(written) if written.strip() else {}
        except (ValueError, RecursionError):
            read = None
        if read == arguments or (not isinstance(read, dict) and not arguments):
            return
        told = json.dumps(arguments, ensure_ascii=False)
        if any(each in told for each in _STAND_INS):
            return
        if isinstance(read, dict) or _was_whole(call.pieces, arguments):
            got = repr(written[:60])
            self._tell("W-30b", "pieces that join to the arguments", got, harms=False)
        else:
            got = f"{len(arguments)} arguments"
            self._tell("W-30c", "{} for what cannot be read", got, harms=False)

    def _change(self, call: _Call, kind: str, content: Mapping[str, Any]) -> None:
        details = content.get("details")
        change = details if _text(details, "type") == "fileChange" else None
        if kind == "toolCallRun":
            call.change, call.change_is_known = change, not self._notes.doubts(*_DETAILS)
        elif kind == "toolCallRejected" or not call.change_is_known:
            return
        elif change != call.change:
            got = "another" if change and call.change else "none" if call.change else "one"
            self._tell("W-35a", "the file change that toolCallRun told", got, about=_DETAILS)

    def close(self) -> None:
        """The turn ends."""
        for call in self._calls.values():
            if call.state not in {"called", "rejected"} and not call.is_flawed:
                row = "W-30g" if self.was_stopped else "W-30a"
                self._tell(
                    row, f"the end of the call {call.id!r}", f"that of its turn: {call.state}"
                )
                return

    def _tell(
        self,
        row: str,
        expected: str,
        got: str,
        *,
        about: Collection[str] = (),
        harms: bool = True,
    ) -> None:
        self._notes.tell(
            row, expected=expected, got=got, chat_id=self._chat_id, about=about, harms=harms
        )


def _is_step(content: Mapping[str, Any]) -> bool:
    """Whether a running call shows how far the agent is that works in it."""
    return _text(content.get("details"), "type") == "subagent"


def _was_whole(pieces: list[str], arguments: dict[str, Any]) -> bool:
    """Whether the model wrote these arguments, though the pieces do not join to them."""
    whole = "".join(json.dumps(arguments, ensure_ascii=False).split())
    starts = "".join("".join(pieces).split())
    filled = [piece for piece in pieces if piece]
    repeats = len(filled) > 1 and filled[-1].startswith(filled[0])
    return repeats or starts in whole


def _never_ran(call: _Call, kind: str, content: Mapping[str, Any]) -> bool:
    return kind == "toolCalled" and not content.get("error") and call.state != "running"


def _text(value: Any, key: str) -> str:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else ""
