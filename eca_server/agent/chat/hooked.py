"""The hooks of one turn: their payloads, and the effects of their results.

Rules: a hook can make the decision about a call stricter, never looser; text that a hook adds is
framed like contexts; each hook that was shown to start is shown to end, also after a stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol.messages import ChatHookActionFinishedContent, ChatHookActionStartedContent
from eca_protocol.server.calls import Naming
from eca_server.agent.chat.turn import Steer, Turn
from eca_server.agent.context.block import Section, render
from eca_server.agent.hooks.action import ActionResult, Outcome
from eca_server.agent.hooks.background import BackgroundHooks
from eca_server.agent.hooks.hooks import HookReporter, HookResults, Hooks, ToolCallEvent
from eca_server.agent.tools.approval import Decision
from eca_server.agent.tools.approval_rules import Verdict
from eca_server.agent.tools.output import Cap, cut_middle
from eca_server.agent.tools.tool import ToolOutput
from eca_server.client.content_formatting import NATIVE, PREFIX
from eca_server.config.hook_settings import HookEvent
from eca_server.models.history import Message, TextPart

Trigger: TypeAlias = Literal["manual", "auto"]
"""The trigger of a compaction: `/compact`, or a request that would be too long."""

_MOST_FOLLOW_UPS = 10
_SHOWN = Cap(size=4 * 1024)  # of a hook's output as shown; the whole output is parsed
_HIDDEN = "[Tool output hidden by hook]"
_NOT_RUN = "This call did not run: a hook of the user ended this turn."


@attrs.frozen(kw_only=True)
class CallVerdict:
    """The hooks' decision about a call before it runs.

    Attributes:
        arguments: the model's arguments, as hooks rewrote them.
        refusal: the reason for the model why the call must not run; None: hooks allow it.
        approval_requested_by: the hook that requires the user's approval.
    """

    arguments: Mapping[str, Any]
    refusal: str | None = None
    approval_requested_by: str | None = None

    def tightened(self, decision: Decision) -> Decision:
        """Return the decision made stricter; a refusal always denies the call."""
        if self.refusal is not None:
            return attrs.evolve(decision, verdict="deny")
        if self.approval_requested_by is not None and decision.verdict == "allow":
            return Decision(
                verdict="ask", rule=f"required by the hook {self.approval_requested_by}"
            )
        return decision


@attrs.define
class TurnHooks:
    """The hooks of a turn.

    Attributes:
        chat_payload: the members about the chat in each hook's payload.
        background: runs the hooks of the chat's start, which a delete of the chat does not end.
        stopped: a hook has ended the turn.
    """

    _hooks: Hooks
    _turn: Turn
    _chat_payload: Mapping[str, Any]
    _background: BackgroundHooks
    stopped: bool = attrs.field(init=False, default=False)
    _follow_ups: int = attrs.field(init=False, default=0)

    @property
    def _is_subagents(self) -> bool:
        return self._turn.outlet.parent_id is not None

    async def before_request(self, message: Message) -> tuple[Sequence[TextPart], Message] | None:
        """Run the hooks before the first request.

        Returns:
            The parts to put before the user's message, and that message; None: it is not sent.
        """
        contexts: list[tuple[str, str]] = []
        history = self._turn.outlet.history
        if self._is_subagents or not history.is_greeted or not history:
            results = await self._start()
            contexts += results.contexts
            if self._ends_with(results):
                return None
        *others, last = message.parts
        prompt_text = last.text if isinstance(last, TextPart) else self._turn.prompt.text
        results = await self._fire("preRequest", prompt=prompt_text)
        if self._ends_with(results):
            return None
        if results.blocked_by is not None:
            name, why = results.blocked_by
            self._turn.fail(f"Request blocked by hook '{name}'{': ' + why if why else '.'}")
            return None
        if results.payload["prompt"] != prompt_text:
            self._turn.about = results.payload["prompt"]
            last = TextPart(self._turn.about) if isinstance(last, TextPart) else last
        return _framed([*contexts, *results.contexts]), attrs.evolve(message, parts=(*others, last))

    async def _start(self) -> HookResults:
        if self._is_subagents:
            return await self._fire("subagentStart")
        turn = self._turn
        payload = {**self._chat_payload, "resumed": bool(turn.outlet.history)}
        if not self._hooks.has("chatStart"):
            return HookResults(payload=payload)
        run = partial(self._hooks.fire, "chatStart", payload, _HookDisplay(turn))
        return await self._background.run_start(turn.outlet.id, run, lambda: turn.is_mute)

    async def check_steers(self) -> None:
        """Run the `preRequest` hooks for each new steer, once.

        The turn takes the steers that the hooks allow; the user is notified of blocked ones.
        """
        steers = self._turn.steers
        while steer := next((e for e in steers if e.parts is None and e.command is None), None):
            results = await self._fire("preRequest", prompt=steer.text)
            if steer not in steers:
                continue  # it was withdrawn meanwhile
            if self._ends_with(results):
                return
            place = steers.index(steer)
            if results.blocked_by is None:
                parts = (*_framed(results.contexts), TextPart(results.payload["prompt"]))
                steers[place] = attrs.evolve(steer, parts=parts)
            else:
                del steers[place]
                name, why = results.blocked_by
                words = f"Blocked by hook '{name}'{': ' + why if why else '.'}\n\n{steer.text}"
                self._turn.report(words)

    async def after_request(self, response: str) -> None:
        """Run the hooks after the last answer; add their follow-up, if any, as a steer."""
        event: HookEvent = "subagentPostRequest" if self._is_subagents else "postRequest"
        is_active = self._follow_ups > 0
        results = await self._fire(event, response=response, follow_up_active=is_active)
        if self._ends_with(results):
            return
        follow_ups = [*results.follow_ups, *(results.blocked_by[1:] if results.blocked_by else ())]
        text = "\n\n".join(each for each in follow_ups if each)
        if text and self._follow_ups < _MOST_FOLLOW_UPS:
            self._follow_ups += 1
            self._turn.steers.append(Steer(text=text, parts=(TextPart(text),)))
        elif text:
            self._turn.fail(f"Hooks continued this turn {_MOST_FOLLOW_UPS} times, so it was ended.")

    async def before_compaction(self, triggered: Trigger, wish: str) -> bool:
        """Return whether the chat may be compacted; report it if not."""
        results = await self._fire("preCompact", triggered=triggered, custom_instructions=wish)
        if self._ends_with(results):
            return False
        if results.blocked_by is not None:
            self._turn.report(f"Compaction blocked by hook '{results.blocked_by[0]}'.")
        return results.blocked_by is None

    async def after_compaction(self, triggered: Trigger, summary: str) -> Sequence[TextPart]:
        """Return the parts to put after the summary."""
        results = await self._fire("postCompact", triggered=triggered, compact_summary=summary)
        self._ends_with(results)
        return _framed(results.contexts)

    async def before_call(
        self, naming: Naming, arguments: Mapping[str, Any], verdict: Verdict
    ) -> CallVerdict:
        """Return the hooks' decision about a prepared call that is not denied."""
        if self.stopped:
            return CallVerdict(arguments=arguments, refusal=_NOT_RUN)
        payload = {**self._call_payload(naming, arguments), "approval": verdict}
        results = await self._fire_of_call("preToolCall", payload, naming, arguments)
        refusal = approval_requested_by = None
        if self._ends_with(results):
            refusal = _NOT_RUN
        elif results.approval is not None and results.approval[0] == "deny":
            why = "\n".join(each for each in results.denial_reasons if each)
            refusal = why or f"Denied by the hook {results.approval[1]}. Do not repeat it."
        elif results.approval is not None and results.approval[0] == "ask":
            approval_requested_by = results.approval[1]
        return CallVerdict(
            arguments=results.payload["tool_input"],
            refusal=refusal,
            approval_requested_by=approval_requested_by,
        )

    async def after_call(
        self, naming: Naming, arguments: Mapping[str, Any], output: ToolOutput
    ) -> ToolOutput:
        """Return the output as hooks change it for the model."""
        payload = {
            **self._call_payload(naming, arguments),
            "tool_response": "\n".join(output.texts),
            "error": output.is_error,
        }
        results = await self._fire_of_call(
            "postToolCall", payload, naming, arguments, failed=output.is_error
        )
        self._ends_with(results)
        parts = output.parts
        if results.blocked_by is not None:
            parts = (TextPart(results.blocked_by[1] or _HIDDEN),)
        elif results.replacement is not None:
            parts = (TextPart(results.replacement or _HIDDEN),)
        return attrs.evolve(output, parts=(*parts, *_framed(results.contexts)))

    async def _fire(self, event: HookEvent, **members: Any) -> HookResults:
        payload = {**self._chat_payload, **members}
        return await self._hooks.fire(event, payload, _HookDisplay(self._turn))

    async def _fire_of_call(
        self,
        event: HookEvent,
        payload: Mapping[str, Any],
        naming: Naming,
        arguments: Mapping[str, Any],
        *,
        failed: bool = False,
    ) -> HookResults:
        call = ToolCallEvent(
            server=naming.server, tool=_own_name(naming), arguments=arguments, failed=failed
        )
        return await self._hooks.fire(event, payload, _HookDisplay(self._turn, naming.id), call)

    def _call_payload(self, naming: Naming, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **self._chat_payload,
            "tool_name": _own_name(naming),
            "server": naming.server,
            "tool_input": dict(arguments),
            "tool_call_id": naming.id,
        }

    def _ends_with(self, results: HookResults) -> bool:
        """Return whether a hook ends the turn, and report which one."""
        if results.stopped_by is not None:
            name, reason = results.stopped_by
            self.stopped = True
            self._turn.fail(f"Turn stopped by hook '{name}'{': ' + reason if reason else '.'}")
        return self.stopped


