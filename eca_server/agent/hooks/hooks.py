"""The hooks of an event, run one after the other, and their combined results.

Rules: hooks run in the order of their names; each receives the data as rewritten by the previous
ones; `"continue": false` skips the rest; approvals are only tightened (`deny` before `ask` before
`allow`).
"""

from __future__ import annotations

import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from eca_protocol import json
from eca_server.agent.hooks.action import ActionResult, Outcome, Verdict, parse_outcome, run_action
from eca_server.agent.tools.approval_rules import server_names, spellings
from eca_server.agent.tools.schemas import as_text
from eca_server.config.hook_settings import Hook, HookAction, HookEvent
from eca_server.config.matchers import compile_matcher, matches_name
from eca_server.config.tool_settings import ApprovalRule
from eca_server.system.child_process import chat_environment

_SECONDS = 0.1  # for one pattern; after that it counts as a match, since most hooks are guards

_log = logging.getLogger("eca_server.agent.hooks")

_RANKS: Final[Mapping[str | None, int]] = {None: 0, "allow": 1, "ask": 2, "deny": 3}
_REWRITES = {"replacedPrompt": "prompt", "updatedInput": "tool_input"}


@attrs.frozen(kw_only=True)
class ToolCallEvent:
    """The tool call of an event; `failed`: its output is an error."""

    server: str
    tool: str
    arguments: Mapping[str, Any]
    failed: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Every name of the tool and of its server."""
        return spellings(self.server, self.tool) | server_names(self.server)


def matches_event(
    hook: Hook, event: HookEvent, call: ToolCallEvent | None = None, triggered: str | None = None
) -> bool:
    """Return whether a hook runs at an event.

    `triggered`: the cause of the event's compaction, `manual` or `auto`.
    """
    if hook.type != event:
        return False
    if call is None:
        return triggered is None or not isinstance(hook.matcher, str) or hook.matcher == triggered
    if event == "postToolCall" and call.failed and not hook.run_on_error:
        return False
    match hook.matcher:
        case None:
            return True
        case str() as pattern:
            return _matches(pattern, f"{call.server}__{call.tool}")
        case selectors:
            return any(
                matches_name(selector, call.names) and _arguments_match(rule, call.arguments)
                for selector, rule in selectors.items()
            )


def _arguments_match(rule: ApprovalRule, arguments: Mapping[str, Any]) -> bool:
    return rule.is_damaged or all(
        name in arguments and any(_matches(each, as_text(arguments[name])) for each in patterns)
        for name, patterns in rule.args_matchers.items()
    )


def _matches(pattern: str, text: str) -> bool:
    matcher = compile_matcher(pattern, dot_is_all=True)
    try:
        return matcher.fullmatch(text, timeout=_SECONDS) is not None
    except TimeoutError:
        return True


class HookReporter(ABC):
    """Shows the user that hooks run."""

    def started(self, key: str, name: str) -> None:  # noqa: B027 - most clients show only failures
        """Show that a visible action has started."""

    def finished(self, key: str, name: str, result: ActionResult, outcome: Outcome) -> None:
        """Show that a visible action has ended."""
        if outcome.fails:
            self.failed(name, outcome.why)

    def failed(self, name: str, why: str) -> None:
        """Show that an action has failed."""
        self.say(f"The hook {name} failed: {why}")

    @abstractmethod
    def say(self, text: str) -> None:
        """Show a text, such as an action's `systemMessage`."""


