"""A tool call from the first piece the model writes to its end: an automaton, as a table.

Rulings W-30 to W-35. Every transition writes its content in order, and every call that was begun
is closed: by its result, by a rejection, or by whatever ends the turn.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import attrs
import trio

from eca_protocol.errors import LocalProtocolError
from eca_protocol.messages import (
    ChatContent,
    ChatToolCalledContent,
    ChatToolCallPrepareContent,
    ChatToolCallRejectedContent,
    ChatToolCallRunContent,
    ChatToolCallRunningContent,
    ToolCallDetails,
    ToolCallTextOutput,
)
from eca_server.chat.json_outputs import json_outputs
from eca_server.chat.pictures import picture_content
from eca_server.llm.history import CallView, ImagePart, Subagent, TextPart, ToolResultPart
from eca_server.tools.approval import Memo
from eca_server.tools.tool import ToolOutput

__all__ = [
    "TRANSITIONS",
    "CallInput",
    "CallState",
    "Naming",
    "Reason",
    "ToolCall",
    "milliseconds_since",
]

Reason: TypeAlias = Literal["user-choice", "user-config", "hookRejected", "interrupted"]


class CallState(enum.Enum):
    """Where a call stands; `CALLED` and `REJECTED` are its ends."""

    PREPARING = "preparing"
    RUN = "run"
    WAITING = "waiting approval"
    RUNNING = "running"
    CALLED = "called"
    REJECTED = "rejected"


class CallInput(enum.Enum):
    """What can happen to a call."""

    ANNOUNCE = "its arguments are whole"
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
"""An approved call is back in `RUN`: it starts when the writes before it are done. What is not
in the table is the caller's mistake, except an approval or a rejection that comes to a call which
does not wait: that is the client's, and ignored (W-34)."""


@attrs.frozen(kw_only=True)
class Naming:
    """How a call is named on the wire: the same on all of its contents.

    Attributes:
        id: of the call.
        name: of the tool, as the client is told.
        server: of the tool.
        origin: what kind of server that is.
        shows: what it shows until it has something of its own to show.
        summary: what it does, in words, before its arguments are whole; None: not known.
    """

    id: str
    name: str
    server: str
    origin: Literal["native", "mcp"]
    shows: ToolCallDetails | None = None
    summary: str | None = None


