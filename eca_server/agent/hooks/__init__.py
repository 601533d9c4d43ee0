"""Hooks: the user's own commands, run at chat events, whose output can change what follows."""

from __future__ import annotations

from eca_server.agent.hooks.action import ActionResult, run_action
from eca_server.agent.hooks.background import BackgroundHooks
from eca_server.agent.hooks.hooks import HookReporter, HookResults, Hooks
from eca_server.agent.hooks.matching import ToolCallEvent, matches_event
from eca_server.agent.hooks.outcome import EVENTS, Outcome, parse_outcome

__all__ = [
    "EVENTS",
    "ActionResult",
    "BackgroundHooks",
    "HookReporter",
    "HookResults",
    "Hooks",
    "Outcome",
    "ToolCallEvent",
    "matches_event",
    "parse_outcome",
    "run_action",
]
