"""The body of a turn that loops: ask the model, run the calls it made, tell it what came of them.

The rules it keeps: approvals of one answer are asked together, but for a call that rests on what
an earlier one will change (see `steps`): it is shown and asked for when that one has run. Every
call has its result in the one next request, in the order of the calls. A rejection by the
configuration ends the call and not the turn, nor does a tool that crashes; the user's rejection
ends the turn where the client says so (W-31). What the user says meanwhile goes into the next
request, and an answer that would be the last is followed by one; the loop has an end.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import trio

from eca_protocol import json
from eca_server.chat.breakdown import Asked
from eca_server.chat.compaction import RoomKeeper
from eca_server.chat.reply import reply
from eca_server.chat.steering import take_steers
from eca_server.chat.steps import Step, ToCome, in_order
from eca_server.chat.tool_call import CallState, Naming, ToolCall
from eca_server.chat.turn import Turn
from eca_server.content_formatting import PREFIX
from eca_server.context import PromptContext
from eca_server.llm.answer import Answer
from eca_server.llm.backend import BackendError, Request
from eca_server.llm.events import ToolCallFinished
from eca_server.llm.history import ImagePart, Message, Origin, Part, TextPart, effective_history
from eca_server.llm.models import Model
from eca_server.llm.reasoning import origin_of_dropped_reasoning
from eca_server.telemetry import operation
from eca_server.tools.approval import BUILT_IN, NATIVE, Decision
from eca_server.tools.permissions import Permissions
from eca_server.tools.schema_check import check_arguments
from eca_server.tools.tasks import TaskTool, reserved_for
from eca_server.tools.tool import PreparedCall, Tool, ToolError, ToolOutput, running_call
from eca_server.tools.toolbox import ToolBox

if TYPE_CHECKING:
    from eca_server.chat.hooked import TurnHooks

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
        asked: what the model is told; the last is the user's, and the contexts go before it.
        system: the instructions.
        toolbox: what the model may call.
        permissions: whether a call that was looked at may run.
        wants_title: whether the chat is to be given a title.
        compact_at: how much of the model's context a request may take, in percent.
        gather: reads what the prompt refers to; it stands before the user's words.
        title_prompt: how a title is asked for; None: in our words.
        answer_max_kb: KiB of text of one answer, after which it is cut.
        compact_prompt: how a summary is asked for; empty: in our words.
        hooks: the user's hooks; None: there are none.
        max_steps: requests after which the turn ends; None: as many as there may be.
        initiator: who has the model asked first; an agent, where this one works for it.
    """

    model: Model
    asked: Sequence[Message]
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
        """The turn's body."""
        name = "eca"
        told = {"gen_ai__agent__name": name, "gen_ai__conversation__id": turn.chat.id}
        async with operation("invoke_agent", name, **told):
            await self._run(turn)

    async def _run(self, turn: Turn) -> None:
        *before, last = self.asked
        added: Sequence[TextPart] = ()
        if self.hooks is not None:
            heard = await self.hooks.before_request(last)
            if heard is None:
                turn.messages.clear()  # what a hook blocks is not kept
                return
            added, last = heard
        built = await self.gather()  # what it tells of once is lost with a prompt that is blocked
        for note in built.notes:
            turn.say(note, role="system")
        _tell_of_thoughts(turn, self.model.origin)
        said = turn.prompt.text
        opening = attrs.evolve(
            last,
            parts=(*built.parts, *added, *last.parts),
            content_id=turn.prompt.content_id,
            shown=None if last.parts[-1:] == (TextPart(said),) else said,
        )
        turn.messages[:] = [*before, opening]
        if self.hooks is not None:
            self.hooks.was_told()
        await turn.chat.keep_prompt(turn)
        room = RoomKeeper(
            turn,
            self.model,
            opening,
            percentage=self.compact_at,
            instruction=self.compact_prompt,
            hooks=self.hooks,
        )
        failures: Counter[tuple[str, str, str]] = Counter()
        most = min(self.max_steps or MOST_STEPS, MOST_STEPS)
        for step in range(most):
            was_last = step > 0 and turn.messages[-1].role == "assistant"
            is_told = await self._take_steers(turn, room)
            if self._is_over or (was_last and not is_told):
                return  # or there is nothing to ask: what was said meanwhile was for the server
            wants_title = self.wants_title and step == 0
            answer = await self._ask(turn, room, wants_title=wants_title)
            if answer is None:
                return
            if await self._is_last(turn, answer):
                return
            turn.tell_usage_so_far()
            if answer.calls:
                results = await self._run_calls(turn, answer.calls)
                turn.messages.append(Message(role="tool", parts=results))
            if self._is_over:
                return
            if self._waits_for_user(turn, answer) or _is_stuck(turn, answer.calls, failures):
                return
        turn.fail(f"This turn took {most} steps without an end. Say `go on` to continue.")

    async def _is_last(self, turn: Turn, answer: Answer) -> bool:
        """Whether the model has no more to do, nor anyone more to say to it; hooks hear of that."""
        if self.hooks is not None and not answer.calls:
            await self.hooks.hear_steers()
            if not turn.steers:
                await self.hooks.after_request(answer.text)
        return not (answer.calls or turn.steers)

    def _waits_for_user(self, turn: Turn, answer: Answer) -> bool:
        """Return whether the user's rejection of a call ends the turn (W-31)."""
        was_refused = any(turn.calls[each.key].is_refused_by_user for each in answer.calls)
        ends = was_refused and turn.chat.session.profile.rejection_ends_turn
        return ends and all(each.command for each in turn.steers)

    async def _take_steers(self, turn: Turn, room: RoomKeeper) -> bool:
        """Take in what was said meanwhile, as far as hooks let it through; whether a text was."""
        is_told = False
        while True:
            if self.hooks is not None:
                await self.hooks.hear_steers()
            if self._is_over or not turn.steers:
                return is_told
            is_told |= await take_steers(turn, room)

    async def _ask(self, turn: Turn, room: RoomKeeper, *, wants_title: bool) -> Answer | None:
        """One request, with room made for it; one that is too long is tried once more, shorter."""
        request = self._request(turn)
        if await room.make_room(request):
            request = self._request(turn)
        if self._is_over:
            return None
        try:
            return await self._reply(turn, request, wants_title=wants_title)
        except BackendError as error:
            done = await room.compact()
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
        """Whether a hook has ended the turn."""
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
        self.note_asked(turn, request)
        if answer is not None and answer.usage is not None:
            turn.chat.window.told(answer.usage, len(turn.chat.history) + len(turn.messages))
        return answer

    def note_asked(self, turn: Turn, request: Request) -> None:
        """Let the turn's usage tell of this request."""
        context = self.model.capabilities.context
        turn.asked = Asked(request=request, context=context, compact_at=self.compact_at)

    def _request(self, turn: Turn) -> Request:
        messages = effective_history(turn.messages, turn.chat.told)
        return Request(
            system=self.system,
            messages=messages,
            tools=self.toolbox.offered,
            reasoning_effort=self.model.effort,
            cache_key=turn.chat.id,
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
        """Run the calls of one answer; the results, in their order."""
        steps = [Step(turn.calls[each.key], each) for each in finished]
        to_come = ToCome()
        for step in steps:
            await self._look_at(step, to_come)
            to_come.add(step)
            await turn.drained()
        turn.keep_arguments()
        turn.tell_of_calls("Calling tool", only_waiting=True)
        match steps:
            case [step]:  # a task of its own would cost more than a small tool takes
                await self._run_step(step, (), turn)
            case _:
                async with trio.open_nursery() as nursery:
                    for step, earlier in in_order(steps):
                        nursery.start_soon(self._run_step, step, earlier, turn)
        return tuple(step.call.told() for step in steps)

    async def _run_step(self, step: Step, earlier: Sequence[Step], turn: Turn) -> None:
        """Wait for the user and for what must come first; then run."""
        if step.postponed:
            await _all_done(earlier)
            await self._look_at(step, ToCome())
            turn.keep_arguments()
            turn.tell_of_calls("Calling tool", only_waiting=True)
        self._close_if_over(turn)
        if not step.call.decided.is_set():
            with trio.move_on_after(turn.chat.session.profile.approval_seconds):
                await step.call.decided.wait()
            step.call.reject()  # ignored unless it waits still
        await _all_done(earlier)
        if step.call.is_open:
            step.call.start()
            turn.tell_of_calls("Calling tool")
            output = await _output(step, turn, self.hooks)
            self._close_if_over(turn)
            pictures = [part.data for part in output.parts if isinstance(part, ImagePart)]
            if pictures:
                await turn.chat.keep_pictures(turn, pictures)
            if step.call.is_open:
                step.call.finish(output)
            await turn.drained()
        step.done.set()

    def _close_if_over(self, turn: Turn) -> None:
        """Close the calls that could still begin, if a hook has ended the turn."""
        if self._is_over:
            for call in turn.calls.values():
                if call.state in {CallState.RUN, CallState.WAITING}:
                    call.stop()

    async def _look_at(self, step: Step, to_come: ToCome) -> None:
        """Announce a call, with what it would do and whether the user is asked; or postpone it."""
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
            await self._look_at_known(step, tool, arguments, to_come)

    async def _look_at_known(
        self, step: Step, tool: Tool, arguments: Mapping[str, Any], to_come: ToCome
    ) -> None:
        call = step.call
        step.changes_something = tool.effect != "read"
        heard = None
        try:
            prepared, decision = await self._judged(tool, call, arguments)
            may_ask = decision.verdict != "deny" and not to_come.meets(prepared.changes)
            if self.hooks is not None and may_ask:
                naming, told = _for_hooks(call.naming, prepared, arguments)
                heard = await self.hooks.before_call(naming, told, decision.verdict)
                if heard.arguments != told:
                    wrapped = {**arguments, "arguments": heard.arguments}
                    arguments = wrapped if prepared.inner else heard.arguments
                    prepared, decision = await self._judged(tool, call, arguments)
                decision = heard.tightened(decision)
        except Exception as fault:  # noqa: BLE001 - a tool's fault must not end the turn
            await _still_running()
            step.postponed = bool(to_come)
            if not step.postponed:
                call.announce(arguments, manual_approval=False)
                call.fault(_told_of(fault, call))
            return
        await _still_running()
        step.prepared = prepared
        inner = prepared.inner
        step.changes_something |= prepared.is_ordered or bool(inner and inner.tool.effect != "read")
        step.postponed = to_come.meets(prepared.changes) or (
            decision.is_remembered and prepared.command is not None and bool(to_come)
        )
        if step.postponed:
            return
        call.announce(
            arguments,
            manual_approval=decision.verdict == "ask",
            summary=_with_reason(prepared.summary, decision),
            details=self.permissions.details(prepared, decision),
        )
        if heard is not None and heard.refusal is not None:
            call.deny(heard.refusal, reason="hookRejected")
        elif decision.verdict == "deny":
            call.deny(f"Denied by {decision.rule}. Do not repeat it.")
        elif decision.verdict == "ask":
            call.ask(decision.memos)
        else:
            call.decided.set()

    async def _judged(
        self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]
    ) -> tuple[PreparedCall, Decision]:
        """A call that was looked at, and whether it may run."""
        running_call.set(call.naming.id)
        is_native = call.naming.server == NATIVE  # others say themselves whether they take more
        fit = check_arguments(arguments, tool.parameters, is_closed=is_native)
        prepared = await tool.prepare(fit)
        return prepared, await self.permissions.decide(
            tool, prepared, arguments, server=call.naming.server
        )


