"""A tool call on the wire, from its first piece to its end, as a table of its states.

Rulings W-30 to W-35. Every transition writes its content in order, and every started call is
closed: by its result, by a rejection, or by the end of the turn.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import anyio
import attrs

from eca_protocol import messages as m
from eca_protocol.errors import LocalProtocolError

__all__ = [
    "STOPPED",
    "TRANSITIONS",
    "Call",
    "CallInput",
    "CallState",
    "Naming",
    "Reason",
    "milliseconds_since",
]

Reason: TypeAlias = Literal["user-choice", "user-config", "hookRejected", "interrupted"]

STOPPED = "This call was stopped while it ran: its effects until then remain."


class CallState(enum.Enum):
    """The state of a call; `CALLED` and `REJECTED` are final."""

    __hash__ = object.__hash__  # that of `Enum` is slow, and each step looks both up

    PREPARING = "preparing"
    RUN = "run"
    WAITING = "waiting approval"
    RUNNING = "running"
    CALLED = "called"
    REJECTED = "rejected"


class CallInput(enum.Enum):
    """An event in the life of a call."""

    __hash__ = object.__hash__

    ANNOUNCE = "its arguments are complete"
    ASK = "it needs the user's approval"
    DENY = "the configuration, the behaviour or a hook denies it"
    FAULT = "it cannot run"
    START = "it is allowed, and its turn has come"
    APPROVE = "the user approves"
    REJECT = "the user rejects"
    DONE = "it has a result"
    STOP = "the turn ends"


def _transitions() -> Mapping[CallState, Mapping[CallInput, CallState]]:
    preparing, run, waiting, running, called, rejected = CallState
    announce, ask, deny, fault, start, approve, reject, done, stop = CallInput
    return {
        preparing: {announce: run, stop: rejected},
        run: {ask: waiting, deny: rejected, fault: called, start: running, stop: rejected},
        waiting: {approve: run, reject: rejected, stop: rejected},
        running: {done: called, stop: called},
        called: {stop: called},
        rejected: {stop: rejected},
    }


TRANSITIONS: Mapping[CallState, Mapping[CallInput, CallState]] = MappingProxyType(_transitions())
"""The transitions. An approved call returns to `RUN`: it starts when the writes before it are done.

