"""A tool call from its first piece to its end, as a table of its states; the calls of a turn.

Rulings W-30 to W-35. Every transition writes its content in order, and every started call is
closed: by its result, by a rejection, or by the end of the turn.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import attrs
import trio

from eca_protocol import json
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
from eca_server.agent.chat.json_outputs import json_outputs
from eca_server.agent.chat.pictures import picture_content
from eca_server.agent.tools.approval import Memo
from eca_server.agent.tools.tool import ToolOutput
from eca_server.models.history import (
    CallView,
    ImagePart,
    Message,
    Part,
    Subagent,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

Reason: TypeAlias = Literal["user-choice", "user-config", "hookRejected", "interrupted"]


class CallState(enum.Enum):
    """The state of a call; `CALLED` and `REJECTED` are final."""

    PREPARING = "preparing"
    RUN = "run"
    WAITING = "waiting approval"
    RUNNING = "running"
    CALLED = "called"
    REJECTED = "rejected"


class CallInput(enum.Enum):
    """An event in the life of a call."""

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
        id: the id of the call.
        name: the name of the tool on the wire.
        server: the server of the tool.
        origin: the kind of that server.
        shows: the details shown until the call has its own.
        summary: the summary shown before the arguments are complete; None: not known.
    """

    id: str
    name: str
    server: str
    origin: Literal["native", "mcp"]
    shows: ToolCallDetails | None = None
    summary: str | None = None


