"""From `initialize` to `exit`: what each side says when, and what the server tells at the start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from eca_protocol.endpoint import Verdict
from eca_protocol.errors import SERVER_NOT_INITIALIZED, RPCError
from eca_protocol.lifecycle import LifecycleGate, State
from eca_protocol.testing.watching.answers import Asked
from eca_protocol.testing.watching.observation import Notes, Side

__all__ = ["Opening"]

_UNASKED: Final = {
    "config/updated",
    "jobs/updated",
    "providers/updated",
    "tool/serverRemoved",
    "tool/serverUpdated",
    "$/progress",
}
"""The notifications that nothing of the client's asks for."""

_CAPABILITIES: Final = {
    "editor/getDiagnostics": ("editor", "diagnostics"),
    "editor/getDefinition": ("editor", "definition"),
    "editor/getReferences": ("editor", "references"),
    "chat/askQuestion": ("chatCapabilities", "askQuestion"),
}
"""What the server may ask of whom: where the client's `codeAssistant` says so."""


class Opening:
    """The lifecycle of one connection, as it is seen from between the two."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._gate = LifecycleGate()
        self._assistant: Mapping[str, Any] = {}
        self._states: dict[int, State] = {}
        self._is_answered = False
        self._is_ready_early = False
        self.was_shut_down = False
        self.is_over = False
        """Whether the client left, and did not wait for the end of what runs."""

    def client_asks(self, asked: Asked) -> None:
        """A request of the client's."""
        state = self._gate.state
        self._states[asked.index] = state
        if asked.method == "initialize":
            if state is not State.NEW:
                self._tell_client("LIFE-1", "one initialize", "another one")
            elif isinstance(asked.params, Mapping):
                self._assistant = _object(_object(asked.params, "capabilities"), "codeAssistant")
        elif state is State.NEW:
            self._tell_client("LIFE-1", "initialize as the first request", asked.method)
        self._admit(asked.method, "request")

    def client_tells(self, method: str) -> None:
        """A notification of the client's."""
        if method == "initialized" and self._gate.state in {State.NEW, State.INITIALIZING}:
            self._tell_client("LIFE-12", "the answer to initialize before initialized", method)
        elif method == "exit" and not self.was_shut_down:
            self._tell_client("LIFE-23", "exit when shutdown was answered", method)
            self.is_over = True
        self._admit(method, "notification")

    def ended(self, side: Side, *, after_faults: bool) -> None:
        """One side writes no more; a server may end so by a fault of the client's."""
        if side == "client" or after_faults:
            self.is_over = self.is_over or not self.was_shut_down

    def server_answers(self, asked: Asked, message: Mapping[str, Any]) -> bool:
        """An answer of the server's to `asked`.

        Returns:
            Whether the request came at a time when it has to be served.
        """
        state = self._states.pop(asked.index)
        is_error = message.get("error") is not None
        if asked.method == "initialize" and state is State.NEW:
            self._is_answered = True
            self._gate.answered("initialize", success=not is_error)
            if self._is_ready_early and not is_error:
                self._admit("initialized", "notification")
        elif asked.method == "initialize":
            if not is_error:
                self._tell("LIFE-4", "the refusal of a second initialize", "a result")
        elif state is State.NEW:
            code = _object(message, "error").get("code")
            if code != SERVER_NOT_INITIALIZED:
                got = f"an error of code {code}" if is_error else "a result"
                self._tell("LIFE-2", f"the error {SERVER_NOT_INITIALIZED} before initialize", got)
        elif state is State.SHUTDOWN:
            if not is_error:
                self._tell("LIFE-22", "the refusal of what follows shutdown", "a result")
        elif not self._is_answered:
            expected, got = "the answer to initialize before any other", f"one to {asked.method}"
            self._tell("W-10c", expected, got, harms=False)
        if asked.method == "shutdown" and not is_error:
            self.was_shut_down = True
        return self._is_answered and state is not State.SHUTDOWN

    def server_calls(self, method: str, *, is_request: bool) -> bool:
        """A request or a notification of the server's; whether it may say that by now."""
        if not self._is_answered:
            self._tell("W-10b", "nothing before the answer to initialize", method, harms=False)
            return False
        if method in _UNASKED and self._gate.state is State.ANSWERED:
            self._tell("W-10e", "notifications when initialized has come", method, harms=False)
            return False
        if is_request and method in _CAPABILITIES:
            where, what = _CAPABILITIES[method]
            if _object(self._assistant, where).get(what) is not True:
                expected = "requests that the client's capabilities announce"
                self._tell("W-42d", expected, method, harms=False)
        return True

    def _admit(self, method: str, kind: Literal["request", "notification"]) -> None:
        try:
            verdict = self._gate.admit(method, kind)
        except RPCError:
            return
        if verdict is Verdict.HOLD and method == "initialized":
            self._is_ready_early = True

    def _tell(self, row: str, expected: str, got: str, *, harms: bool = True) -> None:
        self._notes.tell(row, expected=expected, got=got, harms=harms)

    def _tell_client(self, row: str, expected: str, got: str) -> None:
        self._notes.tell(row, side="client", expected=expected, got=got)


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}