An event that is not in the table is an error of the caller. The exception is an approval or a
rejection of a call that does not wait, which comes from the client and is ignored (W-34).
"""


@attrs.frozen(kw_only=True)
class Naming:
    """The names of a call on the wire, the same in all of its contents.

    Attributes:
        name: the name of the tool on the wire.
        origin: the kind of that server.
        shows: the details shown until the call has its own.
        summary: the summary shown before the arguments are complete; None: not known.
    """

    id: str
    name: str
    server: str
    origin: Literal["native", "mcp"]
    shows: m.ToolCallDetails | None = None
    summary: str | None = None


class Call:
    """One call of a turn; its methods are the events of the table.

    Attributes:
        arguments: the arguments; `{}` while they are incomplete or if they are unreadable.
        summary: the summary, if one is known.
        details: the details that are shown.
        spent_ms: the duration of the work in milliseconds, once it has ended.
        reason: the reason of the rejection, once the call is rejected.
        decided: set when the call does not wait, or no longer waits, for an approval.

    Args:
        emit: writes a content of the call.
        moved: called when `state` has changed.
    """

    def __init__(
        self,
        emit: Callable[[m.ChatContent], None],
        naming: Naming,
        moved: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self.naming = naming
        self.state: CallState = CallState.PREPARING
        self.arguments: Mapping[str, Any] = {}
        self.summary = naming.summary
        self.details = naming.shows
        self.spent_ms: int | None = None
        self.reason: Reason | None = None
        self.decided: anyio.Event = anyio.Event()
        self._emit = emit
        self._moved = moved
        self._is_announced = False
        self._names = {key: getattr(naming, key) for key in ("id", "name", "server", "origin")}
        self._started: float | None = None

    @property
    def is_open(self) -> bool:
        """True if the content that ends the call was not written yet."""
        return self.state not in (CallState.CALLED, CallState.REJECTED)

    def prepare(self, arguments_text: str, *, summary: str | None = None) -> None:
        """Write a piece of the arguments; the first one starts the call on the wire."""
        self.summary = summary or self.summary
        self._is_announced = True
        self._emit(
            m.ChatToolCallPrepareContent(
                **self._names,
                arguments_text=arguments_text,
                summary=self.summary,
                details=self.details,
            )
        )

    def announce(
        self,
        arguments: Mapping[str, Any],
        *,
        manual_approval: bool,
        summary: str | None = None,
        details: m.ToolCallDetails | None = None,
    ) -> None:
        """Announce the complete call, and whether it needs approval."""
        self.move(CallInput.ANNOUNCE)
        self._is_announced = True
        self.arguments = arguments
        self.summary = summary or self.summary
        self.details = details or self.details
        self._emit(
            m.ChatToolCallRunContent(
                **self._names, **self._shown(), manual_approval=manual_approval
            )
        )

    def wait_for_user(self) -> None:
        """Start waiting for the user's decision."""
        self.move(CallInput.ASK)

    def approve(self) -> bool:
        """Take the user's approval; return False if the call does not wait (W-34)."""
        if self.state is not CallState.WAITING:
            return False
        self.move(CallInput.APPROVE)
        self.decided.set()
        return True

    def reject(self) -> bool:
        """Take the user's rejection; return False if the call does not wait."""
        if self.state is not CallState.WAITING:
            return False
        self.move(CallInput.REJECT)
        self.write_rejected("user-choice")
        return True

    def start(self) -> None:
        """Mark the call as running."""
        self.move(CallInput.START)
        self._started = anyio.current_time()
        self._emit(m.ChatToolCallRunningContent(**self._names, **self._shown()))

    def show(self, details: m.ToolCallDetails) -> None:
        """Show new details of a running call; do nothing if it does not run."""
        if self.state is CallState.RUNNING:
            self.details = details
            self._emit(m.ChatToolCallRunningContent(**self._names, **self._shown()))

    def stop(self, reason: Reason = "user-choice") -> None:
        """Close an open call at the turn's end: rejected, or called with an error if it ran.

        Nothing is written about a call that was never shown to the client.
        """
        ran, was_open = self.state is CallState.RUNNING, self.is_open
        self.move(CallInput.STOP)
        if ran:
            self.write_called([STOPPED], is_error=True)
        elif was_open:
            self.write_rejected(reason)

    def write_called(self, texts: Sequence[str], *, is_error: bool) -> None:
        """Write the end of the call: its output, or the reason of its failure."""
        if self.spent_ms is None and self._started is not None:
            self.spent_ms = milliseconds_since(self._started)
        self._emit(
            m.ChatToolCalledContent(
                **self._names,
                **self._shown(),
                error=is_error,
                outputs=tuple(m.ToolCallTextOutput(text=text) for text in texts),
                total_time_ms=self.spent_ms or 1,
            )
        )
        self.decided.set()

    def write_rejected(self, reason: Reason) -> None:
        """Write the end of a call that did not run; nothing if the client does not know it."""
        self.reason = reason
        if self._is_announced:
            self._emit(m.ChatToolCallRejectedContent(**self._names, **self._shown(), reason=reason))
        self.decided.set()

    def move(self, event: CallInput) -> None:
        """Take the step of the table for an event, without writing a content.

        Raises:
            LocalProtocolError: the event cannot follow in this state.
        """
        following = TRANSITIONS[self.state].get(event)
        if following is None:
            raise LocalProtocolError(
                f"the call {self.naming.id} is {self.state.value}: {event.value} cannot follow"
            )
        self.state = following
        self._moved(self)

    def _shown(self) -> dict[str, Any]:
        return {"arguments": self.arguments, "summary": self.summary, "details": self.details}


def milliseconds_since(started: float) -> int:
    """Return the time since a moment of the loop's clock; at least 1: pages print a bare 0."""
    return max(1, round((anyio.current_time() - started) * 1000))
