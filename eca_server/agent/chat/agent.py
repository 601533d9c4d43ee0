"""The body of a model's turn: call the model, run its tool calls, send it the results, and repeat.

Rules: the next request has the results of all calls, in the order of the calls. A rejection by the
configuration or a crashing tool ends the call, not the turn; the user's rejection ends the turn if
the client's profile says so (W-31). Messages of the user to the running turn go into the next
request; if they come during the last answer, one more request follows. The number of requests is
limited.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import attrs

from eca_protocol.messages import ChatTextContent
from eca_server.agent.chat.breakdown import LastRequest
from eca_server.agent.chat.call_runner import CallRunner
from eca_server.agent.chat.compaction import Compactor
from eca_server.agent.chat.reply import reply
from eca_server.agent.chat.title import MakeTitle
from eca_server.agent.chat.turn import Turn
from eca_server.agent.context.contexts import PromptContext
from eca_server.agent.tools.output import counted
from eca_server.agent.tools.permissions import Permissions
from eca_server.agent.tools.toolbox import ToolBox
from eca_server.config.agent_settings import MOST_STEPS
from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError, Request
from eca_server.models.events import ToolCallFinished
from eca_server.models.history import Message, Origin, TextPart, effective_history
from eca_server.models.models import Model
from eca_server.models.reasoning import origin_of_dropped_reasoning
from eca_server.system.telemetry import operation

if TYPE_CHECKING:
    from eca_server.agent.chat.hooked import TurnHooks

MOST_FAILURES = 5
"""Answers in which an identical call may fail while the turn makes no progress."""


_Key: TypeAlias = tuple[str, str, str]
"""A call by its server, its tool and its arguments."""

_log = logging.getLogger("eca_server.agent.chat")


class Gather(Protocol):
    """A reader of a prompt's contexts."""

    def __call__(self, *, is_preview: bool = False) -> Awaitable[PromptContext]:
        """Read the contexts; those of a preview for the user do not count as sent."""


@attrs.frozen(kw_only=True)
class Agent:
    """The configuration of one turn's answer.

    Attributes:
        messages: the messages to send; the last is the user's, and the contexts go before it.
        permissions: decides whether a prepared call may run.
        compact_at: the percentage of the model's context that a request may take.
        gather: reads the contexts of the prompt; they go before the user's message.
        make_title: requests the chat's title, beside the first answer; None: no title.
        answer_max_kb: KiB of text of one answer, after which it is cut.
        compact_prompt: the instruction for a summary; empty: the built-in one.
        hooks: the user's hooks; None: there are none.
        max_steps: requests after which the turn ends; None: `MOST_STEPS`.
        initiator: the origin of the first request; `agent` for a subagent.
        external: answers the new messages of a turn by an agent with its own tools, in place of
            requests to the model; None: the model answers. It returns the last answer, or None
            after reporting a failure.
    """

    model: Model
    messages: Sequence[Message]
    system: str
    toolbox: ToolBox
    permissions: Permissions
    compact_at: float
    gather: Gather
    make_title: MakeTitle | None = None
    answer_max_kb: int = 32 * 1024
    compact_prompt: str = ""
    hooks: TurnHooks | None = None
    max_steps: int | None = None
    initiator: Literal["user", "agent"] = "user"
    external: Callable[[CallRunner, Turn], Awaitable[Answer | None]] | None = None

    @property
    def runner(self) -> CallRunner:
        """The runner of its calls."""
        return CallRunner(toolbox=self.toolbox, permissions=self.permissions, hooks=self.hooks)

    async def run(self, turn: Turn) -> None:
        """Answer the turn's prompt: its body."""
        name = "eca"
        attributes = {"gen_ai__agent__name": name, "gen_ai__conversation__id": turn.outlet.id}
        async with operation("invoke_agent", name, **attributes):
            opening = await self._open(turn)
            if opening is not None:
                await self._answer(turn, self.compactor(turn, opening))

    async def _open(self, turn: Turn) -> Message | None:
        """Store the prompt, and return it with its contexts; None: a hook has blocked it."""
        *before, last = self.messages
        added: Sequence[TextPart] = ()
        if self.hooks is not None:
            outcome = await self.hooks.before_request(last)
            if outcome is None:
                turn.messages.clear()  # a blocked prompt is not stored
                return None
            added, last = outcome
        prompt_text = turn.prompt.text
        opening = attrs.evolve(
            last,
            parts=(*added, *last.parts),
            content_id=turn.prompt.content_id,
            shown=None if last.parts[-1:] == (TextPart(prompt_text),) else prompt_text,
        )
        turn.messages[:] = [*before, opening]
        built = await self.gather()  # after the hooks: some contexts are reported only once
        for note in built.notes:
            turn.report(note)
        _report_dropped_reasoning(turn, self.model.origin)
        opening = attrs.evolve(opening, parts=(*built.parts, *opening.parts))
        turn.messages[:] = [*before, opening]
        turn.outlet.history.is_greeted |= self.hooks is not None
        await turn.store_prompt()
        return opening

    async def _answer(self, turn: Turn, compactor: Compactor) -> None:
        """Ask the model, and run its calls, until an answer has none."""
        failures = _Failures()
        most = self.max_steps or MOST_STEPS
        for step in range(most):
            was_last = step > 0 and turn.messages[-1].role == "assistant"
            has_new_text = await self._take_steers(turn, compactor)
            if self._is_over or (was_last and not has_new_text):
                return  # or nothing to send: the steers were commands for the server
            if has_new_text:
                failures = _Failures()
            answer = await (
                self._ask(turn, compactor, self.make_title if step == 0 else None)
                if self.external is None
                else self.external(self.runner, turn)
            )
            if answer is None:
                return
            if await self._is_last(turn, answer):
                return
            turn.write_usage_so_far()
            if answer.calls:
                results = await self.runner.run_all(turn, answer.calls)
                turn.messages.append(Message(role="tool", parts=results))
            if self._is_over:
                return
            if self._waits_for_user(turn, answer) or self._is_stuck(turn, answer.calls, failures):
                return
        hint = " Send `continue` to resume it." if self.initiator == "user" else ""
        turn.fail(f"This turn took {counted(most, 'step')} and was ended.{hint}")

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

    def _is_stuck(
        self, turn: Turn, finished: Sequence[ToolCallFinished], failures: _Failures
    ) -> bool:
        """Return whether an identical call has failed too often; report it to the user."""
        failed, changes = set(), set()
        for each in finished:
            call = turn.calls[each.key]
            key = (call.naming.server, call.naming.name, each.raw)
            tool = self.toolbox.find(call.naming.server, call.naming.name)
            if call.result is not None and call.result.is_error:
                failed.add(key)
            elif call.result is not None and tool is not None and tool.effect != "read":
                changes.add(key)
        failures.record(failed, changes)
        if all(count < MOST_FAILURES for count in failures.counts.values()):
            return False
        turn.fail(
            f"The same call failed {MOST_FAILURES} times, so this turn was ended. "
            "Send a prompt that says how to continue."
        )
        return True

    async def _take_steers(self, turn: Turn, compactor: Compactor) -> bool:
        """Take the steers that hooks let through; return whether there is a new text."""
        has_new_text = False
        while True:
            if self.hooks is not None:
                await self.hooks.check_steers()
            if self._is_over or not turn.steers:
                return has_new_text
            has_new_text |= await take_steers(turn, compactor.compact_as_asked)

    async def _ask(
        self, turn: Turn, compactor: Compactor, make_title: MakeTitle | None
    ) -> Answer | None:
        """Send one request, compacted if needed; retry once, compacted, if it was too long."""
        request = self._request(turn)
        if await compactor.compact_if_needed(request):
            request = self._request(turn)
        if self._is_over:
            return None
        try:
            return await self._reply(turn, request, make_title)
        except BackendError as error:
            done = await compactor.compact()
            if self._is_over:
                return None
            if not done:
                turn.fail(self.model.explain(error))
                return None
        try:
            return await self._reply(turn, self._request(turn), make_title)
        except BackendError as error:
            turn.fail(self.model.explain(error))
            return None

    @property
    def _is_over(self) -> bool:
        """True if a hook has ended the turn."""
        return self.hooks is not None and self.hooks.stopped

    async def _reply(
        self, turn: Turn, request: Request, make_title: MakeTitle | None
    ) -> Answer | None:
        answer = await reply(
            turn,
            self.model,
            request,
            naming=self.runner.naming,
            make_title=make_title,
            max_kb=self.answer_max_kb,
        )
        self.record_request(turn, request)
        if answer is not None and answer.usage is not None:
            turn.outlet.history.record(answer.usage, turn.messages)
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