def _for_hooks(
    naming: Naming, prepared: PreparedCall, arguments: Mapping[str, Any]
) -> tuple[Naming, Mapping[str, Any]]:
    """Return a call's names and arguments for hooks: those of the tool that it calls, if any."""
    inner = prepared.inner
    if inner is None:
        return naming, arguments
    named = attrs.evolve(naming, server=inner.server, name=inner.tool.name, origin="mcp")
    return named, inner.arguments


def _tell_of_thoughts(turn: Turn, origin: Origin) -> None:
    """Say, once when another model takes over, that it does not know what the last one thought."""
    before = origin_of_dropped_reasoning(turn.chat.told, origin)
    if before is not None:
        turn.say(
            f"{origin.provider}/{origin.model} answers from here on. It is sent the chat so far, "
            f"but not the reasoning of {before.provider}/{before.model}.",
            role="system",
        )


async def _still_running() -> None:
    """Go on unless the turn was stopped while a thread worked: its calls are closed then."""
    await trio.lowlevel.checkpoint_if_cancelled()


async def _all_done(steps: Iterable[Step]) -> None:
    for step in steps:
        await step.done.wait()


async def _output(step: Step, turn: Turn, hooks: TurnHooks | None) -> ToolOutput:
    """Do what was looked at, and tell of it; what goes wrong is an output, too.

    What hooks leave of it is the output: nobody is told of what they hide from the model.
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
            said = (part.text for part in output.parts if isinstance(part, TextPart))
            span.set(
                gen_ai__tool__call__arguments=json.dumps(step.call.arguments).decode(),
                gen_ai__tool__call__result="\n".join(said),
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
            forget()  # for a file is changed whole or not at all
            raise
    except Exception as fault:  # noqa: BLE001 - a tool's fault must not end the turn
        return ToolOutput(parts=(TextPart(_told_of(fault, step.call)),), is_error=True)


def _told_of(fault: Exception, call: ToolCall) -> str:
    """What the model is told of a call that raised."""
    if isinstance(fault, ToolError):
        return str(fault)
    _log.error("the tool %s crashed", call.naming.name, exc_info=fault)
    return f"The tool failed by a fault of its own: {type(fault).__name__}: {fault}"


def _with_reason(summary: str, decision: Decision) -> str:
    """Return the summary with the reason why the call asks or is denied, if it has one in words."""
    if decision.verdict == "allow" or decision.rule in BUILT_IN:
        return summary
    if " " in decision.rule and "toolCall." not in decision.rule:  # else it names a setting
        return f"{summary} ({decision.rule})"
    return f"{summary} (denied by the configuration)" if decision.verdict == "deny" else summary


def _is_stuck(
    turn: Turn, finished: Sequence[ToolCallFinished], failures: Counter[tuple[str, str, str]]
) -> bool:
    """Return whether the very same call has failed too often, and tell the user so."""
    failed = set()
    for each in finished:
        call = turn.calls[each.key]
        if call.result is not None and call.result.is_error:
            failed.add((call.naming.server, call.naming.name, each.raw))
    failures.update(failed)
    if all(count < MOST_FAILURES for count in failures.values()):
        return False
    turn.fail(
        f"The same call failed {MOST_FAILURES} times, so this turn ends here. Say how to go on."
    )
    return True