@attrs.define(kw_only=True)
class HookResults:
    """The combined results of the hooks of an event.

    Attributes:
        payload: the event's data, with all rewrites.
        stopped_by: the hook that ended the turn, and its reason.
        approval: the strictest decision on the call, and its hook.
        replacement: the text that replaces a tool's output.
        follow_ups: further prompts for the model.
    """

    payload: dict[str, Any]
    blocked_by: tuple[str, str] | None = None
    stopped_by: tuple[str, str] | None = None
    approval: tuple[Verdict, str] | None = None
    denial_reasons: list[str] = attrs.field(factory=list)
    contexts: list[tuple[str, str]] = attrs.field(factory=list)
    replacement: str | None = None
    follow_ups: list[str] = attrs.field(factory=list)

    def add(self, name: str, outcome: Outcome) -> None:
        """Add the outcome of one more hook."""
        output = outcome.output
        for member, key in _REWRITES.items():
            if member in output:
                value = output[member]
                self.payload[key] = (
                    {**self.payload[key], **value} if member == "updatedInput" else value
                )
        approval = outcome.approval
        if approval is not None and _RANKS[approval] > _RANKS[self.approval and self.approval[0]]:
            self.approval = approval, name
        if outcome.blocks:
            self.blocked_by = self.blocked_by or (name, outcome.why)
            self.denial_reasons.append(outcome.why)
        elif approval == "deny":
            self.denial_reasons.append(output.get("additionalContext", ""))
        elif output.get("additionalContext"):
            self.contexts.append((name, output["additionalContext"]))
        if "replacedOutput" in output:
            self.replacement = output["replacedOutput"]
        if output.get("followUp"):
            self.follow_ups.append(output["followUp"])
        if outcome.stops:
            self.stopped_by = name, output.get("stopReason", "")


@attrs.frozen(kw_only=True)
class Hooks:
    """The configured hooks."""

    hooks: Mapping[str, Hook]
    directory: Path
    environment: Mapping[str, str] = attrs.field(repr=False)
    common_payload: Mapping[str, Any]

    def has(self, event: HookEvent) -> bool:
        """Return whether an event has a hook."""
        return any(hook.type == event for hook in self.hooks.values())

    async def fire(
        self,
        event: HookEvent,
        payload: Mapping[str, Any],
        reporter: HookReporter,
        call: ToolCallEvent | None = None,
    ) -> HookResults:
        """Run the hooks of an event and return their combined results.

        Args:
            event: the event.
            payload: the event's data for the hooks.
            reporter: shows the user that they run.
            call: the tool call of the event; its arguments are the payload's `tool_input`.
        """
        results = HookResults(payload=dict(payload))
        for name, hook in sorted(self.hooks.items()):
            if call is not None:
                call = attrs.evolve(call, arguments=results.payload["tool_input"])
            if not matches_event(hook, event, call, results.payload.get("triggered")):
                continue
            for number, action in enumerate(hook.actions, start=1):
                shown = name if len(hook.actions) == 1 else f"{name}-{number}"
                say = {
                    "hook_name": shown,
                    "hook_type": event,
                    **self.common_payload,
                    **results.payload,
                }
                outcome = await self._run_action(hook, action, say, reporter)
                results.add(shown, outcome)
                if results.stopped_by is not None:
                    return results
        return results

    async def _run_action(
        self, hook: Hook, action: HookAction, payload: Mapping[str, Any], reporter: HookReporter
    ) -> Outcome:
        key, name = str(uuid.uuid4()), payload["hook_name"]
        if hook.visible:
            reporter.started(key, name)
        result = await run_action(
            action,
            json.dumps(payload),
            directory=self.directory,
            environment=chat_environment(self.environment, str(payload.get("chat_id", ""))),
            timeout=(action.timeout or hook.timeout) / 1000,
        )
        outcome = parse_outcome(payload["hook_type"], result)
        # A condition that does not hold, as of `jq -e ... && notify`, is no failure.
        is_false = result.status == 1 and not result.stderr.strip()
        if hook.visible:
            reporter.finished(key, name, result, outcome)
        elif outcome.fails and not is_false:
            reporter.failed(name, outcome.why)
        for problem in outcome.problems:
            _log.warning("the hook %s: %s", name, problem)
        if outcome.output.get("systemMessage"):
            reporter.say(f"Hook '{name}': {outcome.output['systemMessage']}")
        return outcome
