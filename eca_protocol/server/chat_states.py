"""The transitions of a chat on a prompt, a stop, a delete and the end of its turn: one table.

A chat has one turn at a time. Rulings W-20 to W-24: a prompt to a busy chat queues, a stop ends
the running turn and empties the queue, a deleted chat writes nothing more.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from eca_protocol.messages import ChatStatus


class ChatState(enum.Enum):
    """The state of a chat."""

    IDLE = "idle"
    RUNNING = "running"
    STOPPING = "stopping"
    DELETED = "deleted"


class Input(enum.Enum):
    """An event in a chat."""

    PROMPT = "prompt"
    STOP = "stop"
    DELETE = "delete"
    ENDED = "the turn's body ended"


class Action(enum.Enum):
    """The chat's reaction to an event."""

    BEGIN = "begin a turn"
    QUEUE = "queue the prompt"
    CANCEL = "cancel the turn and empty the queue"
    SILENCE = "cancel everything and write nothing more"
    CLOSE = "close the turn, then begin the next one"
    NOTHING = "nothing"


_Step: TypeAlias = tuple[Action, ChatState]


def _transitions() -> Mapping[ChatState, Mapping[Input, _Step]]:
    idle, running, stopping, deleted = ChatState
    begin, queue, cancel, silence, close, nothing = Action

    def row(prompt: _Step, stop: _Step, delete: _Step, ended: _Step) -> Mapping[Input, _Step]:
        return dict(zip(Input, (prompt, stop, delete, ended), strict=True))

    return {
        idle: row((begin, running), (nothing, idle), (silence, deleted), (nothing, idle)),
        running: row((queue, running), (cancel, stopping), (silence, deleted), (close, idle)),
        stopping: row((queue, stopping), (cancel, stopping), (silence, deleted), (close, idle)),
        deleted: dict.fromkeys(Input, (nothing, deleted)),
    }


TRANSITIONS: Mapping[ChatState, Mapping[Input, _Step]] = MappingProxyType(_transitions())

STATUSES: Mapping[ChatState, ChatStatus] = MappingProxyType(
    {
        ChatState.IDLE: "idle",
        ChatState.RUNNING: "running",
        ChatState.STOPPING: "stopping",
        ChatState.DELETED: "idle",
    }
)
"""The protocol's status of each state."""
