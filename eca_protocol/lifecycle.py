"""ECA's lifecycle as a state machine over method names.

Specification, "Lifecycle Messages"; rulings W-10 and W-13. Each connection has one gate. A server
consults it for each message it receives, a client for each message it is about to send. Both use
the same table, since a client may send exactly what a server admits.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol.endpoint import Verdict
from eca_protocol.errors import (
    INVALID_REQUEST,
    SERVER_NOT_INITIALIZED,
    LocalProtocolError,
    RPCError,
)

__all__ = ["TRANSITIONS", "Input", "LifecycleGate", "State"]


class State(enum.Enum):
    """The state of a connection; `ANSWERED` lasts from `initialize`'s answer to `initialized`."""

    NEW = "new"
    INITIALIZING = "initializing"
    ANSWERED = "answered"
    READY = "ready"
    SHUTDOWN = "shutdown"
    EXITED = "exited"


Input: TypeAlias = Literal[
    "initialize",
    "initialized",
    "shutdown",
    "exit",
    "request",
    "notification",
    "initialize answered",
    "initialize failed",
]


@attrs.frozen
class _Transition:
    """The verdict on an input, and the next state; None: the state stays."""

    verdict: Verdict
    next: State | None = None
    code: int = 0
    reason: str = ""


def _row(verdict: Verdict, **others: _Transition) -> dict[Input, _Transition]:
    """Return the row of a state: one verdict and no change, but for `exit` and `others`."""
    stay = _Transition(verdict)
    row: dict[Any, _Transition] = dict.fromkeys((*_NAMED_INPUTS, "request", "notification"), stay)
    return row | {"exit": _to(State.EXITED)} | others


def _to(state: State) -> _Transition:
    return _Transition(Verdict.ADMIT, state)


def _refuse(code: int, reason: str) -> _Transition:
    return _Transition(Verdict.REFUSE, None, code, reason)


_NAMED_INPUTS: Mapping[str, Input] = {
    "initialize": "initialize",
    "initialized": "initialized",
    "shutdown": "shutdown",
    "exit": "exit",
}
_EARLY = _refuse(SERVER_NOT_INITIALIZED, "the server is not initialized yet")
_TWICE = _refuse(INVALID_REQUEST, "initialize was sent before: a connection is initialized once")
_LATE = _refuse(INVALID_REQUEST, "the server was shut down: only exit may follow")
_INITIALIZE, _READY, _SHUTDOWN = map(_to, (State.INITIALIZING, State.READY, State.SHUTDOWN))
_DROPPED = _Transition(Verdict.DROP)

TRANSITIONS: Mapping[State, Mapping[Input, _Transition]] = MappingProxyType(
    {
        State.NEW: _row(Verdict.DROP, initialize=_INITIALIZE, shutdown=_EARLY, request=_EARLY),
        State.INITIALIZING: _row(Verdict.HOLD, initialize=_TWICE)
        | {"initialize answered": _to(State.ANSWERED), "initialize failed": _to(State.NEW)},
        State.ANSWERED: _row(
            Verdict.ADMIT, initialize=_TWICE, initialized=_READY, shutdown=_SHUTDOWN
        ),
        State.READY: _row(
            Verdict.ADMIT, initialize=_TWICE, initialized=_DROPPED, shutdown=_SHUTDOWN
        ),
        State.SHUTDOWN: _row(Verdict.DROP, initialize=_LATE, shutdown=_LATE, request=_LATE),
        State.EXITED: _row(Verdict.DROP, exit=_DROPPED),
    }
)


class LifecycleGate:
    """The lifecycle of one connection, for a client or a server."""

    def __init__(self) -> None:
        self.state: State = State.NEW
        self.was_shut_down: bool = False

    def admit(self, method: str, kind: Literal["request", "notification"]) -> Verdict:
        """Return the verdict on a message and advance the state.

        An `initialize` without an id counts as any notification: it has no answer that could end
        the state `INITIALIZING`.

        Raises:
            RPCError: the message is refused; a request is answered with this error.
        """
        input_ = _NAMED_INPUTS.get(method, kind)
        if input_ == "initialize" and kind == "notification":
            input_ = kind
        step = TRANSITIONS[self.state][input_]
        if step.verdict is Verdict.REFUSE:
            raise RPCError(step.code, step.reason)
        if step.verdict is Verdict.ADMIT:
            self.state = step.next or self.state
            self.was_shut_down = self.was_shut_down or step.next is State.SHUTDOWN
        return step.verdict

    def record_answer(self, method: str, *, success: bool) -> bool:
        """Record that a request was answered; return True if held messages may pass now."""
        if method != "initialize" or self.state is not State.INITIALIZING:
            return False
        input_: Input = "initialize answered" if success else "initialize failed"
        self.state = TRANSITIONS[self.state][input_].next or self.state
        return True

    def check_sending(self, method: str, kind: Literal["request", "notification"]) -> None:
        """Advance the state for a message that a client is about to send.

        Raises:
            LocalProtocolError: the specification does not allow the message in this state.
        """
        try:
            verdict = self.admit(method, kind)
        except RPCError as refused:
            raise LocalProtocolError(f"{method}: {refused.message}") from None
        if verdict is not Verdict.ADMIT:
            ended = self.state in {State.SHUTDOWN, State.EXITED}
            state = "has ended" if ended else f"is in the state {self.state.value!r}"
            raise LocalProtocolError(f"{method} may not be sent: the connection {state}")
