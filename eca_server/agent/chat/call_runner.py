"""The calls of one answer: announced, approved and run (W-30).

Rules: the approvals of one answer are requested together. The exception is a call that depends on
what an earlier call will change (see `steps`): it is shown once the earlier call has run. A crash
of a tool ends its call, not the turn.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import trio

from eca_protocol import json
from eca_protocol.server.calls import CallState, Naming
from eca_server.agent.chat.steps import PendingChanges, Step, in_order
from eca_server.agent.chat.tool_call import UNANSWERED, ToolCall
from eca_server.agent.chat.turn import Turn
from eca_server.agent.tools.approval import BUILT_IN, Decision
from eca_server.agent.tools.files import LARGEST, checkpoint, in_thread
from eca_server.agent.tools.permissions import Permissions
from eca_server.agent.tools.schemas import check_arguments
from eca_server.agent.tools.tasks import TaskTool, reserved_for
from eca_server.agent.tools.tool import (
    FileChange,
    PreparedCall,
    Tool,
    ToolError,
    ToolOutput,
    running_call,
)
from eca_server.agent.tools.toolbox import ToolBox
from eca_server.client.content_formatting import NATIVE, PREFIX
from eca_server.models.events import ToolCallFinished
from eca_server.models.history import ImagePart, Part
from eca_server.printable import printable_line
from eca_server.system.telemetry import operation
from eca_server.workspace.errors import FileError
from eca_server.workspace.reading import FileSnapshot, read_file

if TYPE_CHECKING:
    from eca_server.agent.chat.hooked import TurnHooks


_log = logging.getLogger("eca_server.agent.chat")


@attrs.frozen(kw_only=True)
class CallRunner:
    """Runs the calls of a turn."""

    toolbox: ToolBox
    permissions: Permissions
    hooks: TurnHooks | None = None

    def naming(self, key: str, name: str) -> Naming:
        """Return the names of a call for its id and the model's name of the tool."""
        server, own = self.toolbox.resolve(name)
        origin: Literal["native", "mcp"] = "native" if server == NATIVE else "mcp"
        tool = self.toolbox.find(server, own)
        shows = tool.tasks.details if isinstance(tool, TaskTool) else reserved_for(server, own)
        summary = None if tool is None else tool.summary({}) or None
        return Naming(id=key, name=own, server=server, origin=origin, shows=shows, summary=summary)

    async def run_all(self, turn: Turn, finished: Sequence[ToolCallFinished]) -> tuple[Part, ...]:
        """Run the calls of one answer; return the results in the order of the calls."""
        steps = [Step(turn.calls[each.key], each) for each in finished]
        pending = PendingChanges()
        for step in steps:
            await self.look_at(step, pending)
            pending.add(step)
            await turn.drained()
        turn.messages[-1] = turn.calls.with_arguments(turn.messages[-1])
        turn.show_call_progress("Calling tool", only_waiting=True)
        match steps:
            case [step]:  # a task of its own would cost more than a small tool takes
                await self.run_step(step, (), turn)
            case _:
                async with trio.open_nursery() as nursery:
                    for step, earlier in in_order(steps):
                        nursery.start_soon(self.run_step, step, earlier, turn)
        return tuple(step.call.result_part() for step in steps)

    async def run_step(self, step: Step, earlier: Sequence[Step], turn: Turn) -> None:
        """Wait for the approval and for the calls that must come first; then run."""
        if step.postponed:
            await _all_done(earlier)
            await self.look_at(step, PendingChanges())
            turn.messages[-1] = turn.calls.with_arguments(turn.messages[-1])
            turn.show_call_progress("Calling tool", only_waiting=True)
        self._close_if_over(turn)
        await wait_for_approval(step.call, turn)
        await _all_done(earlier)
        if step.call.is_open:
            step.call.start()
            assert step.prepared is not None
            turn.show_call_progress(step.prepared.activity)
            output = await _output(step, turn, self.hooks)
            self._close_if_over(turn)
            pictures = [part.data for part in output.parts if isinstance(part, ImagePart)]
            if pictures:
                await turn.store_pictures(pictures)
            if step.call.is_open:
                step.call.finish(output)
            await turn.drained()
        step.done.set()

    def _close_if_over(self, turn: Turn) -> None:
        """Close the calls that have not started, if a hook has ended the turn."""
        if self.hooks is not None and self.hooks.stopped:
            for call in turn.calls.values():
                if call.state in {CallState.RUN, CallState.WAITING}:
                    call.stop("interrupted")

    async def look_at(
        self, step: Step, pending: PendingChanges, served_by: Tool | None = None
    ) -> None:
        """Announce a call, with its effect and whether it needs approval; or postpone it.

        `served_by` replaces the tool of this name, if it is offered.
        """
        await _still_running()
        call, finished = step.call, step.finished
        arguments = finished.arguments or {}
        tool = self.toolbox.find(call.naming.server, call.naming.name)
        if tool is not None and served_by is not None:
            tool = served_by
        why = self.toolbox.why_withheld(call.naming.server, call.naming.name)
        if finished.arguments is None:
            call.announce({}, manual_approval=False)
            call.fault(f"The arguments are unreadable: {finished.error}")
        elif tool is None and why is not None:
            own_name = call.naming.name.removeprefix(PREFIX)
            summary = _with_reason(own_name, Decision(verdict="deny", rule=why))
            call.announce(arguments, manual_approval=False, summary=summary)
            call.deny(f"Not available: {why}.")
        elif tool is None:
            call.announce(arguments, manual_approval=False)
            call.fault(self.toolbox.unknown(call.naming.name))
        else:
            await self.look_at_known(step, tool, arguments, pending)

    async def look_at_known(
        self, step: Step, tool: Tool, arguments: Mapping[str, Any], pending: PendingChanges
    ) -> None:
        """Announce a call of a tool, or postpone it; see `PendingChanges`."""
        call = step.call
        step.changes_something = tool.effect != "read"
        verdict = None
        try:
            prepared, decision = await self._prepare_and_decide(tool, call, arguments)
            may_ask = decision.verdict != "deny" and not pending.meets(prepared.changes)
            if self.hooks is not None and may_ask:
                naming, hook_arguments = _for_hooks(call.naming, prepared, arguments)
                verdict = await self.hooks.before_call(naming, hook_arguments, decision.verdict)
                if verdict.arguments != hook_arguments:
                    wrapped = {**arguments, "arguments": verdict.arguments}
                    arguments = wrapped if prepared.inner else verdict.arguments
                    prepared, decision = await self._prepare_and_decide(tool, call, arguments)
                decision = verdict.tightened(decision)
        except Exception as fault:  # noqa: BLE001 - a tool's fault must not end the turn
            await _still_running()
            step.postponed = bool(pending)
            if not step.postponed:
                summary = _summary_of_invalid(tool, arguments)
                call.announce(arguments, manual_approval=False, summary=summary)
                call.fault(_error_text(fault, call))
            return
        await _still_running()
        step.prepared = prepared
        inner = prepared.inner
        step.changes_something |= prepared.is_ordered or bool(inner and inner.tool.effect != "read")
        is_plain_command = prepared.command is not None and not prepared.is_sandboxed
        step.postponed = pending.meets(prepared.changes) or (
            decision.verdict == "allow" and is_plain_command and bool(pending)
        )
        if step.postponed:
            return
        call.announce(
            arguments,
            manual_approval=decision.verdict == "ask",
            summary=printable_line(_with_reason(prepared.summary, decision)),
            details=self.permissions.details(prepared, decision),
        )
        if verdict is not None and verdict.refusal is not None:
            call.deny(verdict.refusal, reason="hookRejected")
        elif decision.verdict == "deny":
            call.deny(f"Denied by {decision.rule}. Do not repeat it.")
        elif decision.verdict == "ask":
            call.ask(decision.memos)
        else:
            call.decided.set()

    async def _prepare_and_decide(
        self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]
    ) -> tuple[PreparedCall, Decision]:
        """Prepare a call; return it with the decision whether it may run."""
        running_call.set(call.naming.id)
        is_native = call.naming.server == NATIVE  # other servers check extra arguments
        fit = check_arguments(arguments, tool.parameters, is_closed=is_native)
        prepared = await tool.prepare(fit)
        return prepared, await self.permissions.decide(
            tool, prepared, arguments, server=call.naming.server
        )


