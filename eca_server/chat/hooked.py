"""The hooks of one turn: what they are told of it, and what their word changes.

The rules it keeps: a hook tightens what is decided about a call and never loosens it; what one adds
stands in the frame of contexts; each that was shown to start is shown to end, also by a stop.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSet, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol.messages import ChatHookActionFinishedContent, ChatHookActionStartedContent
from eca_server.chat.chat import Chat
from eca_server.chat.states import ChatState
from eca_server.chat.tool_call import Naming
from eca_server.chat.turn import Steer, Turn
from eca_server.config.hook_settings import HookEvent
from eca_server.content_formatting import NATIVE, PREFIX
from eca_server.context.block import Section, render
from eca_server.hooks import (
    ActionResult,
    BackgroundHooks,
    HookResults,
    Hooks,
    Outcome,
    ToolCallEvent,
)
from eca_server.llm.history import Message, TextPart
from eca_server.tools.approval import Decision, Verdict
from eca_server.tools.output import Cap, cut_middle
from eca_server.tools.tool import ToolOutput

__all__ = ["HeardOfCall", "Trigger", "TurnHooks"]

Trigger: TypeAlias = Literal["manual", "auto"]
"""What a compaction is due to: `/compact`, or a request that would be too long."""

_MOST_FOLLOW_UPS = 10
_SHOWN = Cap(size=4 * 1024)  # of what a hook wrote; what it says is read from all of it
_HIDDEN = "[Tool output hidden by hook]"
_NOT_RUN = "It did not run: the user's hook ended this turn."


@attrs.frozen(kw_only=True)
class HeardOfCall:
    """What hooks say of a call before it runs.

    Attributes:
        arguments: the model's, as hooks rewrote them.
        refusal: why it must not run, for the model; None: it may, as far as they are asked.
        asks: the hook that wants the user asked.
    """

    arguments: Mapping[str, Any]
    refusal: str | None = None
    asks: str | None = None

    def tightened(self, decision: Decision) -> Decision:
        """What becomes of the call; a refusal is a rejection, whatever else was decided."""
        if self.refusal is not None:
            return attrs.evolve(decision, verdict="deny")
        if self.asks is not None and decision.verdict == "allow":
            return Decision(verdict="ask", rule=f"asked for by the hook {self.asks}")
        return decision


class TurnHooks:
    """The hooks of a turn.

    Args:
        hooks: the configured ones.
        turn: the turn.
        told: what each is told of the chat.
        greeted: the chats that have what `chatStart` says in their history.
        beside: runs those at the chat's start, which a delete of the chat does not cut short.

    Attributes:
        stopped: one of them has ended the turn.
    """

    def __init__(
        self,
        hooks: Hooks,
        turn: Turn,
        told: Mapping[str, Any],
        greeted: MutableSet[Chat],
        beside: BackgroundHooks,
    ) -> None:
        self.stopped = False
        self._hooks = hooks
        self._turn = turn
        self._told = told
        self._greeted = greeted
        self._beside = beside
        self._is_subagents = turn.chat.parent_id is not None
        self._follow_ups = 0

    async def before_request(self, asked: Message) -> tuple[Sequence[TextPart], Message] | None:
        """What goes before the user's message, and that message; None: it is not sent."""
        contexts: list[tuple[str, str]] = []
        chat = self._turn.chat
        if self._is_subagents or chat not in self._greeted or not chat.history:
            heard = await self._start()
            contexts += heard.contexts
            if self._ends_with(heard):
                return None
        *others, last = asked.parts
        said = last.text if isinstance(last, TextPart) else self._turn.prompt.text
        heard = await self._hooks.fire(
            "preRequest", {**self._told, "prompt": said}, _Stage(self._turn)
        )
        if self._ends_with(heard):
            return None
        if heard.blocked_by is not None:
            name, why = heard.blocked_by
            self._turn.fail(f"Request blocked by hook '{name}'{': ' + why if why else '.'}")
            return None
        if heard.payload["prompt"] != said:
            self._turn.about = heard.payload["prompt"]
            last = TextPart(self._turn.about) if isinstance(last, TextPart) else last
        return _framed([*contexts, *heard.contexts]), attrs.evolve(asked, parts=(*others, last))

    async def _start(self) -> HookResults:
        if self._is_subagents:
            return await self._hooks.fire("subagentStart", self._told, _Stage(self._turn))
        chat = self._turn.chat
        told = {**self._told, "resumed": bool(chat.history)}
        if not self._hooks.has("chatStart"):
            return HookResults(payload=told)
        run = partial(self._hooks.fire, "chatStart", told, _Stage(self._turn))
        return await self._beside.run_start(chat.id, run, lambda: chat.state is ChatState.DELETED)

    def was_told(self) -> None:
        """The message with what they add is the chat's from now on."""
        self._greeted.add(self._turn.chat)

    async def hear_steers(self) -> None:
        """Ask those who are asked of prompts about all that is said to the turn that runs, once.

        What they let through the turn takes; what they do not the user is told.
        """
        steers = self._turn.steers
        while steer := next((e for e in steers if e.parts is None and e.command is None), None):
            heard = await self._hooks.fire(
                "preRequest", {**self._told, "prompt": steer.text}, _Stage(self._turn)
            )
            if steer not in steers:
                continue  # it was taken back meanwhile
            if self._ends_with(heard):
                return
            place = steers.index(steer)
            if heard.blocked_by is None:
                parts = (*_framed(heard.contexts), TextPart(heard.payload["prompt"]))
                steers[place] = attrs.evolve(steer, parts=parts)
            else:
                del steers[place]
                name, why = heard.blocked_by
                words = f"Blocked by hook '{name}'{': ' + why if why else '.'}\n\n{steer.text}"
                self._turn.say(words, role="system")

    async def after_request(self, response: str) -> None:
        """The model has no more to say; what a hook wants to follow is said to it as a steer."""
        told = {
            **self._told,
            "response": response,
            "follow_up_active": self._follow_ups > 0,
        }
        event: HookEvent = "subagentPostRequest" if self._is_subagents else "postRequest"
        heard = await self._hooks.fire(event, told, _Stage(self._turn))
        if self._ends_with(heard):
            return
        follow_ups = [*heard.follow_ups, *(heard.blocked_by[1:] if heard.blocked_by else ())]
        text = "\n\n".join(each for each in follow_ups if each)
        if text and self._follow_ups < _MOST_FOLLOW_UPS:
            self._follow_ups += 1
            self._turn.steers.append(Steer(text=text, parts=(TextPart(text),)))
        elif text:
            self._turn.fail(f"Hooks went on {_MOST_FOLLOW_UPS} times, so this turn ends here.")

    async def before_compaction(self, triggered: Trigger, wish: str) -> bool:
        """Whether the chat may be compacted; if not, the user was told."""
        told = {**self._told, "triggered": triggered, "custom_instructions": wish}
        heard = await self._hooks.fire("preCompact", told, _Stage(self._turn))
        if self._ends_with(heard):
            return False
        if heard.blocked_by is not None:
            blocked = f"Compaction blocked by hook '{heard.blocked_by[0]}'."
            self._turn.say(blocked, role="system")
        return heard.blocked_by is None

    async def after_compaction(self, triggered: Trigger, summary: str) -> Sequence[TextPart]:
        """What goes behind the summary."""
        told = {**self._told, "triggered": triggered, "compact_summary": summary}
        heard = await self._hooks.fire("postCompact", told, _Stage(self._turn))
        self._ends_with(heard)
        return _framed(heard.contexts)

    async def before_call(
        self, naming: Naming, arguments: Mapping[str, Any], verdict: Verdict
    ) -> HeardOfCall:
        """What hooks say of a call that was looked at and is not denied."""
        if self.stopped:
            return HeardOfCall(arguments=arguments, refusal=_NOT_RUN)
        told = {**self._told_of_call(naming, arguments), "approval": verdict}
        heard = await self._fire_of_call("preToolCall", told, naming, arguments)
        refusal = asks = None
        if self._ends_with(heard):
            refusal = _NOT_RUN
        elif heard.approval is not None and heard.approval[0] == "deny":
            why = "\n".join(each for each in heard.denial_reasons if each)
            refusal = why or f"Denied by the hook {heard.approval[1]}. Do not repeat it."
        elif heard.approval is not None and heard.approval[0] == "ask":
            asks = heard.approval[1]
        return HeardOfCall(arguments=heard.payload["tool_input"], refusal=refusal, asks=asks)

    async def after_call(
        self, naming: Naming, arguments: Mapping[str, Any], output: ToolOutput
    ) -> ToolOutput:
        """The output as hooks want the model to have it."""
        texts = [part.text for part in output.parts if isinstance(part, TextPart)]
        told = {
            **self._told_of_call(naming, arguments),
            "tool_response": "\n".join(texts),
            "error": output.is_error,
        }
        heard = await self._fire_of_call(
            "postToolCall", told, naming, arguments, failed=output.is_error
        )
        self._ends_with(heard)
        parts = output.parts
        if heard.blocked_by is not None:
            parts = (TextPart(heard.blocked_by[1] or _HIDDEN),)
        elif heard.replacement is not None:
            parts = (TextPart(heard.replacement or _HIDDEN),)
        return attrs.evolve(output, parts=(*parts, *_framed(heard.contexts)))

    async def _fire_of_call(
        self,
        event: HookEvent,
        told: Mapping[str, Any],
        naming: Naming,
        arguments: Mapping[str, Any],
        *,
        failed: bool = False,
    ) -> HookResults:
        call = ToolCallEvent(
            server=naming.server, tool=_own_name(naming), arguments=arguments, failed=failed
        )
        return await self._hooks.fire(event, told, _Stage(self._turn, naming.id), call)

    def _told_of_call(self, naming: Naming, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **self._told,
            "tool_name": _own_name(naming),
            "server": naming.server,
            "tool_input": dict(arguments),
            "tool_call_id": naming.id,
        }

    def _ends_with(self, heard: HookResults) -> bool:
        """Whether the turn ends here; the user is told whose word it is."""
        if heard.stopped_by is not None:
            name, reason = heard.stopped_by
            self.stopped = True
            self._turn.fail(f"Turn stopped by hook '{name}'{': ' + reason if reason else '.'}")
        return self.stopped


@attrs.frozen
class _Stage:
    """The chat, as far as its client's edition shows hooks; else words about what matters."""

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

    def failed(self, name: str, why: str) -> None:
        self.say(f"The hook {name} failed: {why}")

    def say(self, text: str) -> None:
        self.turn.say(text, role="system")

    @property
    def _shows_hooks(self) -> bool:
        return ChatHookActionStartedContent.window.written_in(self.turn.chat.session.revision)


def _own_name(naming: Naming) -> str:
    """A tool's name at its server: without the prefix by which a model calls a native one."""
    return naming.name.removeprefix(PREFIX) if naming.server == NATIVE else naming.name


def _framed(contexts: Sequence[tuple[str, str]]) -> tuple[TextPart, ...]:
    """What hooks add, as the model is given it."""
    sections = [
        Section(name="hook", attributes={"name": name}, body=(text,)) for name, text in contexts
    ]
    return (TextPart(render(sections)),) if sections else ()