class ToolCall:
    """One call of a turn; its methods are the events of the table.

    The pictures of its result are separate contents after the one that ends it.

    Attributes:
        naming: its names on the wire.
        state: its state.
        arguments: the model's arguments, as hooks rewrote them; `{}` while they are incomplete or
            if they are unreadable.
        result: the result for the model, once the call has ended.
        decided: set when the call does not wait, or no longer waits, for an approval.
        memos: the rules that an approval for the session would remember.
        is_refused_by_user: the user rejected the call, or a call of its subagent.
        worker: returns the subagent that works in the call, with its progress; None: no subagent.

    Args:
        emit: writes a content of the call.
        naming: its names on the wire.
        moved: called when `state` has changed.
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
        self._is_announced = False
        self._names = {key: getattr(naming, key) for key in ("id", "name", "server", "origin")}
        self._summary = naming.summary
        self._details = naming.shows
        self._started: float | None = None
        self._spent_ms: int | None = None
        self._reason: Reason | None = None

    @property
    def is_open(self) -> bool:
        """True if the content that ends the call was not written yet."""
        return self.state not in {CallState.CALLED, CallState.REJECTED}

    def prepare(self, arguments_text: str, *, summary: str | None = None) -> None:
        """Write a piece of the arguments; the first one starts the call on the wire."""
        self._summary = summary or self._summary
        self._is_announced = True
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
        """Announce the complete call, and whether it needs approval."""
        self._move(CallInput.ANNOUNCE)
        self._is_announced = True
        self.arguments = arguments
        self._summary = summary or self._summary
        self._details = details or self._details
        self._emit(
            ChatToolCallRunContent(**self._names, **self._shown(), manual_approval=manual_approval)
        )

    def ask(self, memos: tuple[Memo, ...] = ()) -> None:
        """Start waiting for the user; an approval for the session remembers `memos`."""
        self._move(CallInput.ASK)
        self.memos = memos

    def approve(self) -> bool:
        """Take the user's approval; return False if the call does not wait (W-34)."""
        if self.state is not CallState.WAITING:
            return False
        self._move(CallInput.APPROVE)
        self.decided.set()
        return True

    def reject(self) -> bool:
        """Take the user's rejection; return False if the call does not wait."""
        if self.state is not CallState.WAITING:
            return False
        self._move(CallInput.REJECT)
        self.is_refused_by_user = True
        self._end_rejected("user-choice", REJECTED)
        return True

    def deny(self, reason_text: str, *, reason: Reason = "user-config") -> None:
        """Reject the call by configuration, behavior or a hook; `reason_text` is for the model."""
        self._move(CallInput.DENY)
        self._end_rejected(reason, reason_text)

    def fault(self, error_text: str) -> None:
        """End a call that cannot run: unknown, unreadable, impossible."""
        self._move(CallInput.FAULT)
        self._end_called(ToolOutput(parts=(TextPart(error_text),), is_error=True))

    def start(self) -> None:
        """Mark the call as running."""
        self._move(CallInput.START)
        self._started = trio.current_time()
        self._emit(ChatToolCallRunningContent(**self._names, **self._shown()))

    def show(self, details: ToolCallDetails) -> None:
        """Show new details of a running call; do nothing if it does not run."""
        if self.state is CallState.RUNNING:
            self._details = details
            self._emit(ChatToolCallRunningContent(**self._names, **self._shown()))

    def finish(self, output: ToolOutput, *, spent_ms: int | None = None) -> None:
        """End a call that has run; `spent_ms` replaces the time since its start."""
        self._move(CallInput.DONE)
        self._spent_ms = spent_ms
        self._end_called(output)

    def stop(self, reason: Reason = "user-choice") -> None:
        """Close an open call at the turn's end: rejected, or called with an error if it ran.

        Nothing is written about a call that was never shown to the client.
        """
        ran = self.state is CallState.RUNNING
        was_open = self.is_open
        self._move(CallInput.STOP)
        if ran:
            self._end_called(ToolOutput(parts=(TextPart(STOPPED),), is_error=True))
        elif was_open:
            self._end_rejected(reason, NOT_RUN)

    def result_part(self) -> ToolResultPart:
        """Return the result of an ended call as a part of a message."""
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

    def _move(self, event: CallInput) -> None:
        following = TRANSITIONS[self.state].get(event)
        if following is None:
            raise LocalProtocolError(
                f"the call {self.naming.id} is {self.state.value}: {event.value} cannot follow"
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

    def _end_rejected(self, reason: Reason, text: str) -> None:
        self.result = ToolOutput(parts=(TextPart(text),), is_error=True)
        self._reason = reason
        if self._is_announced:
            self._emit(ChatToolCallRejectedContent(**self._names, **self._shown(), reason=reason))
        self.decided.set()

    def _shown(self) -> dict[str, Any]:
        return {
            "arguments": self.arguments,
            "summary": self._summary,
            "details": self._details,
        }


class Calls(dict[str, ToolCall]):
    """The calls of a turn by id, in the order in which they began.

    Attributes:
        open: the calls that run or wait for the user.
    """

    def __init__(self, emit: Callable[[ChatContent], None], moved: Callable[[], None]) -> None:
        """Take the functions that write a content, and that note the move of a call."""
        super().__init__()
        self.open: dict[str, ToolCall] = {}
        self._emit = emit
        self._moved = moved

    def begin(self, naming: Naming) -> ToolCall:
        """Start a call that the model writes; `stop` closes it."""

        def moved(call: ToolCall) -> None:
            if call.state in {CallState.WAITING, CallState.RUNNING}:
                self.open[naming.id] = call
            else:
                self.open.pop(naming.id, None)
            self._moved()

        call = self[naming.id] = ToolCall(self._emit, naming, moved)
        return call

    def stop(self, reason: Reason) -> None:
        """Close the open calls; reject those that did not run, with this reason."""
        for call in self.values():
            call.stop(reason)

    def with_arguments(self, answer: Message) -> Message:
        """Return an answer with the arguments of its calls as hooks rewrote them."""
        parts = tuple(map(self._as_announced, answer.parts))
        return answer if parts == answer.parts else attrs.evolve(answer, parts=parts)

    def _as_announced(self, part: Part) -> Part:
        call = self.get(part.id) if isinstance(part, ToolCallPart) else None
        if call is None or call.state is CallState.PREPARING:
            return part
        if not isinstance(part, ToolCallPart) or call.arguments == (part.arguments or {}):
            return part
        return attrs.evolve(part, arguments=call.arguments, raw=json.dumps(call.arguments).decode())

    @staticmethod
    def complete(messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages up to the first with a call that has no result in them."""
        results = {
            part.call_id
            for message in messages
            for part in message.parts
            if isinstance(part, ToolResultPart)
        }
        calls = (
            {part.id for part in message.parts if isinstance(part, ToolCallPart)}
            for message in messages
        )
        incomplete = (place for place, ids in enumerate(calls) if not ids <= results)
        return messages[: next(incomplete, len(messages))]

    def missing_results(self, messages: Sequence[Message]) -> tuple[Part, ...]:
        """Return the results of the calls in these messages that have none there."""
        parts = [part for message in messages for part in message.parts]
        made = {part.id for part in parts if isinstance(part, ToolCallPart)}
        answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
        return tuple(call.result_part() for key, call in self.items() if key in made - answered)


def milliseconds_since(started: float) -> int:
    """Return the time since a moment of trio's clock; at least 1, since pages print a bare 0."""
    return max(1, round((trio.current_time() - started) * 1000))


REJECTED = (
    "The user rejected this call. Do not repeat it: try a different approach, or ask the user."
)
NOT_RUN = "This call did not run: the turn ended before it started."
STOPPED = "This call was stopped while it ran: its effects until then remain."