async def wait_for_approval(call: ToolCall, turn: Turn) -> None:
    """Wait until the user has decided; some clients' users have a time limit."""
    if not call.decided.is_set():
        with trio.move_on_after(turn.session.profile.approval_seconds):
            await call.decided.wait()
        call.rejection = UNANSWERED
        call.reject()  # ignored unless it waits still


def _for_hooks(
    naming: Naming, prepared: PreparedCall, arguments: Mapping[str, Any]
) -> tuple[Naming, Mapping[str, Any]]:
    """Return a call's names and arguments for hooks: the inner tool's, if it calls one."""
    inner = prepared.inner
    if inner is None:
        return naming, arguments
    named = attrs.evolve(naming, server=inner.server, name=inner.tool.name, origin="mcp")
    return named, inner.arguments


async def _still_running() -> None:
    """Continue unless the turn was stopped, and its calls closed, while a thread worked."""
    await trio.lowlevel.checkpoint_if_cancelled()


async def _all_done(steps: Iterable[Step]) -> None:
    for step in steps:
        await step.done.wait()


async def _output(step: Step, turn: Turn, hooks: TurnHooks | None) -> ToolOutput:
    """Run a prepared call inside a span; return its output, also for an error.

    The output is the one that hooks have changed: text that they hide from the model is not shown
    or traced either.
    """
    async with operation(
        "execute_tool",
        step.call.naming.name,
        gen_ai__tool__name=step.call.naming.name,
        gen_ai__tool__call__id=step.call.naming.id,
        gen_ai__tool__type="function",
    ) as span:
        output = await _done(step, turn)
        if output.is_error:
            span.fail("tool_error")
        if hooks is not None:
            assert step.prepared is not None
            known = _for_hooks(step.call.naming, step.prepared, step.call.arguments)
            written = {} if output.is_error else await _written(step.prepared)
            output = await hooks.after_call(*known, output)
            await turn.will_change(_changed_by_hooks(written, await _written(step.prepared)))
        if span.records_content:
            span.set(
                gen_ai__tool__call__arguments=json.dumps(step.call.arguments).decode(),
                gen_ai__tool__call__result="\n".join(output.texts),
            )
    return output


