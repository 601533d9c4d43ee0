"""The tool calls of a turn, checked with the state machine of `fold`."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs

from eca_protocol.fold.chat import FOLLOWING
from eca_protocol.fold.views import CallState
from eca_protocol.revisions import Revision
from eca_protocol.testing.members import text_at
from eca_protocol.testing.watching.observation import ObservationLog

_TWICE: Final = {
    "toolCallRun": "TOOL-3",
    "toolCallRunning": "TOOL-5",
    "toolCalled": "TOOL-6",
    "toolCallRejected": "TOOL-8",
}
_STAND_INS: Final = ("left out", "***")
"""Replacements for truncated text (W-38) and for secrets that are not recorded."""

_STATES: Final[Mapping[str, CallState]] = {"toolCalled": "called", "toolCallRejected": "rejected"}
_HEAD: Final = ("name", "server", "origin")
"""Members that are the same in all contents of a call."""

_DETAILS: Final = ("params.content.details",)


@attrs.define(kw_only=True)
class _Call:
    id: str
    name: str
    server: str
    origin: str
    state: CallState = "preparing"
    kinds: set[str] = attrs.field(factory=set)
    pieces: list[str] = attrs.field(factory=list)
    change: Any = None
    change_is_known: bool = False
    was_approved: bool = False
    was_rejected: bool = False
    misnamed: tuple[str, str] | None = None  # the row, and the required name
    is_ambiguous: bool = False


class Calls:
    """Checks the tool calls of one turn.

    Attributes:
        was_stopped: whether the client stopped the turn.
        may_skip_approval: whether calls may run without their own approval, since the client
            trusts the chat or approved a call for the whole session.
    """

    def __init__(
        self,
        log: ObservationLog,
        chat_id: str,
        *,
        native: Collection[str],
        mcp_servers: Collection[str],
    ) -> None:
        self.was_stopped = False
        self.may_skip_approval = False
        self._log = log
        self._note = functools.partial(log.note, chat_id=chat_id)
        self._report = functools.partial(log.report, chat_id=chat_id)
        self._native = native
        self._mcp_servers = mcp_servers
        self._calls: dict[str, _Call] = {}
        self._ignored_ids: set[str] = set()
        self._prepared: str | None = None

    def on_decision(self, call_id: str, *, approved: bool) -> None:
        """Handle an approval or a rejection of the client."""
        call = self._calls.get(call_id)
        if call is None or call.was_rejected or call.was_approved:
            return
        if approved:
            call.was_approved = True
        else:
            call.was_rejected = call.state == "waiting"

    def check(self, kind: str, content: Mapping[str, Any]) -> None:
        """Check a content of a tool call."""
        call_id = content.get("id")
        if not isinstance(call_id, str) or call_id in self._ignored_ids:
            return
        if kind == "toolCallPrepare":
            self._check_prepare(call_id, content)
            return
        call = self._calls.get(call_id)
        if call is None:
            self._ignored_ids.add(call_id)
            self._report("W-30a", f"`toolCallPrepare` for {call_id!r} first", f"`{kind}`")
        else:
            self._advance(call, kind, content)

    def _check_prepare(self, call_id: str, content: Mapping[str, Any]) -> None:
        missing = [key for key in ("id", "name", "server") if content.get(key) == ""]
        if missing:
            got = f"no {' and no '.join(missing)}"
            self._note("W-30b", "non-empty `id`, `name` and `server`", got)
        call = self._calls.get(call_id)
        if call is None:
            head: dict[str, Any] = {key: text_at(content, key) for key in _HEAD}
            call = self._calls[call_id] = _Call(id=call_id, **head)
            self._check_name(call, content)
        else:
            self._check_same(call, content)
            if call.state == "preparing" and call_id != self._prepared:
                got = f"a piece of {call_id!r} after one of {self._prepared!r}"
                self._report("W-30h", "the pieces of one call without interruption", got)
            elif call.state != "preparing" and not call.is_ambiguous:
                self._report_misplaced(call, "toolCallPrepare")
        self._prepared = call_id
        call.pieces.append(text_at(content, "argumentsText"))

    def _check_name(self, call: _Call, content: Mapping[str, Any]) -> None:
        name, server = content.get("name"), content.get("server")
        details = content.get("details")
        if (server, name) == ("eca", "task") and text_at(details, "type") != "task":
            expected = "details of the type task for the tool eca/task"
            self._note("W-35b", expected, "different ones", paths=_DETAILS)
        if content.get("origin") != "native" or not isinstance(name, str):
            return
        if isinstance(server, str) and server in self._mcp_servers:
            self._report(
                "TOOL-10", f"the origin mcp for a tool of the MCP server {server!r}", "native"
            )
        elif isinstance(server, str) and server and server != "eca":
            self._note("W-33a", "the server eca for a native tool", repr(server))
        if self._log.revision < Revision.CURRENT:
            if f"eca_{name}" in self._native and name not in self._native:
                call.misnamed = "W-33c", f"eca_{name}"
        elif name.startswith("eca_") and name[4:] in self._native:
            call.misnamed = "W-33d", name[4:]

    def _check_misnamed(self, call: _Call, kind: str, state: CallState) -> None:
        """Report a misnamed call once its tool is known to exist, not invented by the model."""
        is_refused = kind == "toolCallRejected" and not self.was_stopped
        if call.misnamed and (kind == "toolCallRunning" or state == "waiting" or is_refused):
            (row, name), call.misnamed = call.misnamed, None
            self._note(row, f"the name {name}", repr(call.name))

    def _check_same(self, call: _Call, content: Mapping[str, Any]) -> None:
        for key in _HEAD:
            value, known = text_at(content, key), getattr(call, key)
            if value and not known:
                setattr(call, key, value)
            elif value and value != known:
                self._report(
                    "W-30a", f"the same {key} {known!r} in all contents of a call", repr(value)
                )

    def _advance(self, call: _Call, kind: str, content: Mapping[str, Any]) -> None:
        state = _STATES.get(kind, "running")
        if kind == "toolCallRun":
            state = "waiting" if content.get("manualApproval") is True else "ready"
        if call.is_ambiguous or (
            state == call.state == "running" and text_at(content, "details", "type") == "subagent"
        ):
            pass
        elif kind in call.kinds:
            self._report(
                _TWICE[kind], f"exactly one `{kind}` for {call.id!r}", f"a second `{kind}`"
            )
        elif state not in FOLLOWING[call.state] or (
            kind == "toolCalled" and not content.get("error") and call.state != "running"
        ):
            self._report_misplaced(call, kind)
        else:
            if content.get("server") == "":
                self._report("TOOL-11", "the tool's server as `server`", "an empty string")
            self._check_same(call, content)
            self._check_misnamed(call, kind, state)
            self._check_decision(call, kind, content)
            if kind == "toolCallRun":
                self._check_arguments(call, content)
            self._check_change(call, kind, content)
        call.kinds.add(kind)
        call.state = state

    def _report_misplaced(self, call: _Call, kind: str) -> None:
        self._report("W-30a", f"a valid next content for a call in state {call.state}", f"`{kind}`")
        call.is_ambiguous = True

    def _check_decision(self, call: _Call, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "toolCallRejected":
            reason = content.get("reason")
            is_users = call.was_rejected or self.was_stopped
            if call.was_rejected and reason == "user-config":
                self._note("W-30f", "the reason user-choice", repr(reason))
            elif self.was_stopped and call.state == "waiting" and reason == "user-config":
                self._note("W-30g", "the reason user-choice", repr(reason))
            elif reason == "user-choice" and not is_users and not call.was_approved:
                expected = "a rejection by the user before the reason user-choice"
                self._note("TOOL-9", expected, "none")
        elif kind in {"toolCallRunning", "toolCalled"} and call.state == "waiting":
            if call.was_rejected and kind == "toolCallRunning":
                self._note("TOOL-18", "no execution of a rejected call", f"`{kind}`")
            elif kind == "toolCallRunning" and not (call.was_approved or self.may_skip_approval):
                self._note("TOOL-4", "an approval by the user before `toolCallRunning`", "none")

    def _check_arguments(self, call: _Call, content: Mapping[str, Any]) -> None:
        arguments, written = content.get("arguments"), "".join(call.pieces)
        if not isinstance(arguments, dict):
            return
        try:
            read = json.loads(written) if written.strip() else {}
        except (ValueError, RecursionError):
            read = None
        if read == arguments or (not isinstance(read, dict) and not arguments):
            return
        encoded = json.dumps(arguments, ensure_ascii=False)
        if any(each in encoded for each in _STAND_INS):
            return
        if isinstance(read, dict) or _was_whole(call.pieces, arguments):
            got = repr(written[:60])
            self._note("W-30b", "pieces of `argumentsText` that join to the arguments", got)
        else:
            self._note("W-30c", "{} for unreadable arguments", f"{len(arguments)} arguments")

    def _check_change(self, call: _Call, kind: str, content: Mapping[str, Any]) -> None:
        details = content.get("details")
        change = details if text_at(details, "type") == "fileChange" else None
        if kind == "toolCallRun":
            call.change, call.change_is_known = change, not self._log.is_in_doubt(*_DETAILS)
        elif kind == "toolCallRejected" or not call.change_is_known:
            return
        elif change != call.change:
            got = "a different one" if change and call.change else "none" if call.change else "one"
            self._report("W-35a", "the file change of `toolCallRun`", got, paths=_DETAILS)

    def close(self) -> None:
        """Check the end of the turn."""
        for call in self._calls.values():
            if call.state not in {"called", "rejected"} and not call.is_ambiguous:
                row = "W-30g" if self.was_stopped else "W-30a"
                expected = f"the end of the call {call.id!r} before that of its turn"
                self._report(row, expected, f"the state {call.state} at the end of the turn")
                return


def _was_whole(pieces: list[str], arguments: dict[str, Any]) -> bool:
    """Return whether the model wrote these arguments although the pieces do not join to them."""
    whole = "".join(json.dumps(arguments, ensure_ascii=False).split())
    starts = "".join("".join(pieces).split())
    filled = [piece for piece in pieces if piece]
    repeats = len(filled) > 1 and filled[-1].startswith(filled[0])
    return repeats or starts in whole
