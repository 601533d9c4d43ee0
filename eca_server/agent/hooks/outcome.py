"""The outcome of one hook action, parsed from its exit code and its outputs. Pure.

Rules: a JSON object counts with exit code 0 only; exit code 2 blocks; every other code is a failure
that changes nothing. A member of a wrong type, or one that the event does not support, is ignored
and reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_protocol import json
from eca_protocol.errors import ECAError
from eca_protocol.process import signal_name
from eca_server.agent.hooks.action import LARGEST, ActionResult
from eca_server.config.hook_settings import HookEvent
from eca_server.config.unknown import hint, nearest_key
from eca_server.models.calls import MAX_NESTING, is_too_deep

Verdict: TypeAlias = Literal["allow", "ask", "deny"]

BLOCKS: Final = 2
"""The exit code of an action that blocks."""

_BACKGROUND = frozenset({"continue"})
"""The members for events of background hooks: `"continue": false` only skips the hooks behind."""

_COMMON = frozenset({"systemMessage", "suppressOutput", "continue", "stopReason"})

EVENTS: Mapping[HookEvent, frozenset[str]] = MappingProxyType(
    {
        "sessionStart": _BACKGROUND,
        "sessionEnd": _BACKGROUND,
        "chatStart": _COMMON | {"additionalContext"},
        "chatEnd": _BACKGROUND,
        "chatStatusChanged": _BACKGROUND,
        "subagentStart": _COMMON | {"additionalContext"},
        "preRequest": _COMMON | {"additionalContext", "replacedPrompt"},
        "postRequest": _COMMON | {"followUp"},
        "subagentPostRequest": _COMMON | {"followUp"},
        "preToolCall": _COMMON | {"additionalContext", "updatedInput", "approval"},
        "postToolCall": _COMMON | {"additionalContext", "replacedOutput"},
        "preCompact": _COMMON,
        "postCompact": _COMMON | {"additionalContext"},
    }
)
"""The members of an action's JSON object that each event supports."""

_BLOCKABLE: frozenset[HookEvent] = frozenset(
    {
        "preRequest",
        "postRequest",
        "subagentPostRequest",
        "preToolCall",
        "postToolCall",
        "preCompact",
    }
)
"""The events that an action can block."""

_TYPES: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys(("systemMessage", "stopReason", "additionalContext"), (str, "a string")),
    **dict.fromkeys(("replacedPrompt", "followUp", "replacedOutput"), (str, "a string")),
    "approval": (str, "allow, ask or deny"),
    "suppressOutput": (bool, "true or false"),
    "continue": (bool, "true or false"),
    "updatedInput": (dict, "an object"),
}
_LONGEST_NAME = max(map(len, _TYPES)) + 2  # of a mistyped member
_VERDICTS = ("allow", "ask", "deny")


@attrs.frozen(kw_only=True)
class Outcome:
    """The outcome of an action.

    Attributes:
        blocks: exit code 2: the action blocks the event; `why` is the reason.
        fails: the action failed: its output is ignored.
        why: its stderr, or how it ended.
        output: the supported members of its JSON object, each of its type.
    """

    blocks: bool = False
    fails: bool = False
    why: str = ""
    output: Mapping[str, Any] = attrs.field(factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def stops(self) -> bool:
        """True if the remaining hooks are skipped and the turn ends."""
        return self.output.get("continue") is False

    @property
    def approval(self) -> Verdict | None:
        """The decision on the event's tool call; a block is a `deny`."""
        return "deny" if self.blocks else self.output.get("approval")


def parse_outcome(event: HookEvent, result: ActionResult) -> Outcome:
    """Return the outcome of an action from its result."""
    why = result.stderr.strip()
    if result.status == BLOCKS and event in _BLOCKABLE:
        return Outcome(blocks=True, why=why)
    if result.status != 0:
        if result.status > 0:
            ending = f"exit code {result.status}"
        else:
            ending = f"ended by {signal_name(result.status)}"
        return Outcome(fails=True, why=why or ending)
    if not result.stdout.lstrip().startswith("{"):
        return Outcome(why=why)
    if result.is_cut:
        return Outcome(
            why=why, problems=(f"its output is ignored: it wrote more than {LARGEST:,} bytes",)
        )
    try:
        written = json.loads(result.stdout.encode())
    except (ECAError, ValueError):
        return Outcome(why=why, problems=("its output is ignored: expected a JSON object",))
    output: dict[str, Any] = {}
    problems: list[str] = []
    for name in written:
        problem = _problem_with(event, name, written[name])
        if problem is not None:
            problems.append(problem)
        elif name in _TYPES:
            output[name] = written[name]
    return Outcome(why=why, output=output, problems=tuple(problems))


def _problem_with(event: HookEvent, name: str, value: object) -> str | None:
    """Return the problem of a member, or None."""
    if name not in _TYPES:  # a mistyped one; others are the hook's own
        is_like = len(name) <= _LONGEST_NAME and nearest_key(name, EVENTS[event])
        return f"{name}: {hint(name, EVENTS[event])}" if is_like else None
    if name not in EVENTS[event]:
        return f"{name}: ignored, {event} does not support it"
    kind, expected = _TYPES[name]
    if not isinstance(value, kind) or (name == "approval" and value not in _VERDICTS):
        return f"{name}: expected {expected}"
    if isinstance(value, dict) and is_too_deep(value):
        return f"{name}: expected at most {MAX_NESTING} levels of nesting"
    return None