async def _written(prepared: PreparedCall) -> dict[Path, FileSnapshot]:
    """Return the current contents of the files that a call has written, if they can be read."""
    paths = {change.path for change in prepared.changes if change.after is not None}
    places = [place for place in prepared.places if place.real_path in paths]

    def read() -> dict[Path, FileSnapshot]:
        snapshots = {}
        for place in places:
            with contextlib.suppress(FileError, OSError):
                snapshots[place.real_path] = read_file(place, limit=LARGEST, checkpoint=checkpoint)
        return snapshots

    with contextlib.suppress(ToolError):  # the disk is too slow
        return await in_thread(read) if places else {}
    return {}


def _changed_by_hooks(
    before: Mapping[Path, FileSnapshot], after: Mapping[Path, FileSnapshot]
) -> Sequence[FileChange]:
    """Return the changes that hooks (a formatter) made of the files that a call has written."""
    return [
        FileChange(path=path, before=before[path], after=snapshot.fingerprint)
        for path, snapshot in after.items()
        if path in before and snapshot.fingerprint != before[path].fingerprint
    ]


async def _done(step: Step, turn: Turn) -> ToolOutput:
    assert step.prepared is not None
    running_call.set(step.call.naming.id)
    try:
        forget = await turn.will_change(step.prepared.changes)
        try:
            return await step.prepared.run()
        except BaseException:
            forget()  # a file is changed completely or not at all
            raise
    except Exception as fault:  # noqa: BLE001 - a tool's fault must not end the turn
        return ToolOutput.of(_error_text(fault, step.call), is_error=True)


def _error_text(fault: Exception, call: ToolCall) -> str:
    """Return the text for the model about a call that raised."""
    if isinstance(fault, ToolError):
        return str(fault)
    _log.error("the tool %s crashed", call.naming.name, exc_info=fault)
    return f"Internal error of the tool: {type(fault).__name__}: {fault}"


def _summary_of_invalid(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    """Return the summary of a call that cannot run; None: its arguments are no good for one."""
    try:
        return printable_line(tool.summary(arguments))
    except Exception:  # noqa: BLE001 - the call fails for the reason that the tool has given
        return None


def _with_reason(summary: str, decision: Decision) -> str:
    """Return the summary, with the reason for an approval or a denial if there is one."""
    if decision.verdict == "allow" or decision.rule in BUILT_IN:
        return summary
    if " " in decision.rule and "toolCall." not in decision.rule:  # else it names a setting
        return f"{summary} ({decision.rule})"
    return f"{summary} (denied by the configuration)" if decision.verdict == "deny" else summary
