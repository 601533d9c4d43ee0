"""The updates of an agent's session as contents of a turn, and as messages of its history.

Rules: a message of the history ends once all of its calls have ended and more text comes; a call is
part of it once its arguments are complete.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from eca_protocol import json
from eca_protocol.acp import messages as acp
from eca_protocol.messages import TaskItem, TaskPriority, TaskStatus, UsageLimit
from eca_protocol.revisions import Revision
from eca_protocol.server.calls import CallState, Naming
from eca_server.agent.acp.blocks import shown
from eca_server.agent.acp.calls import AgentCall, shown_title, tool_name
from eca_server.agent.chat.pictures import picture_content
from eca_server.agent.chat.reply import add_answer
from eca_server.agent.chat.tool_call import ToolCall
from eca_server.agent.chat.turn import Turn
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.tasks import TASK_TOOL, Tasks
from eca_server.agent.tools.tool import ToolOutput
from eca_server.client.content_formatting import NATIVE, PREFIX
from eca_server.models import events
from eca_server.models.answer import Answer
from eca_server.models.history import ImagePart, Message, Origin, TextPart
from eca_server.models.stream_decoder import token_count

_STATES: Final[Mapping[str, TaskStatus]] = {"in_progress": "in-progress", "completed": "done"}
_PRIORITIES: Final[Mapping[str, TaskPriority]] = {"high": "high", "low": "low"}
_UNTITLED: Final = "tool"


class TurnWriter:
    """Writes what an agent does into one turn.

    Args:
        turn: the turn.
        origin: the agent.
        cap: the limit of a diff.
        terminal: returns the output of a terminal.

    Attributes:
        last_answer: the answer after the last tool call.
        usage: the last usage that the agent reported in this turn.
        title: the title of the session, if it came in this turn.
    """

    def __init__(
        self, turn: Turn, origin: Origin, *, cap: Cap, terminal: Callable[[str], str]
    ) -> None:
        self.turn = turn
        self.cap = cap
        self.last_answer = Answer()
        self.usage: acp.UsageUpdate | None = None
        self.title: str | None = None
        self.calls: dict[str, AgentCall] = {}
        self._origin = origin
        self._terminal = terminal
        self._thought: str | None = None
        self._last_message: str | None = None  # whose text was written last, if it has an id
        self._open: list[ToolCall] = []
        self._is_over = False
        turn.draft.begin_answer(origin)

    @property
    def server(self) -> str:
        """The server of the agent's tools, in contents and in rules of the policy."""
        return f"{self._origin.provider}/{self._origin.model}"

    def take(self, update: acp.SessionUpdate) -> None:
        """Show an update; ignore those of the session's settings."""
        match update:
            case acp.AgentMessageChunk():
                self._say(update.content, update.message_id)
            case acp.AgentThoughtChunk():
                part = shown(update.content)
                if isinstance(part, TextPart) and part.text:
                    self._think(part.text)
            case acp.ToolCall() | acp.ToolCallUpdate():
                self.advance(self.merge(update))
            case acp.Plan():
                self._plan(update)
            case acp.UsageUpdate():
                self.usage = update
            case acp.SessionInfoUpdate():
                self.title = update.title or self.title

    def _feed(self, event: events.Event) -> None:
        self.last_answer.feed(event)
        self.turn.draft.record(event)

    def _say(self, block: acp.ContentBlock, message_id: str | None) -> None:
        """Write a part of a message; one behind the text of a different message is a paragraph."""
        part = shown(block)
        self._begin_text()
        if isinstance(part, ImagePart):
            self._feed(part)
            self.turn.emit("assistant", picture_content(part.data))
        elif part.text:
            is_next = message_id is not None and self._last_message not in {None, message_id}
            text = f"\n\n{part.text}" if is_next else part.text
            self._last_message = message_id
            self._feed(events.TextDelta(text))
            self.turn.say(text)

    def _think(self, text: str) -> None:
        if self._thought is None:
            self._begin_text()
            self._last_message = None
            self._thought = uuid.uuid4().hex
            self._feed(events.ReasoningStarted(self._thought))
            self.turn.reasonings.start(self._thought)
        self._feed(events.ReasoningDelta(self._thought, text))
        self.turn.reasonings.write(self._thought, text)

    def _end_thought(self) -> None:
        if self._thought is not None:
            self._feed(events.ReasoningFinished(key=self._thought))
            self.turn.reasonings.finish(self._thought)
            self._thought = None

    def _begin_text(self) -> None:
        """End the message before the next text, if it has calls and all have ended."""
        self._end_thought()
        if self._open and not any(each.is_open for each in self._open):
            self._end_message(is_interrupted=False)

    def _end_message(self, *, is_interrupted: bool) -> None:
        self._end_thought()
        add_answer(self.turn, self.last_answer, self._origin, is_interrupted=is_interrupted)
        results = tuple(each.result_part() for each in self._open if not each.is_open)
        if results and not is_interrupted:  # else the turn adds them
            self.turn.messages.append(Message(role="tool", parts=results))
        self._open = []
        self.last_answer = Answer()
        if not self._is_over:
            self.turn.draft.begin_answer(self._origin)

    def merge(self, change: acp.ToolCall | acp.ToolCallChange) -> AgentCall:
        """Merge an update into its call, and return the call, which may be new."""
        known = self.calls.get(change.tool_call_id)
        is_new = known is None
        if known is None:
            title = change.title or _UNTITLED
            known = AgentCall(call=self._begin(title, change.kind), title=title)
            self.calls[change.tool_call_id] = known
        known.merge(change)
        if is_new:
            known.is_prepared = bool(known.arguments)
            known.call.prepare(_text_of(known.arguments))
        return known

    def begin_again(self, known: AgentCall) -> AgentCall:
        """Begin one more call with the members of a known one."""
        call = self._begin(known.title, known.kind)
        call.prepare(_text_of(known.arguments))
        return attrs.evolve(known, call=call, is_prepared=True, is_written=False, is_asking=False)

    def _begin(self, title: str, kind: str | None) -> ToolCall:
        self._end_thought()
        self._last_message = None
        naming = Naming(
            id=uuid.uuid4().hex,
            name=tool_name(kind, title),
            server=self.server,
            origin="mcp",
            summary=shown_title(title),
        )
        return self.turn.calls.begin(naming)

    def write_call(self, naming: Naming, call: ToolCall, arguments: Any) -> None:
        """Make a call part of the answer."""
        self._end_thought()
        self._last_message = None
        self._feed(events.ToolCallStarted(key=naming.id, name=naming.name))
        raw = json.dumps(arguments).decode()
        self._feed(events.ToolCallFinished(key=naming.id, raw=raw, arguments=arguments))
        self._open.append(call)

    def ensure_written(self, known: AgentCall) -> None:
        """Make a call of the agent part of the answer, unless it is one already."""
        if not known.is_written:
            known.is_written = True
            last = next(reversed(self.turn.calls.values()), None)
            if not known.is_prepared and known.arguments and known.call is last:  # W-30
                known.call.prepare(_text_of(known.arguments))
            self.write_call(known.call.naming, known.call, known.arguments)

    def advance(self, known: AgentCall) -> None:
        """Show the status that the agent reports of a call, unless the call waits for the user."""
        if known.is_asking:
            return
        call, status = known.call, known.status
        if call.state is CallState.PREPARING and status in {"in_progress", "completed", "failed"}:
            self.ensure_written(known)
            call.announce(
                known.arguments,
                manual_approval=False,
                summary=shown_title(known.title),
                details=known.details(self.cap),
            )
            call.decided.set()
            call.start()
            self.turn.show_call_progress("Calling tool")
        if call.state is not CallState.RUNNING:
            return
        call.summary = shown_title(known.title) or call.summary
        if status in {"completed", "failed"}:
            call.finish(known.output(self._terminal, self.cap))

    def _plan(self, plan: acp.Plan) -> None:
        """Show a plan as the list of tasks; as a text to a client without such a list."""
        self._end_thought()
        lines = "\n".join(f"- [{each.status}] {each.content}" for each in plan.entries)
        is_current = self.turn.session.revision is Revision.CURRENT
        details = _tasks(plan).details if is_current else None
        naming = Naming(
            id=uuid.uuid4().hex,
            name=PREFIX + TASK_TOOL if is_current else "plan",
            server=NATIVE if is_current else self.server,
            origin="native" if is_current else "mcp",
            shows=details,
            summary="Plan",
        )
        arguments: dict[str, Any] = {
            "op": "plan",
            "tasks": [{"subject": each.content} for each in plan.entries],
        }
        call = self.turn.calls.begin(naming)
        call.prepare(_text_of(arguments))
        call.announce(arguments, manual_approval=False, summary="Plan", details=details)
        call.decided.set()
        self.write_call(naming, call, arguments)
        call.start()
        call.finish(ToolOutput.of(lines or "An empty plan.", details=details))

    def finish(self, *, is_interrupted: bool, cost: float | None = None) -> Answer:
        """End the messages of the turn; return the last answer. Later updates are ignored.

        Args:
            is_interrupted: the agent did not finish its work.
            cost: the cost of this turn in US dollars, if the agent reports it.
        """
        if not is_interrupted:
            for known in self.calls.values():
                if known.call.state in {CallState.PREPARING, CallState.RUNNING}:
                    known.status = known.status if known.status == "failed" else "completed"
                    self.advance(known)
        self._is_over = True
        answer = self.last_answer
        self._end_message(is_interrupted=is_interrupted)
        self.write_usage(cost)
        answer.calls.clear()  # they have run
        return answer

    def write_usage(self, cost: float | None) -> None:
        """Set the turn's usage: the part of the agent's context that is used."""
        if self.usage is not None:
            size = token_count(self.usage.size)
            self.turn.limit = None if size is None else UsageLimit(context=size)
            self.turn.usages[:] = [
                events.Usage(input=token_count(self.usage.used), output=0, cost=cost)
            ]


def _text_of(arguments: Mapping[str, Any]) -> str:
    """Return the text of arguments for the client; empty if there are none."""
    return json.dumps(arguments).decode() if arguments else ""


def _tasks(plan: acp.Plan) -> Tasks:
    items = []
    for number, each in enumerate(plan.entries, 1):
        status = _STATES.get(str(each.status), "pending")
        priority = _PRIORITIES.get(str(each.priority), "medium")
        items.append(TaskItem(id=number, subject=each.content, status=status, priority=priority))
    return Tasks(items=tuple(items))
