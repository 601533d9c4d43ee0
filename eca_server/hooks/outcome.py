"""What one action of a hook says, from its exit code and its outputs. Pure.

The rules it keeps: only exit code 0 gives a JSON object a meaning, only 2 intervenes, every other
one is a failure that changes nothing; a member of a wrong type, or one that the event does not
honour, counts as absent and is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_protocol import json
from eca_protocol.errors import ECAError
from eca_server.config.hook_settings import HookEvent
from eca_server.hooks.running import LARGEST, Ran
from eca_server.llm.calls import MAX_NESTING, is_too_deep

__all__ = ["BLOCKS", "EVENTS", "Outcome", "Verdict", "outcome_of"]

Verdict: TypeAlias = Literal["allow", "ask", "deny"]

BLOCKS: Final = 2
"""The exit code by which an action intervenes."""

_BESIDE = frozenset({"continue"})
"""Nothing waits for the hooks at these events: `false` keeps those behind from running, no more."""

_COMMON = frozenset({"systemMessage", "suppressOutput", "continue", "stopReason"})

EVENTS: Mapping[HookEvent, frozenset[str]] = MappingProxyType(
    {
        "sessionStart": _BESIDE,
        "sessionEnd": _BESIDE,
        "chatStart": _COMMON | {"additionalContext"},
        "chatEnd": _BESIDE,
        "chatStatusChanged": _BESIDE,
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
"""The members that each event honours in what an action writes."""

_BLOCKED: frozenset[HookEvent] = frozenset(
    {
        "preRequest",
        "postRequest",
        "subagentPostRequest",
        "preToolCall",
        "postToolCall",
        "preCompact",
    }
)
"""The events in which an action can intervene: at others there is nothing yet, or no more."""

_TYPES: Mapping[str, tuple[type, str]] = {
    "systemMessage": (str, "a string"),
    "stopReason": (str, "a string"),
    "additionalContext": (str, "a string"),
    "replacedPrompt": (str, "a string"),
    "followUp": (str, "a string"),
    "replacedOutput": (str, "a string"),
    "approval": (str, "allow, ask or deny"),
    "suppressOutput": (bool, "true or false"),
    "continue": (bool, "true or false"),
    "updatedInput": (dict, "an object"),
}
_VERDICTS = ("allow", "ask", "deny")


@attrs.frozen(kw_only=True)
class Outcome:
    """What an action says.

    Attributes:
        blocks: it intervenes; `why` says why.
        fails: it ended with another exit code; nothing else of it counts.
        why: what it wrote to stderr.
        says: the members of its JSON object that are honoured, each of its type.
        problems: what is wrong with the others.
    """

    blocks: bool = False
    fails: bool = False
    why: str = ""
    says: Mapping[str, Any] = attrs.field(factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def stops(self) -> bool:
        """Whether no other hook runs, and the turn ends."""
        return self.says.get("continue") is False

    @property
    def approval(self) -> Verdict | None:
        """What it says of a call; a block is a `deny`."""
        return "deny" if self.blocks else self.says.get("approval")


def outcome_of(event: HookEvent, ran: Ran) -> Outcome:
    """What an action says that ended like this."""
    why = ran.stderr.strip()
    if ran.status == BLOCKS and event in _BLOCKED:
        return Outcome(blocks=True, why=why)
    if ran.status != 0:
        how = f"exit code {ran.status}" if ran.status > 0 else f"ended by signal {-ran.status}"
        return Outcome(fails=True, why=why or how)
    if not ran.stdout.lstrip().startswith("{"):
        return Outcome(why=why)
    if ran.is_cut:
        return Outcome(why=why, problems=(f"it wrote more than {LARGEST:,} bytes: none counts",))
    try:
        said = json.loads(ran.stdout.encode())
    except (ECAError, ValueError):
        return Outcome(why=why, problems=("expected a JSON object, got something else",))
    says: dict[str, Any] = {}
    problems: list[str] = []
    for name in _TYPES.keys() & said.keys():
        fault = _fault(event, name, said[name])
        if fault is None:
            says[name] = said[name]
        else:
            problems.append(fault)
    return Outcome(why=why, says=says, problems=tuple(problems))


def _fault(event: HookEvent, name: str, value: object) -> str | None:
    """What is wrong with a member."""
    if name not in EVENTS[event]:
        return f"{name}: {event} does not know it"
    kind, expected = _TYPES[name]
    if not isinstance(value, kind) or (name == "approval" and value not in _VERDICTS):
        return f"{name}: expected {expected}"
    if isinstance(value, dict) and is_too_deep(value):
        return f"{name}: expected at most {MAX_NESTING} levels of nesting"
    return None
