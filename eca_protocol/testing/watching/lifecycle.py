"""The lifecycle from `initialize` to `exit`: which side may write what, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from eca_protocol.endpoint import Verdict
from eca_protocol.errors import SERVER_NOT_INITIALIZED, RPCError
from eca_protocol.lifecycle import LifecycleGate, State
from eca_protocol.testing.members import at, object_at
from eca_protocol.testing.watching.observation import ObservationLog, Side
from eca_protocol.testing.watching.requests import PendingRequest

_UNASKED: Final = {
    "config/updated",
    "jobs/updated",
    "providers/updated",
    "tool/serverRemoved",
    "tool/serverUpdated",
    "$/progress",
}
"""Notifications that no message of the client causes."""

_CAPABILITIES: Final = {
    "editor/getDiagnostics": ("editor", "diagnostics"),
    "editor/getDefinition": ("editor", "definition"),
    "editor/getReferences": ("editor", "references"),
    "chat/askQuestion": ("chatCapabilities", "askQuestion"),
}
"""Server requests that need a capability, and its place in `codeAssistant`."""


class LifecycleChecker:
    """Checks the lifecycle of one connection."""

    def __init__(self, log: ObservationLog) -> None:
        self._log = log
        self._gate = LifecycleGate()
        self._assistant: Mapping[str, Any] = {}
        self._states: dict[int, State] = {}
        self._is_answered = False
        self._is_ready_early = False
        self.was_shut_down: bool = False
        self.is_over: bool = False
        """True if the client left without waiting for the end of running work."""

    def on_client_request(self, request: PendingRequest) -> None:
        """Handle a request of the client."""
        state = self._gate.state
        self._states[request.index] = state
        if request.method == "initialize":
            if state is not State.NEW:
                self._log.report(
                    "LIFE-1", "exactly one `initialize`", "a second `initialize`", side="client"
                )
            elif isinstance(request.params, Mapping):
                self._assistant = object_at(request.params, "capabilities", "codeAssistant")
        elif state is State.NEW:
            self._log.report(
                "LIFE-1", "`initialize` as the first request", f"`{request.method}`", side="client"
            )
        self._admit(request.method, "request")

    def on_client_notification(self, method: str) -> None:
        """Handle a notification of the client."""
        if method == "initialized" and self._gate.state in {State.NEW, State.INITIALIZING}:
            expected = "the response to `initialize` before `initialized`"
            self._log.report("LIFE-12", expected, f"`{method}` first", side="client")
        elif method == "exit" and not self.was_shut_down:
            expected = "`exit` after the response to `shutdown`"
            self._log.report("LIFE-23", expected, f"`{method}` without it", side="client")
            self.is_over = True
        self._admit(method, "notification")

    def on_end(self, side: Side, *, after_faults: bool) -> None:
        """Handle the end of a side's stream; an error of the client may end a server."""
        if side == "client" or after_faults:
            self.is_over = self.is_over or not self.was_shut_down

    def on_response(self, request: PendingRequest, message: Mapping[str, Any]) -> bool:
        """Check the time of a response of the server.

        Returns:
            Whether the server had to serve the request at that time.
        """
        state = self._states.pop(request.index)
        is_error = message.get("error") is not None
        if request.method == "initialize" and state is State.NEW:
            self._is_answered = True
            self._gate.record_answer("initialize", success=not is_error)
            if self._is_ready_early and not is_error:
                self._admit("initialized", "notification")
        elif request.method == "initialize":
            if not is_error:
                self._log.report("LIFE-4", "an error for a second `initialize`", "a result")
        elif state is State.NEW:
            code = at(message, "error", "code")
            if code != SERVER_NOT_INITIALIZED:
                got = f"an error of code {code}" if is_error else "a result"
                self._log.report(
                    "LIFE-2", f"the error {SERVER_NOT_INITIALIZED} before `initialize`", got
                )
        elif state is State.SHUTDOWN:
            if not is_error:
                self._log.report("LIFE-22", "an error for a request after `shutdown`", "a result")
        elif not self._is_answered:
            expected = "the response to `initialize` before other responses"
            self._log.note("W-10c", expected, f"a response to `{request.method}`")
        if request.method == "shutdown" and not is_error:
            self.was_shut_down = True
        return self._is_answered and state is not State.SHUTDOWN

    def on_server_message(self, method: str, *, is_request: bool) -> bool:
        """Check the time of a server message; return whether it may be written at that time."""
        if not self._is_answered:
            self._log.note("W-10b", "nothing before the response to `initialize`", f"`{method}`")
            return False
        if method in _UNASKED and self._gate.state is State.ANSWERED:
            self._log.note(
                "W-10e", "unsolicited notifications only after `initialized`", f"`{method}`"
            )
            return False
        if is_request and method in _CAPABILITIES:
            where, what = _CAPABILITIES[method]
            if at(self._assistant, where, what) is not True:
                expected = "only requests that the client's capabilities announce"
                self._log.note("W-42d", expected, f"`{method}`")
        return True

    def _admit(self, method: str, kind: Literal["request", "notification"]) -> None:
        try:
            verdict = self._gate.admit(method, kind)
        except RPCError:
            return
        if verdict is Verdict.HOLD and method == "initialized":
            self._is_ready_early = True
