"""The body of a turn that loops: ask the model, run the calls it made, tell it what came of them.

The rules it keeps: approvals of one answer are asked together; reads run at once, what changes
something runs in the model's order; every call has its result in the one next request, in the
order of the calls; a rejection ends the call and not the turn (W-31), nor does a tool that
crashes; the loop has an end.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import trio

from eca_server.chat.reply import reply
from eca_server.chat.tool_call import Naming, ToolCall
from eca_server.chat.turn import Turn
from eca_server.context import Built
from eca_server.llm.backend import Request
from eca_server.llm.events import ToolCallFinished
from eca_server.llm.history import Message, Part, TextPart
from eca_server.llm.models import Model
from eca_server.tools.approval import BUILT_IN, Decision
from eca_server.tools.permissions import Permissions
from eca_server.tools.schema_check import fitting
from eca_server.tools.tool import PreparedCall, Tool, ToolFault, ToolOutput
from eca_server.tools.toolbox import ToolBox

__all__ = ["Agent"]

_log = logging.getLogger("eca_server.chat")

MOST_STEPS = 200
"""Requests of one turn after which it is stopped, readably."""

MOST_FAILURES = 3
"""Answers of one turn in which the very same call may fail."""


@attrs.frozen(kw_only=True)
class Agent:
    """How one turn is answered.

    Attributes:
        model: who is asked.
        text: the user's message, as the model reads it.
        system: the instructions.
        toolbox: what the model may call.
        permissions: whether a call that was looked at may run.
        wants_title: whether the chat is to be given a title.
        gather: reads what the prompt refers to; it stands before the user's words.
    """

    model: Model
    text: str
    system: str
    toolbox: ToolBox
    permissions: Permissions
    wants_title: bool
    gather: Callable[[], Awaitable[Built]]

    async def run(self, turn: Turn) -> None:
        """The turn's body."""
        built = await self.gather()
        for note in built.notes:
            turn.say(note, role="system")
        parts = (*built.parts, TextPart(self.text))
        turn.messages.append(Message(role="user", parts=parts))
        failures: Counter[tuple[str, str]] = Counter()
        for step in range(MOST_STEPS):
            request = Request(
                system=self.system,
                messages=[*turn.chat.history, *turn.messages],
                tools=self.toolbox.offered,
            )
            wants_title = self.wants_title and step == 0
            answer = await reply(
                turn, self.model, request, naming=self._naming, wants_title=wants_title
            )
            if answer is None or not answer.calls:
                return
            results = await self._run_calls(turn, answer.calls)
            turn.messages.append(Message(role="tool", parts=results))
            if _fails_again(turn, answer.calls, failures):
                turn.fail(
                    f"The same call failed {MOST_FAILURES} times, so this turn ends here. "
                    "Say how to go on."
                )
                return
        turn.fail(f"This turn took {MOST_STEPS} steps without an end. Say `go on` to continue.")

    def _naming(self, key: str, name: str) -> Naming:
        return Naming(id=key, name=self.toolbox.listed(name), server="eca", origin="native")

    async def _run_calls(
        self, turn: Turn, finished: Sequence[ToolCallFinished]
    ) -> tuple[Part, ...]:
        """Run the calls of one answer; the results, in their order."""
        steps = [_Step(turn.calls[each.key], each) for each in finished]
        for step in steps:
            await self._look_at(step)
            await turn.drained()
        if any(not step.call.decided.is_set() and step.asks for step in steps):
            turn.progress("Waiting for tool call approval")
        async with trio.open_nursery() as nursery:
            for step, earlier in _in_order(steps):
                nursery.start_soon(_run_step, step, earlier, turn)
        return tuple(step.call.told() for step in steps)

    async def _look_at(self, step: _Step) -> None:
        """Announce a call, with what it would do and whether the user is asked."""
        call, finished = step.call, step.finished
        arguments = finished.arguments or {}
        tool = self.toolbox.find(call.naming.name)
        why = self.toolbox.why_withheld(call.naming.name)
        if finished.arguments is None:
            call.announce({}, manual_approval=False)
            call.fault(f"The arguments are unreadable: {finished.error}")
        elif tool is None and why is not None:
            call.announce(arguments, manual_approval=False)
            call.deny(why)
        elif tool is None:
            call.announce(arguments, manual_approval=False)
            call.fault(self.toolbox.unknown(call.naming.name))
        else:
            await self._look_at_known(step, tool, arguments)

    async def _look_at_known(self, step: _Step, tool: Tool, arguments: Mapping[str, Any]) -> None:
        call = step.call
        try:
            fitted = fitting(arguments, tool.parameters)
            prepared = await tool.prepare(fitted)
            decision = await self.permissions.decide(tool, prepared, arguments)
        except Exception as fault:  # noqa: BLE001 - a tool's fault must not end the turn
            call.announce(arguments, manual_approval=False)
            call.fault(_told_of(fault, call))
            return
        call.announce(
            arguments,
            manual_approval=decision.verdict == "ask",
            summary=_with_rule(prepared.summary, decision),
            details=prepared.details,
        )
        step.plan(tool, prepared)
        if decision.verdict == "deny":
            call.deny(f"Denied by {decision.rule}. Do not repeat it.")
        elif decision.verdict == "ask":
            step.asks = True
            call.ask(decision.memo)
        else:
            call.decided.set()