class ToolCall:
    """One call of a turn; its methods are the inputs of the table.

    The pictures of its result are contents of their own, behind the one that ends it.

    Attributes:
        naming: its names on the wire.
        state: where it stands.
        arguments: the model's, as hooks rewrote them; `{}` until they are whole or where they are
            unreadable.
        result: what the model is told, once the call has ended.
        decided: set when it waits for nobody (any more).
        memos: what an approval for the session would remember.
        is_refused_by_user: whether the user rejected it, or a call of the agent that works in it.
        worker: tells who works in it, and what was done by now; None: no agent does.

    Args:
        emit: says a content of the call.
        naming: its names on the wire.
        moved: told when `state` has changed.
    """

    def __init__(
        self,
        emit: Callable[[ChatContent], None],
        naming: Naming,
        moved: Callable[[ToolCall], None] = lambda _: None,
    ) -> None:
        self.naming = naming
        self.state = CallState.PREPARING
        self.arguments: Mapping[str, Any] = {}
        self.result: ToolOutput | None = None
        self.decided = trio.Event()
        self.memos: tuple[Memo, ...] = ()
        self.is_refused_by_user = False
        self.worker: Callable[[], Subagent] | None = None
        self._emit = emit
        self._moved = moved
        self._is_told = False
        self._names = {key: getattr(naming, key) for key in ("id", "name", "server", "origin")}
        self._summary = naming.summary
        self._details = naming.shows
        self._started: float | None = None
        self._spent_ms: int | None = None
        self._reason: Reason | None = None

    @property
    def is_open(self) -> bool:
        """Whether a content that ends it is still owed."""
        return self.state not in {CallState.CALLED, CallState.REJECTED}

    def prepare(self, arguments_text: str, *, summary: str | None = None) -> None:
        """A piece of the arguments; the first one begins the call on the wire."""
        self._summary = summary or self._summary
        self._is_told = True
        self._emit(
            ChatToolCallPrepareContent(
                **self._names,
                arguments_text=arguments_text,
                summary=self._summary,
                details=self._details,
            )
        )

    def announce(
        self,
        arguments: Mapping[str, Any],
        *,
        manual_approval: bool,
        summary: str | None = None,
        details: ToolCallDetails | None = None,
    ) -> None:
        """The call is whole; whether the user will be asked."""
        self._move(CallInput.ANNOUNCE)
        self._is_told = True
        self.arguments = arguments
        self._summary = summary or self._summary
        self._details = details or self._details
        self._emit(
            ChatToolCallRunContent(**self._names, **self._shown(), manual_approval=manual_approval)
        )

    def ask(self, memos: tuple[Memo, ...] = ()) -> None:
        """Wait for the user from now on; an approval for the session remembers `memos`."""
        self._move(CallInput.ASK)
        self.memos = memos

    def approve(self) -> bool:
        """The user lets it run; False, and nothing done, if it does not wait (W-34)."""
        if self.state is not CallState.WAITING:
            return False
        self._move(CallInput.APPROVE)
        self.decided.set()
        return True

    def reject(self) -> bool:
        """The user does not let it run; False as for `approve`."""
        if self.state is not CallState.WAITING:
            return False
        self._move(CallInput.REJECT)
        self.is_refused_by_user = True
        self._end_rejected("user-choice", REJECTED)
        return True

    def deny(self, told: str, *, reason: Reason = "user-config") -> None:
        """Configuration, behaviour or a hook do not let it run; `told` is for the model."""
        self._move(CallInput.DENY)
        self._end_rejected(reason, told)

    def fault(self, told: str) -> None:
        """It cannot run: unknown, unreadable, impossible."""
        self._move(CallInput.FAULT)
        self._end_called(ToolOutput(parts=(TextPart(told),), is_error=True))

    def start(self) -> None:
        """It runs."""
        self._move(CallInput.START)
        self._started = trio.current_time()
        self._emit(ChatToolCallRunningContent(**self._names, **self._shown()))

    def show(self, details: ToolCallDetails) -> None:
        """It runs and has more to show by now; ignored if it does not run."""
        if self.state is CallState.RUNNING:
            self._details = details
            self._emit(ChatToolCallRunningContent(**self._names, **self._shown()))

    def finish(self, output: ToolOutput, *, spent_ms: int | None = None) -> None:
        """It has run; `spent_ms`: how long, unless the time since its start is meant."""
        self._move(CallInput.DONE)
        self._spent_ms = spent_ms
        self._end_called(output)

    def stop(self, reason: Reason = "user-choice") -> None:
        """The turn ends: an open call is rejected, or called with an error if it ran.

        Of one that waited behind another the client has never heard, and hears nothing now.
        """
        ran = self.state is CallState.RUNNING
        was_open = self.is_open
        self._move(CallInput.STOP)
        if ran:
            self._end_called(ToolOutput(parts=(TextPart(STOPPED),), is_error=True))
        elif was_open:
            self._end_rejected(reason, NOT_RUN)

    def told(self) -> ToolResultPart:
        """What the model is told of a call that has ended."""
        assert self.result is not None
        return ToolResultPart(
            call_id=self.naming.id,
            parts=self.result.parts,
            is_error=self.result.is_error,
            subagent=None if self.worker is None else self.worker(),
            view=CallView(
                summary=self._summary,
                details=self._details,
                total_time_ms=self._spent_ms,
                reason=self._reason,
            ),
        )

    def _move(self, given: CallInput) -> None:
        following = TRANSITIONS[self.state].get(given)
        if following is None:
            raise LocalProtocolError(
                f"the call {self.naming.id} is {self.state.value}: {given.value} cannot follow"
            )
        self.state = following
        self._moved(self)

    def _end_called(self, output: ToolOutput) -> None:
        self.result = output
        texts = [part.text for part in output.parts if isinstance(part, TextPart)]
        self._details = output.details or self._details
        if self._details is None and self.naming.origin == "mcp":
            self._details = json_outputs(texts)
        if self._spent_ms is None and self._started is not None:
            self._spent_ms = milliseconds_since(self._started)
        self._emit(
            ChatToolCalledContent(
                **self._names,
                **self._shown(),
                error=output.is_error,
                outputs=tuple(ToolCallTextOutput(text=text) for text in texts),
                total_time_ms=self._spent_ms or 1,
            )
        )
        for part in output.parts:
            if isinstance(part, ImagePart):
                self._emit(picture_content(part.data))
        self.decided.set()

    def _end_rejected(self, reason: Reason, told: str) -> None:
        self.result = ToolOutput(parts=(TextPart(told),), is_error=True)
        self._reason = reason
        if self._is_told:
            self._emit(ChatToolCallRejectedContent(**self._names, **self._shown(), reason=reason))
        self.decided.set()

    def _shown(self) -> dict[str, Any]:
        return {
            "arguments": self.arguments,
            "summary": self._summary,
            "details": self._details,
        }


def milliseconds_since(started: float) -> int:
    """Return the time since a moment of trio's clock; at least 1, since pages print a bare 0."""
    return max(1, round((trio.current_time() - started) * 1000))


REJECTED = "The user rejected this call. Do not repeat it: go on differently, or ask what to do."
NOT_RUN = "It did not run: the turn ended before."
STOPPED = "Stopped while it ran: what it had done by then is done."