def _report_dropped_reasoning(turn: Turn, origin: Origin) -> None:
    """Report once that a newly selected model is not sent the earlier model's reasoning."""
    before = origin_of_dropped_reasoning(turn.outlet.history.model_context, origin)
    if before is not None:
        turn.report(
            f"{origin.provider}/{origin.model} answers from here on. It is sent the chat so far, "
            f"but not the reasoning of {before.provider}/{before.model}."
        )


@attrs.define
class _Failures:
    """The failed calls of a turn since its last progress: a new call that changed something.

    Tests that fail until the code is right are no reason to end a turn.
    """

    counts: Counter[_Key] = attrs.field(factory=Counter)
    successes: set[_Key] = attrs.field(factory=set)

    def record(self, failed: set[_Key], changes: set[_Key]) -> None:
        """Take the failed calls of an answer, and the successful ones that change something."""
        if not changes <= self.successes:
            self.counts.clear()
        self.successes |= changes
        self.counts.update(failed)


async def take_steers(turn: Turn, compact: Callable[[str], Awaitable[None]]) -> bool:
    """Add the texts of the present steers to the messages, with echo, and run the commands.

    Commands run between two requests, in the order in which they came; a command that fails does
    not end the turn.

    `compact`: compacts the chat, with the user's wish for the summary.

    Returns:
        True if there is a new text for the model.
    """
    has_new_text = False
    for steer in tuple(turn.steers):  # hooks have not checked those that come meanwhile
        if steer not in turn.steers:
            continue  # taken back while a command ran
        turn.steers.remove(steer)
        turn.emit("user", ChatTextContent(text=steer.text, content_id=steer.content_id))
        if steer.command is not None:
            history, failed = turn.outlet.history, turn.failed
            history.unrecorded_prompts[steer.content_id] = len(history) + len(turn.messages)
            try:
                await steer.command(turn, compact)
            except Exception:  # noqa: BLE001 - a command's error must not end the turn
                _log.exception("a command in chat %s failed", turn.outlet.id)
                turn.report("This command failed. See the server's log for details.")
            turn.failed = failed
            continue
        has_new_text = True
        text_part = TextPart(steer.text)
        parts = steer.parts or (text_part,)
        shown = None if parts[-1] == text_part else steer.text
        turn.messages.append(
            Message(role="user", parts=parts, content_id=steer.content_id, shown=shown)
        )
    return has_new_text