class _Step:
    """One call of an answer on its way."""

    def __init__(self, call: ToolCall, finished: ToolCallFinished) -> None:
        self.call = call
        self.finished = finished
        self.asks = False
        self.done = trio.Event()
        self.changes_something = False
        self._prepared: PreparedCall | None = None

    def plan(self, tool: Tool, prepared: PreparedCall) -> None:
        """What will run, if it may: the very call that was looked at, and no other."""
        self._prepared = prepared
        self.changes_something = tool.effect != "read"

    async def run(self) -> ToolOutput:
        """Do it; what goes wrong is an output, too."""
        assert self._prepared is not None
        try:
            return await self._prepared.run()
        except Exception as fault:  # noqa: BLE001 - a tool's fault must not end the turn
            return ToolOutput(parts=(TextPart(_told_of(fault, self.call)),), is_error=True)


def _in_order(steps: Sequence[_Step]) -> Iterator[tuple[_Step, Sequence[_Step]]]:
    """Each step with those it has to wait for; they have waited for all the others before it."""
    last_change: list[_Step] = []
    reads: list[_Step] = []
    for step in steps:
        if step.changes_something:
            yield step, [*last_change, *reads]
            last_change, reads = [step], []
        else:
            yield step, last_change
            reads.append(step)


async def _run_step(step: _Step, earlier: Sequence[_Step], turn: Turn) -> None:
    """Wait for the user and for what must come first; then run."""
    await step.call.decided.wait()
    for other in earlier:
        await other.done.wait()
    if step.call.is_open:
        step.call.start()
        turn.progress("Calling tool")
        output = await step.run()
        if step.call.is_open:
            step.call.finish(output)
        await turn.drained()
    step.done.set()


def _told_of(fault: Exception, call: ToolCall) -> str:
    """What the model is told of a call that raised."""
    if isinstance(fault, ToolFault):
        return str(fault)
    _log.error("the tool %s crashed", call.naming.name, exc_info=fault)
    return f"The tool failed by a fault of its own: {type(fault).__name__}: {fault}"


def _with_rule(summary: str, decision: Decision) -> str:
    """The summary, and the rule that decided unless it is one of those without configuration."""
    return summary if decision.rule in BUILT_IN else f"{summary} ({decision.rule})"


def _fails_again(
    turn: Turn, finished: Sequence[ToolCallFinished], failures: Counter[tuple[str, str]]
) -> bool:
    failed = set()
    for each in finished:
        call = turn.calls[each.key]
        if call.result is not None and call.result.is_error:
            failed.add((call.naming.name, each.raw))
    failures.update(failed)
    return any(count >= MOST_FAILURES for count in failures.values())
