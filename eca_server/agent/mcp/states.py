"""The state machine of a configured MCP server, as a table."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class State(enum.Enum):
    """A state; the values are the protocol's, but for `STOPPING` (`Server.status` is announced)."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"
    DISABLED = "disabled"
    REQUIRES_AUTH = "requires-auth"


class Input(enum.Enum):
    """An event of a server."""

    START = "the user or the configuration starts it"
    STOP = "the user or the configuration stops it"
    READY = "it has listed its tools"
    CRASHED = "it has ended, and is restarted"
    FAILED = "it has ended, or cannot be used"
    LOGIN = "it requires a login"
    ENDED = "its process has ended"


def _transitions() -> Mapping[State, Mapping[Input, State]]:
    stopped, starting, running, stopping, failed, disabled, requires_auth = State
    start, stop, ready, crashed, failure, login, ended = Input
    return {
        stopped: {start: starting, stop: stopped},
        disabled: {start: starting, stop: disabled},
        failed: {start: starting, stop: stopped},
        requires_auth: {start: starting, stop: stopped},
        starting: {
            start: starting,
            ready: running,
            crashed: starting,
            failure: failed,
            login: requires_auth,
            stop: stopping,
        },
        running: {
            start: running,
            crashed: starting,
            failure: failed,
            login: requires_auth,
            stop: stopping,
        },
        stopping: {start: stopping, stop: stopping, ended: stopped},
    }


TRANSITIONS: Final[Mapping[State, Mapping[Input, State]]] = MappingProxyType(_transitions())
"""A start while it stops is remembered: it is started when it has ended. Other transitions cannot
happen: only the one task of a server reports events."""