@attrs.frozen
class _HookDisplay(HookReporter):
    """Shows hooks in the chat if the client's edition has them; else reports failures as text."""

    turn: Turn
    call: str | None = None

    def started(self, key: str, name: str) -> None:
        if self._shows_hooks:
            begun = ChatHookActionStartedContent(id=key, name=name, action_type="shell")
            self.turn.begin_hook(begun, self.call)

    def finished(self, key: str, name: str, ran: ActionResult, outcome: Outcome) -> None:
        hides = outcome.output.get("suppressOutput") is True
        error = "\n".join(each for each in (outcome.why, *outcome.problems) if each)
        if self._shows_hooks:
            self.turn.finish_hook(
                ChatHookActionFinishedContent(
                    id=key,
                    name=name,
                    action_type="shell",
                    status=ran.status,
                    output=None if hides else cut_middle(ran.stdout.strip(), _SHOWN) or None,
                    error=None if hides else cut_middle(error, _SHOWN) or None,
                    tool_call_id=self.call,
                )
            )
        elif outcome.fails:
            self.failed(name, outcome.why)

    def say(self, text: str) -> None:
        self.turn.report(text)

    @property
    def _shows_hooks(self) -> bool:
        return ChatHookActionStartedContent.window.written_in(self.turn.session.revision)


def _own_name(naming: Naming) -> str:
    """Return a tool's name at its server, without the model's prefix of native tools."""
    return naming.name.removeprefix(PREFIX) if naming.server == NATIVE else naming.name


def _framed(contexts: Sequence[tuple[str, str]]) -> tuple[TextPart, ...]:
    sections = [
        Section(name="hook", attributes={"name": name}, body=(text,)) for name, text in contexts
    ]
    return (TextPart(render(sections)),) if sections else ()
