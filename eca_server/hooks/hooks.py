"""Runs the hooks of an event, one after the other, and gathers what they say together.

The rules it keeps: the order is that of their names; what one rewrites the next is told; what stops
ends the row; approvals are only tightened (`deny` before `ask` before `allow`).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from eca_protocol import json
from eca_server.child_process import chat_environment
from eca_server.config.hook_settings import Hook, HookAction, HookEvent
from eca_server.hooks.matching import ToolCalled, concerns
from eca_server.hooks.outcome import Outcome, Verdict, outcome_of
from eca_server.hooks.running import Ran, run_action

__all__ = ["Heard", "Hooks", "Stage"]

_log = logging.getLogger("eca_server.hooks")

_RANKS: Final[Mapping[str | None, int]] = {None: 0, "allow": 1, "ask": 2, "deny": 3}
_REWRITES = {"replacedPrompt": "prompt", "updatedInput": "tool_input"}


class Stage(Protocol):
    """Where the user sees that hooks run."""

    def started(self, key: str, name: str) -> None:
        """A visible action starts."""
        ...

    def finished(self, key: str, name: str, ran: Ran, outcome: Outcome) -> None:
        """It has ended."""
        ...

    def failed(self, name: str, why: str) -> None:
        """One that is not visible has failed."""
        ...

    def say(self, text: str) -> None:
        """A message of its own, also from what is not visible."""
        ...


@attrs.define(kw_only=True)
class Heard:
    """What the hooks of an event said together.

    Attributes:
        told: what the last of them was told: with all that was rewritten.
        blocked_by: the first that intervened, and why.
        stopped_by: the one that ended the row and the turn, and why.
        approval: the strictest word on the call, and whose it is.
        denied_why: what those who deny say about it.
        contexts: what they add, each with its hook's name.
        replaced: what stands in place of a tool's output.
        follow_ups: what the model is to be asked next.
    """

    told: dict[str, Any]
    blocked_by: tuple[str, str] | None = None
    stopped_by: tuple[str, str] | None = None
    approval: tuple[Verdict, str] | None = None
    denied_why: list[str] = attrs.field(factory=list)
    contexts: list[tuple[str, str]] = attrs.field(factory=list)
    replaced: str | None = None
    follow_ups: list[str] = attrs.field(factory=list)

    def add(self, name: str, outcome: Outcome) -> None:
        """What one more of them said."""
        says = outcome.says
        for member, key in _REWRITES.items():
            if member in says:
                value = says[member]
                self.told[key] = {**self.told[key], **value} if member == "updatedInput" else value
        approval = outcome.approval
        if approval is not None and _RANKS[approval] > _RANKS[self.approval and self.approval[0]]:
            self.approval = approval, name
        if outcome.blocks:
            self.blocked_by = self.blocked_by or (name, outcome.why)
            self.denied_why.append(outcome.why)
        elif approval == "deny":
            self.denied_why.append(says.get("additionalContext", ""))
        elif says.get("additionalContext"):
            self.contexts.append((name, says["additionalContext"]))
        if "replacedOutput" in says:
            self.replaced = says["replacedOutput"]
        if says.get("followUp"):
            self.follow_ups.append(says["followUp"])
        if outcome.stops:
            self.stopped_by = name, says.get("stopReason", "")


@attrs.frozen(kw_only=True)
class Hooks:
    """The configured hooks.

    Attributes:
        hooks: by name.
        directory: where they run.
        environment: all of it.
        told: what every one of them is told.
    """

    hooks: Mapping[str, Hook]
    directory: Path
    environment: Mapping[str, str] = attrs.field(repr=False)
    told: Mapping[str, Any]

    def has(self, event: HookEvent) -> bool:
        """Whether there is one for an event."""
        return any(hook.type == event for hook in self.hooks.values())

    async def fire(
        self,
        event: HookEvent,
        told: Mapping[str, Any],
        stage: Stage,
        call: ToolCalled | None = None,
    ) -> Heard:
        """Run those that an event concerns; what they say together.

        Args:
            event: what happens.
            told: what each is told of it.
            stage: where it is seen.
            call: that it is about; its arguments are the `tool_input` told.
        """
        heard = Heard(told=dict(told))
        for name, hook in sorted(self.hooks.items()):
            if call is not None:
                call = attrs.evolve(call, arguments=heard.told["tool_input"])
            if not concerns(hook, event, call, heard.told.get("triggered")):
                continue
            for number, action in enumerate(hook.actions, start=1):
                shown = name if len(hook.actions) == 1 else f"{name}-{number}"
                say = {"hook_name": shown, "hook_type": event, **self.told, **heard.told}
                outcome = await self._run(hook, action, say, stage)
                heard.add(shown, outcome)
                if heard.stopped_by is not None:
                    return heard
        return heard

    async def _run(
        self, hook: Hook, action: HookAction, told: Mapping[str, Any], stage: Stage
    ) -> Outcome:
        key, name = str(uuid.uuid4()), told["hook_name"]
        if hook.visible:
            stage.started(key, name)
        ran = await run_action(
            action,
            json.dumps(told),
            directory=self.directory,
            environment=chat_environment(self.environment, str(told.get("chat_id", ""))),
            timeout=(action.timeout or hook.timeout) / 1000,
        )
        outcome = outcome_of(told["hook_type"], ran)
        if hook.visible:
            stage.finished(key, name, ran, outcome)
        elif outcome.fails:
            stage.failed(name, outcome.why)
        for problem in outcome.problems:
            _log.warning("the hook %s: %s", name, problem)
        if outcome.says.get("systemMessage"):
            stage.say(f"Hook '{name}': {outcome.says['systemMessage']}")
        return outcome
