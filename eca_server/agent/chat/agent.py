"""The body of a model's turn: call the model, run its tool calls, send it the results, and repeat.

Rules: the approvals of one answer are requested together. The exception is a call that depends on
what an earlier call will change (see `steps`): it is shown once the earlier call has run. The next
request has the results of all calls, in the order of the calls. A rejection by the configuration or
a crashing tool ends the call, not the turn; the user's rejection ends the turn if the client's
profile says so (W-31). Messages of the user to the running turn go into the next request; if they
come during the last answer, one more request follows. The number of requests is limited.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import trio

from eca_protocol import json
from eca_protocol.server.calls import CallState, Naming
from eca_server.agent.chat.breakdown import LastRequest
from eca_server.agent.chat.compaction import Compactor
from eca_server.agent.chat.reply import reply
from eca_server.agent.chat.steering import take_steers
from eca_server.agent.chat.steps import PendingChanges, Step, in_order
from eca_server.agent.chat.tool_call import ToolCall
from eca_server.agent.chat.turn import Turn
from eca_server.agent.context.contexts import PromptContext
from eca_server.agent.tools.approval import BUILT_IN, Decision
from eca_server.agent.tools.permissions import Permissions
from eca_server.agent.tools.schema_check import check_arguments
from eca_server.agent.tools.tasks import TaskTool, reserved_for
from eca_server.agent.tools.tool import PreparedCall, Tool, ToolError, ToolOutput, running_call
from eca_server.agent.tools.toolbox import ToolBox
from eca_server.client.content_formatting import NATIVE, PREFIX
from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError, Request
from eca_server.models.events import ToolCallFinished
from eca_server.models.history import ImagePart, Message, Origin, Part, TextPart, effective_history
from eca_server.models.models import Model
from eca_server.models.reasoning import origin_of_dropped_reasoning
from eca_server.system.telemetry import operation

if TYPE_CHECKING:
    from eca_server.agent.chat.hooked import TurnHooks

_log = logging.getLogger("eca_server.agent.chat")

MOST_STEPS = 200
"""Requests of one turn after which it ends with a message to the user."""

MOST_FAILURES = 3
"""Answers of one turn in which an identical call may fail."""


@attrs.frozen(kw_only=True)
class Agent:
    """The configuration of one turn's answer.

    Attributes:
        model: the model that answers.
        messages: the messages to send; the last is the user's, and the contexts go before it.
        system: the instructions.
        toolbox: the tools that the model may call.
        permissions: decides whether a prepared call may run.
        wants_title: request a title for the chat.
        compact_at: the percentage of the model's context that a request may take.
        gather: reads the contexts of the prompt; they go before the user's message.
        title_prompt: the instruction for a title; None: the built-in one.
        answer_max_kb: KiB of text of one answer, after which it is cut.
        compact_prompt: the instruction for a summary; empty: the built-in one.
        hooks: the user's hooks; None: there are none.
        max_steps: requests after which the turn ends; None: `MOST_STEPS`.
        initiator: the origin of the first request; `agent` for a subagent.
    """

    model: Model
    messages: Sequence[Message]
    system: str
    toolbox: ToolBox
    permissions: Permissions
    wants_title: bool
    compact_at: float
    gather: Callable[[], Awaitable[PromptContext]]
    title_prompt: str | None = None
    answer_max_kb: int = 32 * 1024
    compact_prompt: str = ""
    hooks: TurnHooks | None = None
    max_steps: int | None = None
    initiator: Literal["user", "agent"] = "user"

    async def run(self, turn: Turn) -> None:
        """Answer the turn's prompt: its body."""
        name = "eca"
        attributes = {"gen_ai__agent__name": name, "gen_ai__conversation__id": turn.outlet.id}
        async with operation("invoke_agent", name, **attributes):
            await self._run(turn)

    async def _run(self, turn: Turn) -> None:
        *before, last = self.messages
        added: Sequence[TextPart] = ()
        if self.hooks is not None:
            outcome = await self.hooks.before_request(last)
            if outcome is None:
                turn.messages.clear()  # a blocked prompt is not stored
                return
            added, last = outcome
        built = await self.gather()  # after the hooks: some contexts are reported only once
        for note in built.notes:
            turn.say(note, role="system")
        _report_dropped_reasoning(turn, self.model.origin)
        prompt_text = turn.prompt.text
        opening = attrs.evolve(
            last,
            parts=(*built.parts, *added, *last.parts),
            content_id=turn.prompt.content_id,
            shown=None if last.parts[-1:] == (TextPart(prompt_text),) else prompt_text,
        )
        turn.messages[:] = [*before, opening]
        if self.hooks is not None:
            self.hooks.mark_greeted()
        await turn.store_prompt()
        compactor = self.compactor(turn, opening)
        failures: Counter[tuple[str, str, str]] = Counter()
        most = min(self.max_steps or MOST_STEPS, MOST_STEPS)
        for step in range(most):
            was_last = step > 0 and turn.messages[-1].role == "assistant"
            has_new_text = await self._take_steers(turn, compactor)
            if self._is_over or (was_last and not has_new_text):
                return  # or nothing to send: the steers were commands for the server
            wants_title = self.wants_title and step == 0
            answer = await self._ask(turn, compactor, wants_title=wants_title)
            if answer is None:
                return
            if await self._is_last(turn, answer):
                return
            turn.write_usage_so_far()
            if answer.calls:
                results = await self._run_calls(turn, answer.calls)
                turn.messages.append(Message(role="tool", parts=results))
            if self._is_over:
                return
            if self._waits_for_user(turn, answer) or _is_stuck(turn, answer.calls, failures):
                return
        turn.fail(f"This turn took {most} steps and was ended. Send `continue` to resume it.")

    async def _is_last(self, turn: Turn, answer: Answer) -> bool:
        """Return whether an answer is the last of the turn; run the hooks for its end."""
        if self.hooks is not None and not answer.calls:
            await self.hooks.check_steers()
            if not turn.steers:
                await self.hooks.after_request(answer.text)
        return not (answer.calls or turn.steers)

    def _waits_for_user(self, turn: Turn, answer: Answer) -> bool:
        """Return whether the user's rejection of a call ends the turn (W-31)."""
        was_refused = any(turn.calls[each.key].is_refused_by_user for each in answer.calls)
        ends = was_refused and turn.session.profile.rejection_ends_turn
        return ends and all(each.command for each in turn.steers)

    async def _take_steers(self, turn: Turn, compactor: Compactor) -> bool:
        """Take the steers that hooks let through; return whether there is a new text."""
        has_new_text = False
        while True:
            if self.hooks is not None:
                await self.hooks.check_steers()
            if self._is_over or not turn.steers:
                return has_new_text
            has_new_text |= await take_steers(turn, compactor.compact_as_asked)

    async def _ask(self, turn: Turn, compactor: Compactor, *, wants_title: bool) -> Answer | None:
        """Send one request, compacted if needed; retry once, compacted, if it was too long."""
        request = self._request(turn)
        if await compactor.compact_if_needed(request):
            request = self._request(turn)
        if self._is_over:
            return None
        try:
            return await self._reply(turn, request, wants_title=wants_title)
        except BackendError as error:
            done = await compactor.compact()
            if self._is_over:
                return None
            if not done:
                turn.fail(self.model.explain(error))
                return None
        try:
            return await self._reply(turn, self._request(turn), wants_title=wants_title)
        except BackendError as error:
            turn.fail(self.model.explain(error))
            return None

    @property
    def _is_over(self) -> bool:
        """True if a hook has ended the turn."""
        return self.hooks is not None and self.hooks.stopped

    async def _reply(self, turn: Turn, request: Request, *, wants_title: bool) -> Answer | None:
        answer = await reply(
            turn,
            self.model,
            request,
            naming=self._naming,
            wants_title=wants_title,
            title_prompt=self.title_prompt,
            max_kb=self.answer_max_kb,
        )
        self.record_request(turn, request)
        if answer is not None and answer.usage is not None:
            turn.outlet.history.record(answer.usage, len(turn.messages))
        return answer

    def compactor(self, turn: Turn, opening: Message | None = None) -> Compactor:
        """Return what compacts the chat during a turn; `opening`: the message it answers."""
        return Compactor(
            turn,
            self.model,
            opening,
            percentage=self.compact_at,
            instruction=self.compact_prompt,
            hooks=self.hooks,
        )

    def record_request(self, turn: Turn, request: Request) -> None:
        """Record a request for the turn's context breakdown."""
        context = self.model.capabilities.context
        turn.last_request = LastRequest(
            request=request, context=context, compact_at=self.compact_at
        )

    def _request(self, turn: Turn) -> Request:
        messages = effective_history(turn.messages, turn.outlet.history.model_context)
        return Request(
            system=self.system,
            messages=messages,
            tools=self.toolbox.offered,
            reasoning_effort=self.model.effort,
            cache_key=turn.outlet.id,
            initiator="agent" if turn.calls else self.initiator,
        )

    def _naming(self, key: str, name: str) -> Naming:
        server, own = self.toolbox.resolve(name)
        origin: Literal["native", "mcp"] = "native" if server == NATIVE else "mcp"
        tool = self.toolbox.find(server, own)
        shows = tool.tasks.details if isinstance(tool, TaskTool) else reserved_for(server, own)
        summary = None if tool is None else tool.summary({}) or None
        return Naming(id=key, name=own, server=server, origin=origin, shows=shows, summary=summary)

    async def _run_calls(
        self, turn: Turn, finished: Sequence[ToolCallFinished]
    ) -> tuple[Part, ...]:
        """Run the calls of one answer; return the results in the order of the calls."""
        steps = [Step(turn.calls[each.key], each) for each in finished]
        pending = PendingChanges()
        for step in steps:
            await self._look_at(step, pending)
            pending.add(step)
            await turn.drained()
        turn.messages[-1] = turn.calls.with_arguments(turn.messages[-1])
        turn.show_call_progress("Calling tool", only_waiting=True)
        match steps:
            case [step]:  # a task of its own would cost more than a small tool takes
                await self._run_step(step, (), turn)
            case _:
                async with trio.open_nursery() as nursery:
                    for step, earlier in in_order(steps):
                        nursery.start_soon(self._run_step, step, earlier, turn)
        return tuple(step.call.result_part() for step in steps)

    async def _run_step(self, step: Step, earlier: Sequence[Step], turn: Turn) -> None:
        """Wait for the approval and for the calls that must come first; then run."""
        if step.postponed:
            await _all_done(earlier)
            await self._look_at(step, PendingChanges())
            turn.messages[-1] = turn.calls.with_arguments(turn.messages[-1])
            turn.show_call_progress("Calling tool", only_waiting=True)
        self._close_if_over(turn)
        if not step.call.decided.is_set():
            with trio.move_on_after(turn.session.profile.approval_seconds):
                await step.call.decided.wait()
            step.call.reject()  # ignored unless it waits still
        await _all_done(earlier)
        if step.call.is_open:
            step.call.start()
            turn.show_call_progress("Calling tool")
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
        if self._is_over:
            for call in turn.calls.values():
                if call.state in {CallState.RUN, CallState.WAITING}:
                    call.stop()

    async def _look_at(self, step: Step, pending: PendingChanges) -> None:
        """Announce a call, with its effect and whether it needs approval; or postpone it."""
        await _still_running()
        call, finished = step.call, step.finished
        arguments = finished.arguments or {}
        tool = self.toolbox.find(call.naming.server, call.naming.name)
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
            await self._look_at_known(step, tool, arguments, pending)

    async def _look_at_known(
        self, step: Step, tool: Tool, arguments: Mapping[str, Any], pending: PendingChanges
    ) -> None:
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
                call.announce(arguments, manual_approval=False)
                call.fault(_error_text(fault, call))
            return
        await _still_running()
        step.prepared = prepared
        inner = prepared.inner
        step.changes_something |= prepared.is_ordered or bool(inner and inner.tool.effect != "read")
        step.postponed = pending.meets(prepared.changes) or (
            decision.is_remembered and prepared.command is not None and bool(pending)
        )
        if step.postponed:
            return
        call.announce(
            arguments,
            manual_approval=decision.verdict == "ask",
            summary=_with_reason(prepared.summary, decision),
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


def _for_hooks(
    naming: Naming, prepared: PreparedCall, arguments: Mapping[str, Any]
) -> tuple[Naming, Mapping[str, Any]]:
    """Return a call's names and arguments for hooks: the inner tool's, if it calls one."""
    inner = prepared.inner
    if inner is None:
        return naming, arguments
    named = attrs.evolve(naming, server=inner.server, name=inner.tool.name, origin="mcp")
    return named, inner.arguments


def _report_dropped_reasoning(turn: Turn, origin: Origin) -> None:
    """Report once that a newly selected model is not sent the earlier model's reasoning."""
    before = origin_of_dropped_reasoning(turn.outlet.history.model_context, origin)
    if before is not None:
        turn.say(
            f"{origin.provider}/{origin.model} answers from here on. It is sent the chat so far, "
            f"but not the reasoning of {before.provider}/{before.model}.",
            role="system",
        )


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
            output = await hooks.after_call(*known, output)
        if span.records_content:
            texts = (part.text for part in output.parts if isinstance(part, TextPart))
            span.set(
                gen_ai__tool__call__arguments=json.dumps(step.call.arguments).decode(),
                gen_ai__tool__call__result="\n".join(texts),
            )
    return output


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
        return ToolOutput(parts=(TextPart(_error_text(fault, step.call)),), is_error=True)


def _error_text(fault: Exception, call: ToolCall) -> str:
    """Return the text for the model about a call that raised."""
    if isinstance(fault, ToolError):
        return str(fault)
    _log.error("the tool %s crashed", call.naming.name, exc_info=fault)
    return f"Internal error of the tool: {type(fault).__name__}: {fault}"


def _with_reason(summary: str, decision: Decision) -> str:
    """Return the summary, with the reason for an approval or a denial if there is one."""
    if decision.verdict == "allow" or decision.rule in BUILT_IN:
        return summary
    if " " in decision.rule and "toolCall." not in decision.rule:  # else it names a setting
        return f"{summary} ({decision.rule})"
    return f"{summary} (denied by the configuration)" if decision.verdict == "deny" else summary


def _is_stuck(
    turn: Turn, finished: Sequence[ToolCallFinished], failures: Counter[tuple[str, str, str]]
) -> bool:
    """Return whether an identical call has failed too often; report it to the user."""
    failed = set()
    for each in finished:
        call = turn.calls[each.key]
        if call.result is not None and call.result.is_error:
            failed.add((call.naming.server, call.naming.name, each.raw))
    failures.update(failed)
    if all(count < MOST_FAILURES for count in failures.values()):
        return False
    turn.fail(
        f"The same call failed {MOST_FAILURES} times, so this turn was ended. "
        "Send a prompt that says how to continue."
    )
    return True
