"""Matching of hooks with events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from eca_protocol import json
from eca_server.agent.tools.approval_rules import spellings
from eca_server.client.content_formatting import NATIVE
from eca_server.config.hook_settings import Hook, HookEvent
from eca_server.config.matchers import compile_matcher, matches_name
from eca_server.config.tool_settings import ApprovalRule

_SECONDS = 0.1  # for one pattern; after that it counts as a match, since most hooks are guards


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
        servers = {NATIVE, "ECA"} if self.server == NATIVE else {self.server}
        return spellings(self.server, self.tool) | servers


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
        name in arguments and any(_matches(each, _text_of(arguments[name])) for each in patterns)
        for name, patterns in rule.args_matchers.items()
    )


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value).decode()


def _matches(pattern: str, text: str) -> bool:
    try:
        return (
            compile_matcher(pattern, dot_is_all=True).fullmatch(text, timeout=_SECONDS) is not None
        )
    except TimeoutError:
        return True
