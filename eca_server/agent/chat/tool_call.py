"""The tool calls of a turn: what a call has beyond its contents on the wire.

The states and contents of a call are in `eca_protocol.server.calls`.
"""

from __future__ import annotations

import json as stdlib_json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs
import trio

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_protocol.messages import ChatContent, JsonOutputsDetails
from eca_protocol.server.calls import STOPPED, Call, CallInput, CallState, Naming, Reason
from eca_server.agent.chat.pictures import picture_content
from eca_server.agent.tools.approval import Memo
from eca_server.agent.tools.tool import ToolOutput
from eca_server.models.history import (
    CallView,
    ImagePart,
    Message,
    Part,
    Subagent,
    ToolCallPart,
    ToolResultPart,
    parts_in,
)

MOST_LONGER: Final = 4
"""The largest growth factor of a text; a deeply nested one stays as it is."""


def json_outputs(texts: Iterable[str]) -> JsonOutputsDetails | None:
    """Return the texts indented; None unless each of them is a JSON object or array."""
    shown = []
    for text in texts:
        if not text.lstrip().startswith(("{", "[")):
            return None
        try:
            value = json.loads(text)
        except InvalidJSON:
            return None
        pretty = stdlib_json.dumps(value, indent=2, ensure_ascii=False)
        shown.append(pretty if len(pretty) <= MOST_LONGER * len(text) + 100 else text)
    return JsonOutputsDetails(jsons=tuple(shown)) if shown else None


class ToolCall(Call):
    """One call of a turn, with its result for the model.

    The pictures of its result are separate contents after the one that ends it.

    Attributes:
        arguments: the model's arguments, as hooks rewrote them.
        result: the result for the model, once the call has ended.
        asked_at: the time, by trio's clock, since which it waits for the user.
        memos: the rules that an approval for the session would remember.
        rejection: the text for the model if the call is rejected while it waits.
        worker: returns the subagent that works in the call, with its progress; None: no subagent.
    """

    def __init__(
        self,
        emit: Callable[[ChatContent], None],
        naming: Naming,
        moved: Callable[[ToolCall], None] = lambda _: None,
    ) -> None:
        super().__init__(emit, naming, moved)
        self.result: ToolOutput | None = None
        self.asked_at = math.inf
        self.memos: tuple[Memo, ...] = ()
        self.rejection = REJECTED
        self.is_refused_by_user = False
        self.worker: Callable[[], Subagent] | None = None

    def ask(self, memos: tuple[Memo, ...] = ()) -> None:
        """Start waiting for the user; an approval for the session remembers `memos`."""
        self.wait_for_user()
        self.asked_at = trio.current_time()
        self.memos = memos

    def reject(self) -> bool:
        """Take the user's rejection; return False if the call does not wait."""
        if self.state is CallState.WAITING:
            self.is_refused_by_user = True
            self.result = _failure(self.rejection)
        return super().reject()

    def deny(self, reason_text: str, *, reason: Reason = "user-config") -> None:
        """Reject the call by configuration, behavior or a hook; `reason_text` is for the model."""
        self.move(CallInput.DENY)
        self.result = _failure(reason_text)
        self.write_rejected(reason)

    def fault(self, error_text: str) -> None:
        """End a call that cannot run: unknown, unreadable, impossible."""
        self.move(CallInput.FAULT)
        self.result = _failure(error_text)
        self.write_called([error_text], is_error=True)

    def finish(self, output: ToolOutput, *, spent_ms: int | None = None) -> None:
        """End a call that has run; `spent_ms` replaces the time since its start."""
        self.move(CallInput.DONE)
        self.result = output
        self.details = output.details or self.details
        if self.details is None and self.naming.origin == "mcp":
            self.details = json_outputs(output.texts)
        self.spent_ms = spent_ms
        self.write_called(output.texts, is_error=output.is_error)
        for part in output.parts:
            if isinstance(part, ImagePart):
                self._emit(picture_content(part.data))

    def stop(self, reason: Reason = "user-choice") -> None:
        """Close an open call at the turn's end; see `Call.stop`."""
        if self.is_open:
            self.result = _failure(STOPPED if self.state is CallState.RUNNING else NOT_RUN)
        super().stop(reason)

    def result_part(self) -> ToolResultPart:
        """Return the result of an ended call as a part of a message."""
        assert self.result is not None
        spent = self.spent_ms
        view = CallView(
            summary=self.summary, details=self.details, total_time_ms=spent, reason=self.reason
        )
        return ToolResultPart(
            call_id=self.naming.id,
            parts=self.result.parts,
            is_error=self.result.is_error,
            subagent=None if self.worker is None else self.worker(),
            view=view,
        )


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
            if call.state in (CallState.WAITING, CallState.RUNNING):
                self.open[naming.id] = call
            else:
                self.open.pop(naming.id, None)
            self._moved()

        call = self[naming.id] = ToolCall(self._emit, naming, moved)
        return call

    def stop(self, reason: Reason = "user-choice") -> None:
        """Close the open calls; reject those that did not run, with this reason."""
        for call in filter(lambda each: each.is_open, self.values()):
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
        results = {part.call_id for part in parts_in(messages, ToolResultPart)}
        calls = ({part.id for part in parts_in([each], ToolCallPart)} for each in messages)
        incomplete = (place for place, ids in enumerate(calls) if not ids <= results)
        return messages[: next(incomplete, len(messages))]

    def missing_results(self, messages: Sequence[Message]) -> tuple[Part, ...]:
        """Return the results of the calls in these messages that have none there."""
        made = {part.id for part in parts_in(messages, ToolCallPart)}
        missing = made - {part.call_id for part in parts_in(messages, ToolResultPart)}
        return tuple(call.result_part() for key, call in self.items() if key in missing)


def _failure(text: str) -> ToolOutput:
    """Return the result of a call that failed or did not run."""
    return ToolOutput.of(text, is_error=True)


REJECTED = (
    "The user rejected this call. Do not repeat it: try a different approach, or ask the user."
)
UNASKED = (
    "This call needs the user's approval, and there is no terminal to ask the user, so it did not "
    "run. Do not repeat it: try a different approach, or name what the user should allow."
)
UNANSWERED = (
    "This call needs the user's approval, and the user did not answer in time, so it did not run. "
    "Do not repeat it: try a different approach, or ask the user."
)
NOT_RUN = "This call did not run: the turn ended before it started."
