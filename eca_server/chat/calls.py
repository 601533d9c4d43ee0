"""The tool calls of one turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from eca_protocol import json
from eca_protocol.messages import ChatContent
from eca_server.chat.tool_call import CallState, Naming, Reason, ToolCall
from eca_server.llm.history import Message, Part, ToolCallPart, ToolResultPart

__all__ = ["Calls"]


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
