"""Where a configured MCP server stands: an automaton, as a table (design decision 2)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["TRANSITIONS", "Input", "State"]


class State(enum.Enum):
    """The values are the protocol's, but for `STOPPING`, which is told once it is over."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"
    DISABLED = "disabled"
    REQUIRES_AUTH = "requires-auth"


class Input(enum.Enum):
    """What can happen to a server."""

    START = "the user or the configuration wants it"
    STOP = "the user or the configuration does not want it"
    READY = "it has told its tools"
    CRASHED = "it is gone, and is started again"
    FAULT = "it is gone, or cannot be used"
    LOGIN = "it wants the user to log in first"
    ENDED = "nothing of it is left"


def _transitions() -> Mapping[State, Mapping[Input, State]]:
    stopped, starting, running, stopping, failed, disabled, requires_auth = State
    start, stop, ready, crashed, fault, login, ended = Input
    return {
        stopped: {start: starting, stop: stopped},
        disabled: {start: starting, stop: disabled},
        failed: {start: starting, stop: stopped},
        requires_auth: {start: starting, stop: stopped},
        starting: {
            start: starting,
            ready: running,
            fault: failed,
            login: requires_auth,
            stop: stopping,
        },
        running: {
            start: running,
            crashed: starting,
            fault: failed,
            login: requires_auth,
            stop: stopping,
        },
        stopping: {start: stopping, stop: stopping, ended: stopped},
    }


TRANSITIONS: Final[Mapping[State, Mapping[Input, State]]] = MappingProxyType(_transitions())
"""A start while it stops is kept in mind: it is started when it has ended. What is not in the table
cannot happen: only the one task of a server reports what becomes of it."""
