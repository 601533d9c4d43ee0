"""Hooks: the user's own commands, run at certain moments of a chat, with a say in what follows."""

from __future__ import annotations

from eca_server.hooks.beside import Beside
from eca_server.hooks.hooks import Heard, Hooks, Stage
from eca_server.hooks.matching import ToolCalled, concerns
from eca_server.hooks.outcome import EVENTS, Outcome, outcome_of
from eca_server.hooks.running import Ran, run_action

__all__ = [
    "EVENTS",
    "Beside",
    "Heard",
    "Hooks",
    "Outcome",
    "Ran",
    "Stage",
    "ToolCalled",
    "concerns",
    "outcome_of",
    "run_action",
]
